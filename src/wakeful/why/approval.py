"""why, about an approval to a person: who asks, how it stands, and the story of its run."""

from __future__ import annotations

from typing import Any

from wakeful.why.event import why_known
from wakeful.why.words import StorySource

Shown = dict[str, Any]


async def why_approval(reader: StorySource, identifier: str) -> Shown | None:
    """The story of an approval, by its id or the beginning of it; None if there is none."""
    approval = await reader.approval(identifier)
    told = None if approval is None else await why_known(reader, approval["run"])
    if approval is None or told is None:
        return None
    subject = {"kind": "question", "id": approval["id"]}
    return {**told, "subject": subject, "story": [tell_approval(approval), *told["story"]]}


def tell_approval(approval: Shown) -> str:
    stands = f"was answered by {approval['answered_by']}" if approval["answered_by"] else f"is {approval['state']}"
    return (
        f'Approval {approval["id"]} is "{approval["question"]}", asked by run {approval["run"]} of agent '
        f"{approval['agent']}. It {stands}."
    )
