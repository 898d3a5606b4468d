"""Answers that a test gives to approvals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from wakeful.operations.answering import answer_approval
from wakeful.operations.shape import misfits
from wakeful.stores.request import Actor, Doer
from wakeful.values import to_text


async def store_answer(store: Doer, approval: Mapping[str, Any], answer: Any) -> None:
    """Store the answer; ValueError if it does not fit the schema of the approval."""
    wrong = misfits(from_json(to_text(answer, what="the answer")), approval["schema"])
    if wrong:
        message = f"the answer to {approval['question']!r} does not fit: {'; '.join(wrong)}"
        raise ValueError(message)
    await answer_approval(store, approval["id"], answer, by=Actor("a test", "worker"))
