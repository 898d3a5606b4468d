"""A command that is killed at a moment: `dying_command.py MOMENT command …`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from wakeful.cli import main
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.keeping import RemoveArchived


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(moment: str) -> None:
    if moment == "before the file has its name":
        Path.rename = die  # type: ignore[assignment, method-assign]
        return
    made = DatabaseStore.__init__
    wanted = {"before the removal": "before", "during the removal": "within"}[moment]

    def probe(point: str, requests: Any) -> None:
        if point == wanted and any(isinstance(one, RemoveArchived) for one in requests):
            die()

    def watched(self: DatabaseStore, database: Any, **_: Any) -> None:
        made(self, database, probe=probe)

    DatabaseStore.__init__ = watched  # type: ignore[method-assign]


if __name__ == "__main__":
    die_at(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
