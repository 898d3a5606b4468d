"""`run.emit`: a new event of a run, through intake, stored together with its checkpoint."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_datetime
from wakeful.errors import ClaimLost
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import shown_arguments
from wakeful.execution.locks import locks_held
from wakeful.functions.emits import refuse_attributes, refuse_type
from wakeful.intake.cloudevents import new_event
from wakeful.model import Receipt, digest
from wakeful.values import digest_of_arguments


async def emit(
    attempt: Attempt, type_: str, data: Any, subject: str | None, id_: str | None, extensions: dict[str, Any]
) -> Receipt:
    """The receipt of the event: from its record, or from intake now."""
    record, around = attempt.record, attempt.surroundings
    name = f"emit {type_}"
    digested, text = digest_of_arguments((type_, data, subject, id_), extensions, step=name)
    key, shown = record.next_key(name, digested)
    if attempt.to_stop is not None:
        await attempt.begin_nothing_more()
    attempt.enter()
    try:
        recorded = record.find(key)
        if recorded is not None and recorded.result is not None:
            return Receipt.from_json(from_json(recorded.result))
        refuse_attributes(attempt.agent, type_, extensions)
        refuse_type(around.emits, attempt.agent, type_, f"run.emit({type_!r})")
        event = new_event(
            type_,
            data,
            source=f"/{attempt.app}/{attempt.agent}",
            id=digest(attempt.root, key) if id_ is None else id_,
            subject=subject,
            time=to_datetime(attempt.clock.now()),
            **(attempt.inherited() | extensions),
        )
        step = record.new_step(key, shown, "done", arguments=shown_arguments(text))
        await record.save_facts()
        locks = locks_held(attempt.claim)
        receipts = await around.door.accept([event], claim=attempt.claim, step=step, locks=locks, by="app")
        attempt.claim.finished += 1
        return receipts[0]
    except ClaimLost:
        attempt.interrupt("lost")
        raise
    finally:
        attempt.exit()
