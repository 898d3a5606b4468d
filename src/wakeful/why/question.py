"""why, about a question to a person: who asks, how it stands, and the story of its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.resources import approvals
from wakeful.resources.desk import Desk
from wakeful.why.event import why_known

Shown = Mapping[str, Any]


async def why_question(desk: Desk, identifier: str) -> Shown | None:
    """The story of a question, by its id or the beginning of it; None if there is none."""
    question = await approvals.find(desk, identifier)
    told = None if question is None else await why_known(desk, question["run"])
    if question is None or told is None:
        return None
    subject = {"kind": "question", "id": question["id"]}
    return {**told, "subject": subject, "story": [tell_question(question), *told["story"]]}


def tell_question(question: Shown) -> str:
    stands = f"was answered by {question['answered_by']}" if question["answered_by"] else f"is {question['state']}"
    return (
        f'Question {question["id"]} is "{question["question"]}", asked by run {question["run"]} of agent '
        f"{question['agent']}. It {stands}."
    )
