"""Marks in payloads: spaces that say of a row what its readable columns could be changed to hide.

Notes: what the column `result` of a step holds while the step has no result yet.

    waiting      JSON: for what it waits, and until when
    retrying     when it is tried again
    failed       the note of a wait whose time was over stays

The state of a step is readable, and whoever can write to the database can change it. So a note says itself that it is one: it begins
with a space. Results are JSON that Wakeful has written, which never does, and readers of notes, those of earlier versions too,
skip it.

Effects: their arguments end with a space, and with two if the effect was held when it was opened. Such an effect goes on by a person's
word alone, which is stored as a payload too (`settlement`).
"""

from __future__ import annotations

from typing import Final

from pydantic_core import from_json

from wakeful.model import Effect, EffectState, Opened

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


def opening(effect: Effect) -> str:
    """The arguments of an effect as they are stored when it is opened."""
    return effect.arguments + MARK * (2 if effect.state == "held" else 1)


def opened(arguments: str) -> tuple[str, Opened | None]:
    """The arguments again, and how the effect was opened."""
    if not arguments.endswith(MARK):
        return arguments, None
    return arguments.rstrip(MARK), "held" if arguments.endswith(MARK * 2) else "begun"


# By the state that a person gave an effect: the states that it can have after that.
_AFTER: Final[dict[EffectState, frozenset[EffectState]]] = {
    "confirmed": frozenset({"confirmed", "undone", "held"}),
    "abandoned": frozenset({"abandoned"}),
}


def unsettled(effect: Effect) -> str | None:
    """Why the state of an effect cannot be what Wakeful stored; None if it can. Only a person's word, which needs the key, lets an
    effect go on that was held when it was opened, or confirms one without a result.
    """
    if effect.opened_as is None:
        return None
    if effect.state not in _AFTER.get(effect.settlement or "held", {effect.state}):
        return f"it is {effect.state}, and a person said {effect.settlement}"
    if effect.settlement is not None:
        return None
    if effect.opened_as == "held" and effect.state not in {"held", "abandoned"}:
        return f"it is {effect.state}, it was held from the start, and no person let it go on"
    if effect.state == "confirmed" and effect.result is None:
        return "it is confirmed without a result, and no person said so"
    return None
