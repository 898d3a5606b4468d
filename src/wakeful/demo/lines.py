"""A file of JSON lines that several processes add to, and that outlives all of them: how the outside world is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def add_line(path: str | Path, entry: dict[str, Any]) -> None:
    """Add a line in one unbuffered write: a kill leaves it whole or leaves nothing of it."""
    with Path(path).open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


class Lines:
    """Reads such a file as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0

    def added(self) -> Iterator[dict[str, Any]]:
        """The lines that were added since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is being written
                self._position += len(line)
                yield json.loads(line)
