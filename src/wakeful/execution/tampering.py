"""A claim whose payloads were tampered with is not executed: its run is held, and an alarm is raised."""

from __future__ import annotations

from collections.abc import Iterator

from wakeful.model import Claim, Step
from wakeful.stores.notes import is_misplaced, unsettled
from wakeful.stores.payloads import Codec
from wakeful.stores.tampered import Tampered, refuse_tampered


def refuse_tampered_claim(claim: Claim, codec: Codec) -> None:
    """Raise PayloadTampered for a run that would act on payloads that Wakeful did not store."""
    for text in _payloads(claim):
        if text is not None:
            refuse_tampered(text)
    for step in claim.steps:
        refuse_forged_step(claim, step, codec)
    if codec.strict:
        for effect in claim.effects:
            if (why := unsettled(effect)) is not None:
                refuse_tampered(codec.tampered("effect", "state", (effect.id,), why))


def refuse_forged_step(claim: Claim, step: Step, codec: Codec) -> None:
    """Raise PayloadTampered for a step whose state was changed so that it would count as done: it holds the note of a
    step without a result or, in a strict store, nothing.
    """
    if step.result:
        if isinstance(step.result, Tampered) or not is_misplaced(step.state, step.result):
            return
        why = f"the step is {step.state}, but this is the note of a step that has no result yet"
    elif step.state != "failed" and codec.strict:
        why = f"the step is {step.state}, but it is empty: every step that did not fail has a result or a note"
    else:
        return
    refuse_tampered(codec.tampered("step", "result", (str(claim.seq), step.key), why))


def _payloads(claim: Claim) -> Iterator[str | None]:
    yield claim.envelope
    yield claim.data
    yield claim.output
    yield from claim.events
    if claim.state is not None:
        yield claim.state.value
    for step in claim.steps:
        yield step.arguments
        yield step.result
        yield step.error
    for effect in claim.effects:
        yield effect.arguments
        yield effect.result
        yield effect.error
        yield effect.settlement
        yield effect.executed
