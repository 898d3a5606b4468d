"""An output that a person edits and releases: it replaces the held one, also in the message that carries it to the agent's channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic_core import to_json

from wakeful.model import digest
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.returning import output_of

MEANWHILE = "was executed again since its output was read, and nothing was changed: look at the new output first"


@dataclass(frozen=True, slots=True)
class EditedOutput:
    """An output that passed the checks. `token` is that of the run when its held output was read; `channel` is where its agent delivers."""

    output: str
    token: int
    verification: Literal["passed", "none"]
    channel: str | None = None


class HeldOutput(NamedTuple):
    """The output that a run holds."""

    seq: int
    run: str
    root: str
    app: str
    token: int
    output: str | None

    def as_data(self) -> str:
        """The output as it was, for the remedy."""
        return to_json({"output": output_of(self.output)}).decode()


def output_to_edit(seq: int, edited: EditedOutput) -> Transaction[HeldOutput | None]:
    """The held output of a locked run; None: it is not the one that the person edited."""
    held = HeldOutput(*(yield "output_to_edit", [(seq,)])[0])
    return held if held.token == edited.token else None


def edit_output(now: int | None, held: HeldOutput, edited: EditedOutput, reason: str) -> Transaction[None]:
    """Replace the held output, and the message that delivers it. An output of None is not delivered."""
    yield "edit_output", [(held.seq, edited.output)]
    if edited.channel is None:
        return
    deliveries = yield "held_deliveries", [(held.seq,)]
    # The last one with this message: the handler may have sent an equal one itself, before it returned.
    own = [one for one in deliveries if tuple(one[1:4]) == (edited.channel, held.output, None)]
    if own and edited.output == "null":
        yield "discard_delivery", [(now, own[-1][0], reason)]
    elif own:
        yield "edit_delivery", [(own[-1][0], edited.output)]
    elif edited.output != "null":
        identifier = f"{held.root}-{digest(held.run, edited.channel, str(held.token), 'edited', size=6)}"
        place = max((one[4] for one in deliveries), default=-1) + 1
        yield "insert_held_delivery", [(now, identifier, held.seq, held.app, edited.channel, edited.output, place)]
