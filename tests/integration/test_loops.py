"""Loops: agents that wake each other are stopped, once somebody hears of it, and nothing is lost. What only looks like a loop is not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, pass_time, working
from support.stores import count, query
from wakeful import App, Run, on
from wakeful.channels import event
from wakeful.model import Decision, Receipt
from wakeful.operations.feeding import Feeding, feed_events, plan_feed
from wakeful.policy.decide import ALLOWED, AdmissionFacts
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.why import why

# An event that comes back to agent crawl.
BACK: dict[str, Any] = {"chaindepth": 2, "chainpath": "app/crawl", "chainid": "root"}


def ping_pong(new_app: NewApp, seen: list[str], **options: Any) -> App:
    """Two agents, each of which wakes the other, for ever."""
    app = new_app(**options)

    @app.agent(on("ping"), owner="desk")
    async def review(run: Run) -> None:
        seen.append("review")
        await run.emit("pong")

    @app.agent(on("pong"), owner="desk")
    async def fix(run: Run) -> None:
        seen.append("fix")
        await run.emit("ping")

    return app


async def denied(runtime: Runtime) -> list[tuple[str, str]]:
    """(agent, reason) of every admission that policy denied."""
    found = []
    for one in (await runtime.reader.events(limit=500))["events"]:
        shown = await runtime.reader.event(one["key"])
        assert shown is not None
        found += [(a["agent"], a["reason"]) for a in shown["admissions"] if a["state"] == "denied"]
    return found


async def alarms(runtime: Runtime) -> list[dict[str, Any]]:
    return [one for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]


async def test_agents_that_wake_each_other_are_stopped_and_somebody_hears_of_it_once(new_app: NewApp):
    seen: list[str] = []
    async with working(ping_pong(new_app, seen, chain_depth=7)) as runtime:
        await runtime.app.emit("ping", id="first")
        await runtime.drain()
        assert Counter(seen) == {"review": 4, "fix": 4}  # the one from outside, and seven behind it
        ((agent, reason),) = await denied(runtime)
        assert agent == "review"
        assert reason.startswith("chain_depth: it is event 8 of the chain that began with event first (")
        assert "App(chain_depth=7)" in reason
        (alarm,) = await alarms(runtime)
        assert (alarm["key"], alarm["count"], alarm["owner"]) == ("loop/app/review", 1, "desk")
        assert "wakeful replay --events ping --from 1h --agent review --denied" in alarm["text"]


async def test_the_default_stops_a_loop_too(new_app: NewApp):
    seen: list[str] = []
    async with working(ping_pong(new_app, seen)) as runtime:
        await runtime.app.emit("ping")
        await runtime.drain()
        assert len(seen) == 26


async def test_an_event_that_was_stopped_tells_why_and_a_person_can_let_it_through(new_app: NewApp):
    seen: list[str] = []
    async with working(ping_pong(new_app, seen, chain_depth=2)) as runtime:
        await runtime.app.emit("ping", id="first")
        await runtime.drain()
        assert seen == ["review", "fix", "review"]
        stopped = next(one for one in (await runtime.reader.events(limit=10))["events"] if one["type"] == "pong")
        told = await why(runtime.reader, stopped["id"])
        assert told is not None
        words = " ".join(told["story"])
        assert "It is number 3 of the chain that began with event first: review → fix → review." in words
        assert "Agent fix did nothing, because policy denied it: chain_depth: it is event 3" in words
        feeding = Feeding("pong", 0, 10**16, "fix", denied=True)
        plan = await plan_feed(runtime.reader, feeding)
        assert (plan.events, plan.had, plan.denied, plan.new) == (2, 1, 0, 1)
        assert await feed_events(runtime.store, runtime.reader, feeding, plan, by=Actor("kim", "code")) == 1
        await runtime.drain()
        assert seen == ["review", "fix", "review", "fix"]  # one round further, and the next one is judged anew
        assert len(await denied(runtime)) == 1
        assert await feed_events(runtime.store, runtime.reader, feeding, plan, by=Actor("kim", "code")) == 0
        without = Feeding("ping", 0, 10**16, "review")
        plan = await plan_feed(runtime.reader, without)
        assert (plan.had, plan.denied, plan.new) == (2, 1, 0)


async def test_a_branching_loop_is_stopped_by_its_rate(new_app: NewApp):
    app = new_app(chain_depth=None, chain_rate="20/m")
    seen: list[int] = []

    @app.agent(on("found"))
    async def crawl(run: Run) -> None:
        seen.append(1)
        await run.emit("found", {"branch": 1})
        await run.emit("found", {"branch": 2})

    async with working(app) as runtime:
        await app.emit("found", id="first")
        await runtime.drain()
        assert len(seen) == 21  # the first one, and as many as may come back
        reasons = await denied(runtime)
        assert len(reasons) == 22
        assert all(reason.startswith("chain_rate: the chain that began with event first") for _, reason in reasons)
        (alarm,) = await alarms(runtime)
        assert (alarm["key"], alarm["count"]) == ("loop/app/crawl", 1)
        await app.emit("found", id="second")  # another chain is not concerned
        await runtime.drain()
        assert len(seen) == 42
        (alarm,) = await alarms(runtime)
        assert alarm["count"] == 2


async def test_a_chain_may_come_back_again_when_its_time_is_over(new_app: NewApp):
    app = new_app(chain_rate="2/m")

    @app.agent(on("found"))
    async def crawl(run: Run) -> None:
        pass

    async with working(app) as runtime:
        became = []
        for _ in range(9):
            became.append(len((await app.emit("found", **BACK)).runs))
            await pass_time(runtime, "15s")
        assert became == [1, 1, 0, 0, 1, 1, 0, 0, 1]


async def test_one_run_that_emits_very_many_events_is_no_loop(new_app: NewApp):
    app = new_app(chain_rate="5/m")
    done: list[int] = []

    @app.agent(on("list"))
    async def split(run: Run) -> None:
        await asyncio.gather(*(run.emit("item", {"number": number}) for number in range(2_000)))

    @app.agent(on("item"))
    async def work(run: Run) -> None:
        done.append(run.event.data["number"])

    async with working(app, clock=None) as runtime:
        await app.emit("list")
        await runtime.drain()
        assert sorted(done) == list(range(2_000))
        assert await alarms(runtime) == []


async def test_chains_that_are_over_are_forgotten(new_app: NewApp, store_url: str):
    app = new_app()

    @app.agent(on("found"))
    async def crawl(run: Run) -> None:
        pass

    async with working(app) as runtime:
        for number in range(3):
            await app.emit("found", **{**BACK, "chainid": f"root-{number}"})
        await runtime.housekeeper.run_once()
        assert await count(store_url, "wakeful_chain") == 3
        await pass_time(runtime, "6d")
        await app.emit("found", **{**BACK, "chainid": "root-1"})
        await pass_time(runtime, "2d")
        await runtime.housekeeper.run_once()
        assert await query(store_url, "select chain from wakeful_chain") == [("root-1",)]


async def test_two_processes_count_together(new_app: NewApp):
    """What comes back at once in two processes is counted once for both."""
    options: dict[str, Any] = {"chain_depth": None, "chain_rate": "3/m"}
    seen: list[str] = []

    def an_app() -> App:
        app = new_app(**options)

        @app.agent(on("found"))
        async def crawl(run: Run) -> None:
            seen.append(run.event.id)

        return app

    first, second = an_app(), an_app()
    async with working(first) as one, working(second) as other:
        sent = [
            app.emit("found", id=f"{number}-{name}", **BACK)
            for number in range(4)
            for app, name in ((first, "a"), (second, "b"))
        ]
        receipts: list[Receipt] = await asyncio.gather(*sent)
        assert sum(len(receipt.runs) for receipt in receipts) == 3
        await one.drain()
        await other.drain()
        assert len(seen) == 3
        (alarm,) = await alarms(one)
        assert alarm["count"] == 1


async def test_a_second_delivery_is_neither_counted_nor_judged(new_app: NewApp):
    app = new_app(chain_rate="1/m")
    seen: list[str] = []

    @app.agent(on("found"))
    async def crawl(run: Run) -> None:
        seen.append(run.event.id)

    async with working(app) as runtime:
        first = await app.emit("found", id="1", **BACK)
        for _ in range(5):
            again = await app.emit("found", id="1", **BACK)
            assert (again.status, again.runs) == ("duplicate", first.runs)
        await runtime.drain()
        assert seen == ["1"]
        stopped = await app.emit("found", id="2", **BACK)
        assert (stopped.status, stopped.runs) == ("accepted", [])
        assert (await app.emit("found", id="2", **BACK)).status == "duplicate"


async def test_a_depth_from_outside_concerns_only_its_own_event(new_app: NewApp):
    app = new_app()
    seen: list[str] = []

    @app.agent(on("found"))
    async def crawl(run: Run) -> None:
        seen.append(run.event.id)

    async with working(app) as runtime:
        await app.emit("found", id="liar", chaindepth=2**31, chainpath="app/crawl", chainid="x")
        await app.emit("found", id="nonsense", chaindepth="many", chainpath=7)
        await app.emit("found", id="honest")
        await runtime.drain()
        assert sorted(seen) == ["honest", "nonsense"]


async def test_calls_and_event_channels_are_links_too(new_app: NewApp):
    app = new_app(channels={"back": event("ping")}, chain_depth=4)
    depths: list[tuple[str, int]] = []

    @app.agent(on("ping"), deliver="back")
    async def review(run: Run) -> str:
        depths.append(("review", run.event.extensions.get("chaindepth", 0)))
        return str(await run.call("lookup"))

    @app.agent()
    async def lookup(run: Run) -> str:
        depths.append(("lookup", run.event.extensions["chaindepth"]))
        return "found"

    async with working(app) as runtime:
        await app.emit("ping")
        await runtime.drain()
        assert depths[:4] == [("review", 0), ("lookup", 1), ("review", 0), ("review", 1)]
        assert max(depth for _, depth in depths) == 4
        (loop,) = [one["key"] for one in await alarms(runtime) if one["key"].startswith("loop/")]
        assert loop == "loop/app/lookup"
        (dead,) = (await runtime.reader.runs(state="dead"))["runs"]  # the caller hears why nobody took it
        shown = await runtime.reader.run(dead["id"])
        assert shown is not None
        assert "it is event 5 of the chain" in shown["error"]["message"]


@pytest.mark.parametrize(
    "attribute",
    [
        {"chaindepth": 0},
        {"chainpath": "app/other"},
        {"chainid": "another"},
        {"causedby": "nobody"},
        {"causationid": "x"},
        {"correlationid": "x"},
        {"traceparent": "x"},
        {"callpath": ""},
        {"source": "/elsewhere"},
        {"time": "2026-01-01T00:00:00Z"},
    ],
    ids=lambda one: next(iter(one)),
)
async def test_an_agent_cannot_leave_its_chain(new_app: NewApp, attribute: dict[str, Any]):
    app = new_app(chain_depth=2)

    @app.agent(on("again"), attempts=1)
    async def poll(run: Run) -> None:
        await run.emit("again", **attribute)

    async with working(app) as runtime:
        receipt = await app.emit("again")
        await runtime.drain()
        (run,) = (await runtime.reader.runs(agent="poll"))["runs"]
        shown = await runtime.reader.run(receipt.runs[0])
        assert run["state"] == "dead"
        assert shown is not None
        assert f"run.emit('again'): {next(iter(attribute))} is set by Wakeful" in shown["error"]["message"]


async def test_a_batch_is_as_deep_as_its_deepest_event(new_app: NewApp):
    app = new_app()

    @app.agent(on("part"), batch=(3, "1h"))
    async def gather(run: Run) -> None:
        await run.emit("whole")

    @app.agent(on("whole"))
    async def end(run: Run) -> int:
        return int(run.event.extensions["chaindepth"])

    async with working(app) as runtime:
        await app.emit("part")
        await app.emit("part", chaindepth=5, chainpath="other/one", chainid="root")
        await app.emit("part", chaindepth=2, chainpath="other/one", chainid="root")
        await runtime.drain()
        (run,) = (await runtime.reader.runs(agent="end"))["runs"]
        shown = await runtime.reader.run(run["id"])
        assert shown is not None
        assert shown["output"] == 6
        assert shown["chain"]["path"] == ["other/one", "gather"]


async def test_a_death_in_the_middle_keeps_the_depth_and_the_count(new_app: NewApp):
    """Each process dies just before an event of the chain is committed: it is neither lost, nor counted twice."""
    seen: list[str] = []
    options: dict[str, Any] = {"chain_depth": 3}

    def die_once(moment: str, requests: Sequence[Any]) -> None:
        if moment == "within" and any(isinstance(one, AcceptEvents) and one.claim is not None for one in requests):
            raise Died

    for _ in range(2):
        runtime = Runtime(ping_pong(new_app, seen, **options), lease=FOREVER, probe=die_once)
        await runtime.open(migrate=True)
        await runtime.start()
        if not (await runtime.reader.events(limit=1))["events"]:
            await runtime.door.accept([first_event()])
        async with asyncio.timeout(60):
            while not runtime.store.journal.is_dead():
                for process, _, _ in await other_processes(runtime.store.database, runtime.membership.process):
                    await runtime.store.do(BuryProcess(process, certain=True))
                await asyncio.sleep(0.01)
        await runtime.die()
    async with working(ping_pong(new_app, seen, **options)) as again:
        for process, _, _ in await other_processes(again.store.database, again.membership.process):
            await again.store.do(BuryProcess(process, certain=True))
        await again.drain()
        events = (await again.reader.events(limit=50))["events"]
        assert len(events) == 5  # one from outside, and four of the chain, the last of which was denied
        assert len(await denied(again)) == 1


def first_event() -> Any:
    from wakeful.intake.cloudevents import new_event

    return new_event("ping", source="/tests", id="first")


async def test_a_rule_of_ones_own_is_asked_with_the_count_and_one_that_breaks_denies_aloud(new_app: NewApp):
    asked: list[int] = []

    def once(facts: AdmissionFacts) -> Decision | None:
        if not isinstance(facts, AdmissionFacts) or facts.chain is None:
            return ALLOWED
        asked.append(facts.chain.rounds)
        if facts.chain.rounds > 1:
            message = "cannot tell"
            raise ValueError(message)
        return ALLOWED

    app = new_app(rules=(once,))

    @app.agent(on("found"))
    async def crawl(run: Run) -> None:
        pass

    async with working(app) as runtime:
        assert (await app.emit("found", **BACK)).runs
        assert not (await app.emit("found", **BACK)).runs
        assert asked == [1, 2]
        assert [one["key"] for one in await alarms(runtime)] == ["rule/app/once"]


@pytest.mark.parametrize("flow", [{"key": "data.key"}, {"debounce": "1s"}, {"batch": (2, "1s")}])
async def test_what_is_denied_takes_no_place_in_any_order(new_app: NewApp, flow: dict[str, Any]):
    app = new_app(chain_rate="1/m")
    seen: list[str] = []

    @app.agent(on("found"), **flow)
    async def crawl(run: Run) -> None:
        seen.extend(one.id for one in run.events)

    async with working(app) as runtime:
        assert (await app.emit("found", {"key": "k"}, id="1", **BACK)).runs
        assert not (await app.emit("found", {"key": "k"}, id="2", **BACK)).runs
        await app.emit("found", {"key": "k"}, id="3")
        await pass_time(runtime, "2s")
        assert "2" not in seen
        assert "3" in seen
