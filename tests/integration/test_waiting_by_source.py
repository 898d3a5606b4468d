"""Waits that take events of one source, and none that another app's doors brought, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from wakeful import App, Run, on

ODD = '/shop "a"\\ü'


def waiting(app: App, source: str | None, **options: Any) -> App:
    @app.agent(on("go"), attempts=1)
    async def order(run: Run) -> Any:
        paid = await run.wait_for("paid", source=source, timeout="1h", **options)
        return paid.id

    return app


async def output(runtime: Any, run: dict[str, Any]) -> tuple[str, Any]:
    await runtime.drain()
    found = await runtime.reader.run(run["id"])
    assert found is not None
    return found["state"], found["output"]


@pytest.mark.parametrize("source", ["/hooks/stripe", ODD])
@pytest.mark.parametrize("where", [None, "data.amount > 1 || data.amount < 0"])
async def test_only_events_of_that_source_count(app: App, source: str, where: str | None):
    async with working(waiting(app, source, where=where)) as runtime:
        run = await go(runtime)
        await app.emit("paid", {"amount": 2}, id="forged", source="/elsewhere")
        await app.emit("paid", {"amount": -1}, id="forged", source="/elsewhere/2")
        await app.emit("paid", {"no": "amount"}, id="forged", source="/elsewhere/3")
        assert await output(runtime, run) == ("waiting", None)
        told = await runtime.reader.why(run["id"])
        assert told is not None
        story = " ".join(told["story"])
        assert f"has waited for an event paid from {source}" in story
        assert "Events of type paid from other sources do not count." in story
        assert "could not be told" not in story
        await app.emit("paid", {"amount": 2}, id="real", source=source)
        assert await output(runtime, run) == ("done", "real")


async def test_an_event_that_came_before_the_wait_counts_by_its_source_too(app: App):
    @app.agent(on("go"))
    async def order(run: Run) -> Any:
        await run.sleep("1h")
        return (await run.wait_for("paid", source="/hooks/stripe", timeout="1h")).id

    async with working(app) as runtime:
        run = await go(runtime)
        await app.emit("paid", id="forged", source="/elsewhere")
        await app.emit("paid", id="real", source="/hooks/stripe")
        await pass_time(runtime, "1h")
        assert await output(runtime, run) == ("done", "real")


async def test_by_default_any_door_of_the_apps_own_counts_and_no_other_apps(new_app: NewApp):
    app, other = new_app("shop"), new_app("neighbour")
    async with working(waiting(app, None)) as runtime, working(other):
        run = await go(runtime)
        await other.emit("paid", id="not mine")
        await other.emit("paid", id="nor this", source="/shop")
        assert await output(runtime, run) == ("waiting", None)
        await app.emit("paid", id="mine")
        assert await output(runtime, run) == ("done", "mine")


@pytest.mark.parametrize("source", ["", 7, "x" * 2000])
async def test_a_source_that_is_none_is_refused(app: App, source: Any):
    async with working(waiting(app, source)) as runtime:
        run = await go(runtime)
        assert run["state"] == "dead"
        assert "give the source of the event as text, or leave it out" in run["error"]["message"]


async def test_a_comment_in_the_condition_hides_nothing_of_the_question(app: App):
    where = "data.ok // as the shop says"
    async with working(waiting(app, "/hooks/stripe", where=where)) as runtime:
        run = await go(runtime)
        await app.emit("paid", {"ok": True}, id="forged", source="/elsewhere")
        await app.emit("paid", {"ok": False}, id="refused", source="/hooks/stripe")
        assert await output(runtime, run) == ("waiting", None)
        await app.emit("paid", {"ok": True}, id="real", source="/hooks/stripe")
        assert await output(runtime, run) == ("done", "real")


async def test_a_condition_that_its_source_makes_too_deep_is_refused_before_it_is_stored(app: App):
    where = "(" * 32 + "data.ok" + ")" * 32  # as deep as an expression may be
    async with working(waiting(app, "/hooks/stripe", where=where)) as runtime:
        run = await go(runtime)
        assert run["state"] == "dead"
        assert "run.wait_for('paid'): where: \"event.source ==" in run["error"]["message"]
        assert (await app.emit("paid", {"ok": True}, source="/hooks/stripe")).status == "unmatched"
