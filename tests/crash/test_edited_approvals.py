"""Edited by one, agreed to by another, called: killed at every commit boundary, the edited effect happens once, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.paying import ADA, BOB, PEOPLE, policy_of
from wakeful import App, Operation, Run, action, on
from wakeful.stores.request import Doer
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.testing import World, crash_everywhere


async def edit_and_agree(store: Doer, approval: dict[str, Any], _: Any) -> None:
    """Ada edits the amount, and once a worker has looked at it, Bob agrees."""
    if approval["arguments"]["amount"] == 150:
        await store.do(AnswerApproval(approval["id"], "true", arguments='{"amount": 120}', by=ADA))
    else:
        await store.do(AnswerApproval(approval["id"], "true", digest=approval["digest"], by=BOB))


async def test_an_edited_effect_happens_once(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "policy.yaml").write_text(policy_of("{by: [ops], of: 2, edit: true, within: 4h}"))
    (tmp_path / "people.yaml").write_text(PEOPLE)
    monkeypatch.setattr("wakeful.testing.world.store_answer", edit_and_agree)
    paid: list[tuple[str, int]] = []
    app = App("shop", policy=tmp_path / "policy.yaml", people=tmp_path / "people.yaml")

    @action(safety="idempotent")
    async def pay(op: Operation, amount: int, card: str = "4111") -> str:
        if (op.id, amount) not in paid:  # the other side knows the id
            paid.append((op.id, amount))
        return "paid"

    @app.agent(on("go"), name="billing")
    async def billing(run: Run) -> str:
        return await run.act(pay, 150)

    def arrange(world: World) -> None:
        world.when_asked("May agent billing", True)

    report = await crash_everywhere(
        app, "go", store=store_url, observe=lambda: [amount for _, amount in paid], reset=paid.clear, arrange=arrange
    )
    report.check()
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert {"OpenEffect", "AnswerApproval", "SettleEdit", "SaveEffect"} <= kinds
    assert all(set(one.states.values()) == {"done"} for one in report.crashes)
    assert [amount for _, amount in paid] == [120]
