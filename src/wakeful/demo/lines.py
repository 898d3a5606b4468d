"""A file of JSON lines that several processes add to, and that outlives all of them: how the outside world is counted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def add_line(path: str | Path, entry: dict[str, Any]) -> None:
    """Add a line in one write: it is there whole or not at all, whatever happens to this process afterwards."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(handle)


class Lines:
    """Reads such a file as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0

    def added(self) -> list[dict[str, Any]]:
        """What was added since the last time."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._position)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._position += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
