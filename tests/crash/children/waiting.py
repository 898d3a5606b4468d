"""Apps whose runs wait, one for each way, and bring one another what they wait for, so that a crash can cut any of it."""

from __future__ import annotations

from typing import Any, Literal

from wakeful import App, Operation, Run, TimedOut, action, on
from wakeful.operations.answering import answer_approval
from wakeful.stores.request import Actor

Way = Literal["event", "call", "ask", "nobody"]


@action(safety="idempotent")
async def ship(op: Operation, number: int) -> None:
    """Counted by the kit: once for each order."""


def build(way: Way) -> App:
    """An order that waits for its payment, for the packer, or for a person; `nobody` answers."""
    app = App("waiting")
    waits = {"event": for_payment, "call": for_packer, "ask": for_person, "nobody": for_person}[way]

    @app.agent(on("order.placed"))
    async def order(run: Run, number: int) -> Any:
        answer = await waits(run, number)
        await run.act(ship, number)
        return answer

    if way == "event":
        app.agent(on("payment.wanted"))(bank)
    elif way == "call":
        app.agent()(packer)
    elif way == "ask":
        app.agent(on("question.asked"))(clerk_of(app))
    return app


async def for_payment(run: Run, number: int) -> Any:
    await run.sleep("2h")
    await run.emit("payment.wanted", number, subject=f"order-{number}")
    paid = await run.wait_for("payment.made", subject=f"order-{number}", where="data.ok", timeout="1d")
    return paid.data["text"]


async def bank(run: Run, number: int) -> None:
    """Refuses first; that is no payment for who waits."""
    await run.emit("payment.made", {"ok": False}, subject=f"order-{number}")
    await run.sleep("1h")
    await run.emit("payment.made", {"ok": True, "text": f"paid for {number}"}, subject=f"order-{number}")


async def for_packer(run: Run, number: int) -> Any:
    return await run.call("packer", number)


async def packer(run: Run, number: int) -> str:
    await run.sleep("30m")
    return f"packed {number}"


async def for_person(run: Run, number: int) -> Any:
    await run.emit("question.asked", number)
    try:
        return await run.ask("Shall it be shipped?", to="ops", schema=bool, timeout="8h")
    except TimedOut:
        return "no answer came"


def clerk_of(app: App) -> Any:
    async def say_yes() -> None:
        """What a person does with `wakeful approvals answer`. Whether it is the first answer is known to the store."""
        runtime: Any = app.runtime
        for question in (await runtime.reader.approvals(state="open"))["approvals"]:
            await answer_approval(runtime.store, question["id"], True, by=Actor("the clerk", "code"))

    async def clerk(run: Run) -> None:
        await run.sleep("1h")
        await run.step(say_yes)

    return clerk
