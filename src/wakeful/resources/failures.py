"""A stored error as text: on one line in lists, with the lines of its message where there is room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.resources.words import failure_line, plain

__all__ = ["failure_line"]  # re-exported for commands that are not generated from the table

MOST_LINES = 12  # the error of a command has 11: its exit code and the last 10 lines of its output


def failure_lines(error: Mapping[str, Any]) -> list[str]:
    """The lines of an error, indented after the first. If lines are left out, the last line says how many."""
    first, *others = str(error.get("message") or "").rstrip().splitlines() or [""]
    lines = [plain(f"{error.get('type')}: {first}"), *(f"  {plain(line)}".rstrip() for line in others)]
    left = len(lines) - MOST_LINES
    return lines if left <= 0 else [*lines[:MOST_LINES], f"  … {left} more {'line' if left == 1 else 'lines'}"]
