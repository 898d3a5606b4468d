"""A sample agent that takes money and thanks for it, and the services it does that by. Bugs can be planted in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from wakeful import App, Operation, Run, action, on

Bug = Literal["step", "handler", "ignores-id", "blind-find", "fresh-arguments", "none"]


@dataclass
class Bank:
    """The services outside: a bank that knows operation ids again, a ledger of transfers, and a mailbox."""

    charges: dict[str, int] = field(default_factory=dict)
    double_charges: list[int] = field(default_factory=list)
    transfers: dict[str, int] = field(default_factory=dict)
    transferred: list[int] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    looks: int = 0

    def clear(self) -> None:
        for one in (self.charges, self.double_charges, self.transfers, self.transferred, self.letters):
            one.clear()

    def holdings(self) -> dict[str, Any]:
        return {
            "charges": [*self.charges.values(), *self.double_charges],
            "transferred": self.transferred,
            "letters": self.letters,
        }


def build(bank: Bank, bug: Bug = "none", *, store: str | None = None) -> App:
    app = App("shop", store=store)
    lucky = iter(range(10_000))

    @action(safety="idempotent")
    async def charge(op: Operation, amount: int) -> str:
        if bug == "ignores-id":
            bank.double_charges.append(amount)
        else:
            bank.charges.setdefault(op.id, amount)
        return f"charged {amount}"

    async def find(op: Operation, amount: int) -> str | None:
        bank.looks += 1
        return None if bug == "blind-find" or op.id not in bank.transfers else f"transferred {amount}"

    @action(safety="reconcile", find=find)
    async def transfer(op: Operation, amount: int) -> str:
        bank.transfers[op.id] = amount
        bank.transferred.append(amount)
        return f"transferred {amount}"

    @action
    async def write(op: Operation, text: str) -> None:
        bank.letters.append(text)

    async def thank(name: str) -> str:
        if bug == "step":
            bank.letters.append(f"thank you, {name}")
        return name

    @app.agent(on("order.paid"))
    async def settle(run: Run, data: dict[str, Any]) -> str:
        amount = data["amount"] if bug != "fresh-arguments" else data["amount"] + next(lucky)
        await run.step(thank, data["name"])
        if bug == "handler":
            bank.letters.append("from the handler")
        charged, _ = await asyncio.gather(run.act(charge, amount), run.act(charge, 1))
        moved = await run.act(transfer, data["amount"])
        await run.emit("order.settled", {"name": data["name"]})
        return f"{charged}, {moved}"

    @app.agent(on("order.settled"))
    async def say_goodbye(run: Run, data: dict[str, Any]) -> None:
        if bug != "none":
            return
        await run.step(thank, data["name"])

    @app.agent(on("letter.wanted"))
    async def send_letter(run: Run) -> None:
        await run.act(write, "dear customer")

    return app
