"""Notes: what the column `result` of a step holds while the step has no result yet.

    waiting      JSON: for what it waits, and until when
    retrying     when it is tried again
    failed       the note of a wait whose time was over stays

The state of a step is readable, and whoever can write to the database can change it. So a note says itself that it is one: it begins
with a space. Results are JSON that Wakeful has written, which never does, and readers of notes, those of earlier versions too,
skip it.
"""

from __future__ import annotations

from typing import Final

from pydantic_core import from_json

MARK: Final = " "
_LAST_OF_A_WAIT = ('"limited":true}', '"limited":false}')
# Earlier versions did not mark their notes. These have fields that no result has together.
_FIELDS_OF_WAITS = (
    {"question", "to", "approval", "until", "limited"},
    {"event", "until", "limited"},
    {"child", "agent", "until", "limited"},
)


def note(text: str) -> str:
    """A text as the note of a step that is not done."""
    return MARK + text


def is_misplaced(state: str, result: str) -> bool:
    """Is it a note that no step in this state has?"""
    if state == "failed":
        return False
    if result.startswith(MARK):
        return state != ("waiting" if result[1] == "{" else "retrying")
    return state != "waiting" and _is_unmarked_wait(result)


def _is_unmarked_wait(result: str) -> bool:
    if not result.endswith(_LAST_OF_A_WAIT):
        return False
    told = from_json(result)
    return isinstance(told, dict) and told.keys() in _FIELDS_OF_WAITS
