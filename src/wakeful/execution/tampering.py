"""A claim whose payloads were tampered with is not executed: its run is held, and people hear of it."""

from __future__ import annotations

from collections.abc import Iterator

from wakeful.model import Claim
from wakeful.stores.tampered import refuse_tampered


def refuse_tampered_claim(claim: Claim) -> None:
    """PayloadTampered for a run that would act on what was put into the database by others."""
    for text in _payloads(claim):
        if text is not None:
            refuse_tampered(text)


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
