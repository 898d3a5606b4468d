"""Redoing what was over, on both stores: what is finished stays, what failed is tried again, and who did it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import ended, go, the_run, working
from wakeful import App, Operation, Persistent, Run, action, on
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.redo import Redone, RedoRun


async def redo(runtime: Runtime, run: dict[str, Any], **more: Any) -> Redone | None:
    redone = await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code"), **more))
    await runtime.drain()
    return redone


async def test_finished_steps_stay_and_failed_ones_are_tried_again(app: App):
    calls: list[str] = []
    mended = False

    async def fetch() -> str:
        calls.append("fetch")
        return "fetched"

    async def store(what: str) -> str:
        calls.append("store")
        if not mended:
            raise Persistent("broken")
        return f"stored {what}"

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        return await run.step(store, await run.step(fetch))

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "dead"
        mended = True
        redone = await redo(runtime, run, note="mended")
        assert redone is not None
        assert (redone.run, redone.was, redone.refused) == (run["id"], "dead", None)
        after = await runtime.reader.run(run["id"])
    assert after is not None
    assert (after["state"], after["output"], after["attempts"]) == ("done", "stored fetched", 1)
    assert calls == ["fetch", "store", "store"]
    assert [attempt["outcome"] for attempt in after["history"]] == ["dead"]
    (remedy,) = after["remedies"]
    assert (remedy["verb"], remedy["operator"], remedy["note"], remedy["error"]["message"]) == (
        "replay",
        "ada",
        "mended",
        "broken",
    )


async def test_a_refused_effect_is_tried_again_by_a_replay(app: App):
    calls: list[str] = []

    @action
    async def post(op: Operation) -> str:
        calls.append(op.id)
        if len(calls) == 1:
            raise Persistent("refused")
        return "posted"

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        return await run.act(post)

    async with working(app) as runtime:
        run = await go(runtime)
        assert (run["state"], run["effects"][0]["state"]) == ("dead", "failed")
        await redo(runtime, run)
        after = await runtime.reader.run(run["id"])
    assert after is not None
    assert (after["state"], after["effects"][0]["state"], len(set(calls))) == ("done", "confirmed", 1)


async def test_once_more_is_a_new_run_of_the_family_that_finds_its_effects(app: App):
    calls: list[str] = []

    @action
    async def post(op: Operation, number: int) -> str:
        calls.append(op.id)
        return f"posted {number}"

    @app.agent(on("go"))
    async def agent(run: Run) -> str:
        return await run.act(post, 7)

    async with working(app) as runtime:
        run = await go(runtime)
        for number in (1, 2):
            redone = await redo(runtime, run, again=True)
            assert redone is not None
            assert redone.run == f"{run['id']}.{number}"
            again = await runtime.reader.run(redone.run)
            assert again is not None
            assert (again["state"], again["output"], again["root"]) == ("done", "posted 7", run["id"])
    assert len(calls) == 1


async def test_two_people_replay_it_once(app: App):
    attempts: list[int] = []

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        attempts.append(run.attempt)
        if len(attempts) == 1:
            raise Persistent("once")

    async with working(app, worker=False):
        receipt = await app.emit("go")
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        both = await asyncio.gather(
            *(runtime.store.do(RedoRun(run["id"], by=Actor(name, "code"))) for name in ("ada", "bob"))
        )
        await runtime.drain()
        assert (await the_run(runtime, receipt))["state"] == "done"
    assert sorted(one.refused is None for one in both if one is not None) == [False, True]
    assert len(attempts) == 2


async def test_what_is_not_over_or_not_there(app: App):
    @app.agent(on("go"))
    async def agent(run: Run) -> None: ...

    async with working(app, worker=False) as runtime:
        receipt = await app.emit("go")
        run = await the_run(runtime, receipt)
        redone = await runtime.store.do(RedoRun(run["id"], by=Actor("ada", "code")))
        assert redone is not None
        assert redone.refused is not None
        assert "is ready" in redone.refused
        assert await runtime.store.do(RedoRun("nothing", by=Actor("ada", "code"))) is None


# held outputs


@pytest.fixture
def polite(app: App) -> App:
    """Says what it is told to, unless that is rude; and stages an effect."""

    @action
    async def post(op: Operation, words: str) -> str:
        return words

    @app.agent(on("go"), checks=[lambda words: "no rude words" if "!" in words else None])
    async def say(run: Run, words: str) -> str:
        run.stage(post, words)
        return words

    return app


async def alarm_of(runtime: Runtime) -> str:
    (alarm,) = (await runtime.reader.alarms())["alarms"]
    assert alarm["key"].startswith("held/app/say/")
    state: str = alarm["state"]
    return state


async def test_a_held_output_is_done_anew_by_a_replay(polite: App):
    async with working(polite) as runtime:
        run = await go(runtime, "hey!")
        assert (run["state"], await alarm_of(runtime)) == ("held", "open")
        redone = await redo(runtime, run, data='"hello"', note="mended")
        assert redone is not None
        assert (redone.was, redone.refused) == ("held", None)
        after = await runtime.reader.run(run["id"])
        assert after is not None
        assert (after["state"], after["output"]) == ("done", "hello")
        assert {one["arguments"][0]: one["state"] for one in after["effects"]} == {
            "hey!": "abandoned",
            "hello": "confirmed",
        }
        (remedy,) = after["remedies"]
        assert "no rude words" in remedy["error"]["message"]
        assert await alarm_of(runtime) == "resolved"


async def test_a_held_output_is_discarded_with_what_it_would_have_done(polite: App):
    async with working(polite) as runtime:
        run = await go(runtime, "hey!")
        await redo(runtime, run, discard=True, note="rude")
        after = await runtime.reader.run(run["id"])
        assert after is not None
        assert (after["state"], after["reason"]) == ("cancelled", "discarded by ada: rude")
        assert [one["state"] for one in after["effects"]] == ["abandoned"]
        assert await alarm_of(runtime) == "resolved"


async def test_a_released_output_resolves_its_alarm_too(polite: App):
    async with working(polite) as runtime:
        run = await go(runtime, "hey!")
        await runtime.store.do(ReleaseRun(run["id"], by=Actor("ada", "code")))
        await runtime.drain()
        assert (await runtime.reader.run(run["id"]) or {})["state"] == "done"
        assert await alarm_of(runtime) == "resolved"


async def test_what_is_held_for_an_effect_is_settled_and_not_replayed(app: App):
    @action
    async def charge(op: Operation) -> str:
        raise TimeoutError("no answer")

    @app.agent(on("go"))
    async def pay(run: Run) -> str:
        return await run.act(charge)

    async with working(app) as runtime:
        run = await go(runtime)
        for discard in (False, True):
            redone = await redo(runtime, run, discard=discard)
            assert redone is not None
            assert redone.refused is not None
            assert "is held for an effect" in redone.refused
