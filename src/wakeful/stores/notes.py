"""Marks in encrypted payloads: trailing or leading spaces that repeat a fact which a row's readable columns could be changed to hide.

Notes: the content of a step's `result` column while the step has no result.

    waiting      JSON: what the step waits for, and until when
    retrying     when the step is retried
    failed       a wait that timed out keeps its note

The state of a step is readable, and anyone with write access to the database can change it. So a note marks itself: it begins with a
space. A result never does, because it is JSON that Wakeful wrote. Readers of notes, also those of earlier versions, skip the space.

Effects: their arguments end with one space, and with two if the effect was held when it was opened. Such an effect continues only by a
person's decision, which is stored as a payload too (`settlement`). A result also proves that decision: it is stored by the person who
gives it, or by the call that the person allowed, and both need the key. A version before migration 0019 stores no `settlement`, so an
effect that it settled without a result looks like one whose state was changed in the database: a person settles it again.
"""

from __future__ import annotations

from typing import Final

from pydantic_core import from_json

from wakeful.model import Effect, EffectState, Opened

MARK: Final = " "
_LAST_OF_A_WAIT = ('"limited":true}', '"limited":false}')
# Earlier versions did not mark their notes. A note is recognised by a set of fields that no result has.
_FIELDS_OF_WAITS = (
    {"question", "to", "approval", "until", "limited"},
    {"event", "until", "limited"},
    {"child", "agent", "until", "limited"},
)


def note(text: str) -> str:
    """A text in the form of a note of an unfinished step."""
    return MARK + text


def is_misplaced(state: str, result: str) -> bool:
    """Whether this is a note that a step in this state cannot have."""
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
    """The arguments of an effect in the form in which they are stored when it is opened."""
    return effect.arguments + MARK * (2 if effect.state == "held" else 1)


def opened(arguments: str) -> tuple[str, Opened | None]:
    """The arguments without the mark, and how the effect was opened."""
    if not arguments.endswith(MARK):
        return arguments, None
    return arguments.rstrip(MARK), "held" if arguments.endswith(MARK * 2) else "begun"


# By the state that a person gave an effect: the states that it can have afterwards.
_AFTER: Final[dict[EffectState, frozenset[EffectState]]] = {
    "confirmed": frozenset({"confirmed", "undone", "held"}),
    "abandoned": frozenset({"abandoned"}),
}


def unsettled(effect: Effect) -> str | None:
    """Why it is not known that Wakeful stored an effect's state; None if it is known. Only a person's decision, which needs the key to be
    stored, lets an effect continue that was held when it was opened, or confirms one without a result.
    """
    if effect.opened_as is None:
        return None
    if effect.state not in _AFTER.get(effect.settlement or "held", {effect.state}):
        return f"it is {effect.state}, but a person settled it as {effect.settlement}"
    if effect.settlement is not None:
        return None
    proved = bool(effect.result) and effect.state in {"confirmed", "undone"}  # a genuine result is never empty
    if effect.opened_as == "held" and effect.state not in {"held", "abandoned"} and not proved:
        return f"it is {effect.state}, but it was held from the start and no person's decision is stored"
    if effect.state == "confirmed" and not proved:
        return "it is confirmed without a result, but no person's decision is stored"
    return None
