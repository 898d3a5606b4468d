"""A real service on loopback that does the work and answers after the time limit. What it did is counted there."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from support.apps import FOREVER, NewApp, the_run, working
from wakeful import App, Operation, Run, action, on
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.settling import SettleEffect


class Bank:
    """Books at once, by operation id. The first answer for each is kept back until the test lets it go."""

    def __init__(self) -> None:
        self.booked: dict[str, int] = {}
        self.asked: Counter[str] = Counter()
        self.late = asyncio.Event()
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            _, operation, way = head.split()[1].split("/", 2)
            if way == "find":
                await self._say(writer, 200 if operation in self.booked else 404, operation)
                return
            self.asked[operation] += 1
            first = operation not in self.booked
            self.booked.setdefault(operation, len(self.booked) + 1)
            if first:
                await self.late.wait()
            await self._say(writer, 200, operation)

    async def _say(self, writer: asyncio.StreamWriter, status: int, operation: str) -> None:
        body = str(self.booked.get(operation, "")).encode()
        writer.write(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()


@pytest.fixture
async def bank() -> AsyncIterator[Bank]:
    bank = Bank()
    server = await asyncio.start_server(bank.answer, "127.0.0.1", 0)
    bank.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield bank
    bank.late.set()
    server.close()


def refund_agent(app: App, bank: Bank, safety: str) -> None:
    async def call(op: Operation, way: str) -> httpx2.Response:
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            return await client.get(f"{bank.url}/{op.id}/{way}")

    async def find(op: Operation, amount: int) -> int | None:
        answer = await call(op, "find")
        return int(answer.text) if answer.status_code == 200 else None

    options = {"safety": safety} | ({"find": find, "settle": "0s"} if safety == "reconcile" else {})

    @action(timeout="1s", backoff="0s", **options)
    async def pay(op: Operation, amount: int) -> int:
        answer = await call(op, "pay")
        answer.raise_for_status()
        return int(answer.text)

    @app.agent(on("refund"))
    async def refund(run: Run) -> int:
        return await run.act(pay, 100)


async def refunded(runtime: Runtime) -> dict[str, Any]:
    receipt = await runtime.app.emit("refund")
    await runtime.drain()
    return await the_run(runtime, receipt)


@pytest.mark.parametrize("safety", ["idempotent", "reconcile", "at_most_once"])
async def test_it_is_done_once(new_app: NewApp, bank: Bank, safety: str):
    app = new_app(clock=None)
    refund_agent(app, bank, safety)
    async with working(app, lease=FOREVER) as runtime:
        run = await refunded(runtime)
        (effect,) = run["effects"]
        if safety == "at_most_once":
            assert run["state"] == "held"
            assert "took longer than its time limit of 1 s" in effect["reason"]
            bank.late.set()  # the answer comes now, and nobody listens any more
            await runtime.store.do(
                SettleEffect(effect["id"], "confirmed", result="1", by=Actor("me", "code"), note="on the statement")
            )
            await runtime.drain()
            run = await runtime.reader.run(str(run["id"])) or {}
    assert (run["state"], run["output"]) == ("done", 1)
    assert len(bank.booked) == 1
    if safety == "idempotent":
        assert bank.asked[effect["id"]] >= 2, "asked again under the same id"
    else:
        assert bank.asked[effect["id"]] == 1
