"""An app whose runs wait in every way, and bring one another what they wait for, so that a crash can cut any of it."""

from __future__ import annotations

from typing import Any

from wakeful import App, Operation, Run, TimedOut, action, on
from wakeful.operations.answering import answer_question


@action(safety="idempotent")
async def ship(op: Operation, number: int) -> None:
    """Counted by the kit: once for each order."""


def build(*, answers: bool = True) -> App:
    """`answers=False`: nobody answers what is asked."""
    app = App("waiting")

    async def say_yes() -> bool:
        """What a person does with `wakeful approvals answer`. Whether it is the first time is known to the store."""
        runtime: Any = app.runtime
        (question,) = (await runtime.reader.approvals())["approvals"]
        if answers and question["state"] == "open":
            await answer_question(runtime.store, question["id"], True, operator="the clerk")
        return answers

    @app.agent(on("order.placed"))
    async def order(run: Run, data: dict[str, int]) -> list[Any]:
        number = data["number"]
        await run.sleep("2h")
        await run.emit("payment.wanted", number, subject=f"order-{number}")
        paid = await run.wait_for("payment.made", subject=f"order-{number}", where="data.ok", timeout="1d")
        packed = await run.call("packer", number)
        await run.emit("question.asked", number)
        try:
            answer = await run.ask("Shall it be shipped?", to="ops", schema=bool, timeout="8h")
        except TimedOut:
            return [paid.data["text"], packed, "nobody answered"]
        await run.act(ship, number)
        return [paid.data["text"], packed, answer]

    @app.agent(on("payment.wanted"))
    async def bank(run: Run, number: int) -> None:
        """Refuses first; that is no payment for who waits."""
        await run.emit("payment.made", {"ok": False}, subject=f"order-{number}")
        await run.sleep("1h")
        await run.emit("payment.made", {"ok": True, "text": f"paid for {number}"}, subject=f"order-{number}")

    @app.agent()
    async def packer(run: Run, number: int) -> str:
        await run.sleep("30m")
        return f"packed {number}"

    @app.agent(on("question.asked"))
    async def clerk(run: Run) -> bool:
        await run.sleep("1h")
        return await run.step(say_yes)

    return app
