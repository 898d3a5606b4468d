"""why, for an approval: who asks, its state, and the story of its run."""

from __future__ import annotations

from wakeful.resources import approvals
from wakeful.resources.desk import Desk
from wakeful.why.event import why_known
from wakeful.why.story import Story, Subject
from wakeful.why.words import Shown


async def why_approval(desk: Desk, identifier: str) -> Story | None:
    """The story of an approval, by its id or the beginning of it; None if there is none."""
    approval = await approvals.find(desk, identifier)
    told = None if approval is None else await why_known(desk, approval["run"])
    if approval is None or told is None:
        return None
    subject = Subject(kind="question", id=approval["id"])
    return {**told, "subject": subject, "story": [tell_approval(approval), *told["story"]]}


def tell_approval(approval: Shown) -> str:
    stands = f"was answered by {approval['answered_by']}" if approval["answered_by"] else f"is {approval['state']}"
    return (
        f'Approval {approval["id"]} is "{approval["question"]}", asked by run {approval["run"]} of agent '
        f"{approval['agent']}. It {stands}."
    )
