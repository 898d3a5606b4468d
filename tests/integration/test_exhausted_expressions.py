"""What becomes of an event where an expression of its agent runs out of its budget: never the same as no."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from support.apps import the_run, working
from wakeful import App, Operation, Run, action, on, webhook
from wakeful.verify import none
from wakeful.why import why

DEAR = "data.a.replace('a', data.b)"
LARGE = {"a": "a" * 1_000, "b": "b" * 100_000}
SMALL = {"a": "a", "b": "b"}


@pytest.mark.parametrize("option", ["key", "once", "priority"])
async def test_of_a_key_the_run_is_a_dead_letter_that_says_so(app: App, option: str):
    done: list[str] = []
    expression = f"size({DEAR}) > 5 ? 1 : 0" if option == "priority" else DEAR

    options: dict[str, Any] = {option: expression}

    @app.agent(on("alert"), **options)
    async def handle(run: Run) -> None:
        done.append(run.event.id)

    async with working(app) as runtime:
        large = await app.emit("alert", LARGE, id="large")
        small = await app.emit("alert", SMALL, id="small")
        await runtime.drain()
        assert done == ["small"]
        dead = await the_run(runtime, large)
        assert (dead["state"], dead["error"]["type"]) == ("dead", "InvalidKey")
        assert "ran out of its budget" in dead["error"]["message"]
        assert (await the_run(runtime, small))["state"] == "done"


async def test_a_wait_goes_on_and_tells(app: App):
    @app.agent(on("order"))
    async def ship(run: Run) -> str:
        paid = await run.wait_for("paid", where=f"{DEAR} == 'b'", timeout="1h")
        return paid.id

    async with working(app) as runtime:
        order = await app.emit("order", {}, id="order")
        await runtime.drain()
        await app.emit("paid", LARGE, id="large")
        await runtime.drain()
        told = await why(runtime.reader, order.runs[0])
        assert told is not None
        assert "ran out of its budget" in " ".join(told["story"])
        await app.emit("paid", SMALL, id="small")
        await runtime.drain()
        assert (await the_run(runtime, order))["output"] == "small"


@pytest.mark.parametrize("option", ["id", "data"])
async def test_of_a_webhook_the_request_is_kept_in_quarantine(app: App, option: str):
    options: dict[str, Any] = {option: DEAR}

    @app.agent(webhook("/hooks/shop", verify=none(), **options))
    async def handle(run: Run) -> None: ...

    async with working(app) as runtime:
        (endpoint,) = runtime.webhooks.endpoints.values()
        headers = {"content-type": "application/json"}
        receipts = await runtime.webhooks.take(endpoint, headers, to_json(LARGE))
        assert isinstance(receipts, list)
        assert receipts[0].status == "quarantined"
        (kept,) = (await runtime.reader.quarantine())["quarantine"]
        assert kept["kind"] == "unreadable"
        assert "ran out of its budget" in kept["reason"]
        receipts = await runtime.webhooks.take(endpoint, headers, to_json(SMALL))
        assert isinstance(receipts, list)
        assert receipts[0].status == "accepted"


async def test_of_an_action_the_run_dies_before_the_call(app: App):
    called: list[str] = []

    @action(once="arguments.a.replace('a', arguments.b)")
    async def pay(op: Operation, a: str, b: str) -> None:
        called.append(a)

    @app.agent(on("order"), attempts=1)
    async def bill(run: Run) -> None:
        await run.act(pay, run.event.data["a"], run.event.data["b"])

    async with working(app) as runtime:
        large = await app.emit("order", LARGE, id="large")
        await app.emit("order", SMALL, id="small")
        await runtime.drain()
        dead = await the_run(runtime, large)
        assert dead["state"] == "dead"
        assert "ran out of its budget" in dead["error"]["message"]
        assert called == ["a"]
