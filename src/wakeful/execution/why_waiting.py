"""Why a run waits out of memory, in words, and until when: durable waits first, then steps and effects that are retried
(what fails, since when, with which error, and until when it is retried).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.clock import to_second as time_text
from wakeful.execution.ledger import EffectLedger
from wakeful.execution.record import Record
from wakeful.model import Effect, Step

ERROR_SHOWN = 200


def earliest_wait(record: Record, ledger: EffectLedger) -> Microseconds | None:
    """When the first wait of a step or an effect is over; None if there is none."""
    pending = [int(step.result or 0) for step in record.retrying.values()]
    pending += ledger.due.values()
    pending += [from_json(step.result or "{}")["until"] for step in record.waiting.values()]
    return min(pending) if pending else None


def why_waiting(record: Record, ledger: EffectLedger) -> str:
    """The reason of a run that waits."""
    if record.waiting:
        words = [in_words(step) for step in record.waiting.values()]
        return words[0] if len(words) == 1 else f"{words[0]}, and {len(words) - 1} more"
    if not record.retrying and ledger.follows:
        return next(iter(ledger.follows.values()))[1].removeprefix("once: ")
    if not record.retrying and ledger.due:
        return why_retrying([ledger.find(one) for one in ledger.due], [])
    return why_retrying([], record.retrying.values())


def in_words(step: Step) -> str:
    """What a run waits for, in words."""
    told = from_json(step.result or "{}")
    if "event" in told:
        awaited = told["event"]
        about = f" about {awaited['subject']}" if awaited["subject"] else ""
        come = f" from {awaited['source']}" if awaited.get("source") else ""
        return f"waits for event {awaited['type']}{about}{come}"
    if "child" in told:
        return f"waits for run {told['child']} of agent {told['agent']}"
    if "question" in told:
        whom = f" {told['to']}" if told["to"] else ""
        return f"asks{whom}: {told['question']}"
    return "sleeps"


def why_retrying(effects: Iterable[Effect | None], steps: Iterable[Step]) -> str:
    """The reason of a run that waits until a step or an effect is retried."""
    told = [(f"step {step.name}", step.error) for step in steps]
    told += [(f"effect {effect.action}", effect.error) for effect in effects if effect is not None]
    if not told:
        return "something waits to be tried again"
    what, error = told[0]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    stored = from_json(error or "{}")
    if not stored.get("type"):
        return f"{what}{more} waits to be tried again"
    return f"{what}{more} {trouble_in_words(stored)}"


def trouble_in_words(stored: dict[str, Any]) -> str:
    """What is wrong, from a stored error: since when, and what ends it."""
    words = f"{stored.get('type')}: {str(stored.get('message', '')).partition(chr(10))[0]}"[:ERROR_SHOWN]
    since = stored.get("since") or 0
    if stored.get("failure") == "rate_limited":
        begun = f" since {time_text(since)}" if since else ""
        return f"is rate limited{begun} ({words}); it goes on when the other side lets it"
    begun = f" since {time_text(since)}" if since else ""
    until = f"; tried until {time_text(stored['until'])}" if stored.get("until") else ""
    return f"fails{begun} ({words}){until}"
