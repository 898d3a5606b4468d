"""Runs of one key go one at a time, in the order in which their events were accepted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import NewApp, ended, pass_time, the_run, working
from support.stores import query
from wakeful import App, ChildFailed, ConfigError, Event, Persistent, Run, Transient, on
from wakeful.operations.forking import plan_fork
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.redo import Redone, RedoRun
from wakeful.why import why


class Diary:
    """Who ran when, and with whom."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.now: list[str | None] = []
        self.most: dict[str | None, int] = {}

    async def enter(self, run: Run) -> None:
        self.begun.append(run.event.data["n"])
        self.now.append(run.key)
        self.most[run.key] = max(self.most.get(run.key, 0), self.now.count(run.key))
        for _ in range(5):  # time for others to come between, if they could
            await asyncio.sleep(0)
        self.now.remove(run.key)


def diary_of(app: App, **options: Any) -> Diary:
    diary = Diary()
    options.setdefault("key", "data.k")

    @app.agent(on("go"), name="keeper", **options)
    async def keeper(run: Run) -> None:
        await diary.enter(run)

    return diary


async def send(app: App, *pairs: tuple[str, int]) -> list[str]:
    receipts = [await app.emit("go", {"k": key, "n": number}, id=f"{key}{number}") for key, number in pairs]
    return [run for receipt in receipts for run in receipt.runs]


async def fork(runtime: Runtime, run: str) -> Redone:
    """From its only step on."""
    found = await runtime.reader.run(run)
    assert found is not None
    forked = await runtime.store.do(plan_fork(found, "look").request(None, by=Actor("ada", "code"), note=None))
    assert forked is not None
    return forked


async def test_one_of_a_key_at_a_time_and_in_order(app: App):
    diary = diary_of(app)
    async with working(app) as runtime:
        await send(app, *[(key, number) for number in range(20) for key in "abc"])
        await runtime.drain()
    assert diary.most == {"a": 1, "b": 1, "c": 1}
    assert len(diary.begun) == 60


async def test_each_key_keeps_its_own_order(app: App):
    begun: dict[str, list[int]] = {}

    @app.agent(on("go"), key=lambda event: event.data["k"])
    async def keeper(run: Run) -> None:
        begun.setdefault(str(run.key), []).append(run.event.data["n"])

    async with working(app) as runtime:
        await send(app, *[(key, number) for number in range(12) for key in "ab"])
        await runtime.drain()
    assert begun == {"a": list(range(12)), "b": list(range(12))}


async def test_a_run_that_waits_for_its_next_try_keeps_its_key_and_others_pass(app: App):
    begun: list[str] = []

    @app.agent(on("go"), key="data.k", backoff="1m")
    async def keeper(run: Run) -> None:
        begun.append(run.event.id)
        if run.event.id == "a1" and run.attempt == 1:
            message = "not yet"
            raise Transient(message)

    async with working(app) as runtime:
        await send(app, ("a", 1), ("a", 2), ("b", 1))
        await runtime.drain()
        assert begun == ["a1", "b1"]
        await pass_time(runtime, "1h")
    assert begun == ["a1", "b1", "a1", "a2"]


async def test_a_dead_letter_keeps_its_key_until_a_person_acts(app: App):
    broken = {"a1"}
    begun: list[str] = []

    @app.agent(on("go"), key="data.k")
    async def keeper(run: Run) -> None:
        begun.append(run.event.id)
        if run.event.id in broken:
            message = "no such customer"
            raise Persistent(message)

    async with working(app) as runtime:
        first, second, third, _ = await send(app, ("a", 1), ("a", 2), ("a", 3), ("b", 1))
        await runtime.drain()
        assert begun == ["a1", "b1"]
        story = " ".join((await runtime.reader.why(second) or {})["story"])
        assert f"run {first} is ahead of it, which is dead" in story
        assert f"wakeful dead discard {first}" in story
        assert "2 runs of key a wait behind it" in " ".join((await runtime.reader.why(first) or {})["story"])
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert "wait behind it" in alarm["text"]
        broken.clear()
        await runtime.store.do(RedoRun(first, by=Actor("ada", "code")))
        await runtime.drain()
        assert begun == ["a1", "b1", "a1", "a2", "a3"]
        assert (await runtime.reader.run(third) or {})["state"] == "done"


async def test_discarding_a_dead_letter_lets_the_others_pass(app: App):
    begun: list[str] = []

    @app.agent(on("go"), key="data.k")
    async def keeper(run: Run) -> None:
        begun.append(run.event.id)
        if run.event.id == "a1":
            message = "no"
            raise Persistent(message)

    async with working(app) as runtime:
        first, _ = await send(app, ("a", 1), ("a", 2))
        await runtime.drain()
        await runtime.store.do(RedoRun(first, discard=True, by=Actor("ada", "code")))
        await runtime.drain()
    assert begun == ["a1", "a2"]


async def test_a_dead_letter_that_let_go_is_replayed_at_the_end(app: App):
    broken = {"a1"}
    begun: list[str] = []

    @app.agent(on("go"), key="data.k", on_dead="skip")
    async def keeper(run: Run) -> None:
        begun.append(run.event.id)
        if run.event.id in broken:
            message = "no"
            raise Persistent(message)

    async with working(app) as runtime:
        first, _ = await send(app, ("a", 1), ("a", 2))
        await runtime.drain()
        assert begun == ["a1", "a2"]
        broken.clear()
        await runtime.store.do(RedoRun(first, by=Actor("ada", "code")))
        await send(app, ("a", 3))
        await runtime.drain()
        again = await runtime.store.do(RedoRun(first, again=True, by=Actor("ada", "code")))
        assert again is not None
        await runtime.drain()
        assert (await runtime.reader.run(again.run) or {})["key"] == "a"
    assert begun == ["a1", "a2", "a1", "a3", "a1"]


async def test_several_of_a_key_at_once_and_never_more(app: App):
    diary = diary_of(app, concurrency_per_key=3)
    async with working(app, worker=False):
        await send(app, *[("a", number) for number in range(10)])
    async with working(app) as runtime:
        await runtime.drain()
    assert diary.most == {"a": 3}
    assert diary.begun == list(range(10))


async def test_runs_accepted_before_a_restart_go_on_in_order(new_app: NewApp):
    before = new_app()
    diary_of(before)
    async with working(before, worker=False):
        await send(before, *[("a", number) for number in range(5)])
    after = new_app()
    diary = diary_of(after)
    async with working(after) as runtime:
        await send(after, ("a", 5))
        await runtime.drain()
    assert diary.begun == list(range(6))
    assert diary.most == {"a": 1}


# keys that cannot be told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "data.k"}, 'key="data.k" has no usable value for event odd: no field data.k'),
        ({"key": "data.list"}, "it gives list"),
        ({"key": "data.nothing"}, "it gives nothing"),
        ({"key": lambda event: event.data["k"]}, "KeyError"),
        ({"priority": "data.high"}, "no field data.high"),
        ({"priority": "data.n * 100"}, "a priority is a whole number from -10 to 10"),
    ],
)
async def test_a_key_that_cannot_be_told_is_a_dead_letter_with_expression_and_data(
    app: App, options: dict[str, Any], words: str
):
    called: list[str] = []

    @app.agent(on("go"), **options)
    async def keeper(run: Run) -> None:
        called.append(run.id)

    async with working(app) as runtime:
        receipt = await app.emit("go", {"n": 7, "list": [1], "nothing": None}, id="odd")
        run = await ended(runtime, receipt)
    assert not called
    assert run["state"] == "dead"
    assert run["error"]["type"] == "InvalidKey"
    assert words in run["error"]["message"]
    assert "agent keeper" in run["error"]["message"]
    assert f"Correct the {next(iter(options))}=, or replay it with other data" in run["error"]["message"]
    assert '"n":7' in run["error"]["message"]


async def test_what_had_no_key_goes_once_its_data_is_mended(app: App):
    called: list[Any] = []

    @app.agent(on("go"), key="data.k")
    async def keeper(run: Run) -> None:
        called.append(run.event.data)

    async with working(app) as runtime:
        run = await ended(runtime, await app.emit("go", {}))
        await runtime.store.do(RedoRun(run["id"], data='{"k": "a"}', by=Actor("ada", "code")))
        await runtime.drain()
    assert called == [{"k": "a"}]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "data.("}, "is not a CEL expression"),
        ({"key": "dat.customer"}, 'Did you mean "data.customer"?'),
        ({"priority": "data.x +"}, "is not a CEL expression"),
        ({"concurrency_per_key": 2}, "give the agent a key="),
        ({"on_dead": "skip"}, "give the agent a key="),
        ({"debounce": "1s", "batch": (2, "1s")}, "choose one"),
        ({"overlap": "skip", "batch": (2, "1s")}, "exclude each other"),
        ({"overlap": "replace", "debounce": "1s"}, "exclude each other"),
        ({"overlap": "skip", "key": "data.k", "concurrency_per_key": 2}, "exclude each other"),
        ({"state": dict, "key": "data.k", "concurrency_per_key": 2}, "one run at a time"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], words: str):
    app = App("app")
    with pytest.raises(ConfigError, match=r"agent agent \(.*test_order.py:\d+\)") as refused:

        @app.agent(on("go"), **options)
        async def agent(run: Run) -> None: ...

    assert words in str(refused.value)


def test_a_key_is_told_at_once():
    app = App("app")

    async def later(event: Event) -> str:
        return event.id

    with pytest.raises(ConfigError, match="later is async"):

        @app.agent(on("go"), key=later)
        async def agent(run: Run) -> None: ...


# overlap


async def test_while_one_is_not_over_others_are_skipped(app: App):
    opened, waiting = asyncio.Event(), asyncio.Event()

    @app.agent(on("go"), overlap="skip")
    async def one(run: Run) -> None:
        waiting.set()
        await opened.wait()

    async with working(app) as runtime:
        first = await app.emit("go", id="1")
        await waiting.wait()
        second = await app.emit("go", id="2")
        assert second.status == "accepted"
        assert second.runs == []
        assert second.skipped == {"one": f'overlap="skip": run {first.runs[0]} was not over'}
        story = " ".join((await runtime.reader.why("2") or {})["story"])
        assert f'overlap="skip": run {first.runs[0]} was not over' in story
        opened.set()
        await runtime.drain()
        assert len((await app.emit("go", id="3")).runs) == 1


async def test_of_several_that_come_together_one_goes_and_the_others_are_skipped(app: App):
    diary = diary_of(app, overlap="skip")
    async with working(app, worker=False):
        assert len(await send(app, *[("a", number) for number in range(5)], ("b", 1))) == 2
    async with working(app) as runtime:
        await runtime.drain()
    assert sorted(diary.begun) == [0, 1]


async def test_the_newest_replaces_those_that_have_not_started(app: App):
    diary = diary_of(app, overlap="replace")
    async with working(app, worker=False) as runtime:
        runs = await send(app, *[("a", number) for number in range(4)])
        states = [(await runtime.reader.run(run) or {})["state"] for run in runs]
        assert states == ["cancelled", "cancelled", "cancelled", "ready"]
        event = await runtime.reader.event("a0")
        assert event is not None
        assert event["admissions"][0]["state"] == "superseded"
        assert event["admissions"][0]["reason"] == "event a1 took its place"
    async with working(app) as runtime:
        await runtime.drain()
    assert diary.begun == [3]


async def test_one_that_has_started_is_asked_to_stop_and_the_new_one_waits_for_it(app: App, store_url: str):
    opened, waiting = asyncio.Event(), asyncio.Event()
    begun: list[str] = []

    @app.agent(on("go"), overlap="replace", key="data.k")
    async def one(run: Run) -> None:
        begun.append(run.event.id)
        waiting.set()
        await opened.wait()

    async with working(app) as runtime:
        await send(app, ("a", 1))
        await waiting.wait()
        await send(app, ("a", 2), ("a", 3))
        assert begun == ["a1"]
        rows = await query(store_url, "select cancel_by, cancel_note from wakeful_run where cancel_at is not null")
        assert [tuple(row) for row in rows] == [('overlap="replace"', "event a2 took its place")]
        opened.set()
        await runtime.drain()
    assert begun == ["a1", "a3"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_one_that_runs_stops_wherever_the_newer_event_comes_in(new_app: NewApp, *, elsewhere: bool):
    """It waits for nothing of ours, and would go on for ever."""
    begun: asyncio.Queue[str] = asyncio.Queue()

    def declared() -> App:
        app = new_app()

        @app.agent(on("go"), overlap="replace")
        async def one(run: Run) -> None:
            begun.put_nowait(run.event.id)
            if run.event.id == "old":
                await asyncio.Event().wait()

        return app

    here, there = declared(), declared()
    async with working(here) as runtime, working(there, worker=False), asyncio.timeout(30):
        old = await here.emit("go", id="old")
        assert await begun.get() == "old"
        await (there if elsewhere else here).emit("go", id="new")
        assert await begun.get() == "new"
        assert (await the_run(runtime, old))["state"] == "cancelled"


@pytest.mark.parametrize("options", [{"overlap": "replace"}, {"debounce": "30s"}])
async def test_who_called_one_that_gave_way_is_told(app: App, options: dict[str, Any]):
    told: list[str] = []

    @app.agent(on("sync"), **options)
    async def sync(run: Run) -> None: ...

    @app.agent(on("ask"))
    async def caller(run: Run) -> None:
        try:
            await run.call("sync")
        except ChildFailed as error:
            told.append(str(error))

    async with working(app) as runtime:
        await runtime.store.do(ChangePause("app", "sync", paused=True, by=Actor("alice", "code")))
        await app.emit("ask")
        await runtime.drain()
        await app.emit("sync", id="newer")
        await runtime.drain()
    assert len(told) == 1
    assert told[0].endswith("is cancelled: event newer took its place")


# debounce


async def test_the_newest_of_a_burst_goes_once_it_is_quiet(app: App):
    diary = diary_of(app, debounce="30s")
    async with working(app) as runtime:
        for number in range(4):
            await send(app, ("a", number))
            await pass_time(runtime, "20s")
        assert diary.begun == []
        story = " ".join((await runtime.reader.why("a3") or {})["story"])
        assert "The run waits for more events, or for a newer one" in story
        await pass_time(runtime, "10s")
        assert diary.begun == [3]
        states = [(await runtime.reader.event(f"a{number}") or {})["admissions"][0]["state"] for number in range(4)]
        assert states == ["superseded", "superseded", "superseded", "started"]


async def test_a_burst_without_end_waits_no_longer_than_the_longest(app: App):
    diary = diary_of(app, key=None, debounce=("30s", "70s"))
    async with working(app) as runtime:
        for number in range(4):
            await send(app, ("a", number))
            await pass_time(runtime, "20s")
        assert diary.begun == [3]


# priority


async def test_the_urgent_go_first_and_the_old_before_the_fresh(new_app: NewApp):
    app = new_app(in_flight=1)
    diary = diary_of(app, key=None, priority="data.p")
    async with working(app, worker=False) as runtime:
        await app.emit("go", {"n": "old", "p": -10})
        await app.emit("go", {"n": "young", "p": -9})
        runtime.clock.move("15m")  # type: ignore[attr-defined]
        await app.emit("go", {"n": "low", "p": 0})
        await app.emit("go", {"n": "high", "p": 4})
        await app.emit("go", {"n": "highest", "p": 10})
    async with working(app) as runtime:
        await runtime.drain()
    assert diary.begun == ["highest", "young", "old", "high", "low"]


# expiry


async def test_one_that_could_not_start_in_time_never_does_and_lets_go_of_its_key(app: App):
    opened, waiting = asyncio.Event(), asyncio.Event()
    begun: list[str] = []

    @app.agent(on("go"), key="data.k", expires="1m")
    async def keeper(run: Run) -> None:
        begun.append(run.event.id)
        waiting.set()
        await opened.wait()

    async with working(app) as runtime:
        _, second = await send(app, ("a", 1), ("a", 2))
        await waiting.wait()
        runtime.clock.move("2m")  # type: ignore[attr-defined]
        await send(app, ("a", 3))
        opened.set()
        await runtime.drain()
        run = await runtime.reader.run(second)
        assert run is not None
        assert run["state"] == "cancelled"
        event = await runtime.reader.event("a2")
        assert event is not None
        assert event["admissions"][0]["state"] == "expired"
    assert begun == ["a1", "a3"]


# what an agent keeps for a key


class Seen(BaseModel):
    count: int = 0


async def test_one_that_expired_behind_a_dead_letter_says_so(app: App):
    @app.agent(on("go"), key="data.k", expires="1m")
    async def keeper(run: Run) -> None:
        message = "no"
        raise Persistent(message)

    async with working(app) as runtime:
        _, behind = await send(app, ("a", 1), ("a", 2))
        await pass_time(runtime, "2m")
        told = await why(runtime.reader, behind)
        assert told is not None
        assert told["story"][-1] == (
            "It expired at 2026-01-01 00:01:00 UTC: it will not start, and is cancelled when its turn comes."
        )


async def test_a_state_is_kept_for_each_key(app: App):
    together: list[int] = []
    now: list[str | None] = []

    @app.agent(on("go"), key="data.k", state=Seen)
    async def counter(run: Run) -> int:
        now.append(run.key)
        for _ in range(5):
            await asyncio.sleep(0)
        together.append(len(now))
        run.state.count += 1
        now.remove(run.key)
        return int(run.state.count)

    async with working(app, worker=False):
        await send(app, *[(key, number) for number in range(6) for key in "ab"])
    async with working(app) as runtime:
        await runtime.drain()
        kept = {one["key"]: one["value"] for one in await runtime.reader.states("counter")}
    assert kept == {"a": {"count": 6}, "b": {"count": 6}}
    assert max(together) == 2


async def test_what_is_emitted_by_a_run_queues_as_well(app: App):
    diary = diary_of(app)

    @app.agent(on("start"))
    async def starter(run: Run) -> list[Any]:
        return [(await run.emit("go", {"k": "a", "n": number})).runs for number in range(3)]

    async with working(app) as runtime:
        run = await ended(runtime, await app.emit("start"))
        assert all(len(runs) == 1 for runs in run["output"])
        await runtime.drain()
    assert diary.begun == [0, 1, 2]


async def test_a_checkpoint_says_what_became_of_the_event(app: App):
    diary_of(app, overlap="skip")

    @app.agent(on("start"))
    async def starter(run: Run) -> list[Any]:
        return [(await run.emit("go", {"k": "a", "n": number})).runs for number in range(3)]

    async with working(app) as runtime:
        receipt = await app.emit("start")
        await runtime.drain()
        run = await the_run(runtime, receipt)
        recorded = [step["result"]["runs"] for step in run["steps"]]
    assert run["output"] == recorded


@pytest.mark.parametrize("again", ["the original", "its fork"])
async def test_a_fork_of_a_dead_letter_takes_its_place(app: App, again: str):
    broken = {0}
    begun: list[tuple[str, int]] = []

    async def look(number: int) -> int:
        return number

    @app.agent(on("go"), key="data.k")
    async def keeper(run: Run) -> None:
        number = await run.step(look, run.event.data["n"])
        begun.append((run.id.partition(".")[2], number))
        if number in broken:
            raise Persistent("broken")

    async with working(app) as runtime:
        first, second, third = await send(app, ("a", 0), ("a", 1), ("a", 2))
        await runtime.drain()
        assert begun == [("", 0)], "the others wait behind the dead letter"
        forked = await fork(runtime, first)
        await runtime.drain()
        assert begun == [("", 0), ("1", 0)], "it goes before those behind the original, and is dead too"
        story = " ".join((await runtime.reader.why(second) or {})["story"])
        assert f"run {forked.run} is ahead of it, which is dead" in story
        broken.clear()
        which = forked.run if again == "its fork" else first
        await runtime.store.do(RedoRun(which, by=Actor("ada", "code")))
        await runtime.drain()
        states = [(await runtime.reader.run(run) or {})["state"] for run in (first, forked.run, second, third)]
    assert [number for _, number in begun] == [0, 0, 0, 1, 2]
    assert states == (["dead", "done"] if again == "its fork" else ["done", "dead"]) + ["done", "done"]


async def test_a_fork_of_one_that_let_go_of_its_key_goes_to_the_end(app: App):
    begun: list[int] = []
    broken = {0}

    async def look(number: int) -> int:
        return number

    @app.agent(on("go"), key="data.k", on_dead="skip")
    async def keeper(run: Run) -> None:
        begun.append(await run.step(look, run.event.data["n"]))
        if run.event.data["n"] in broken:
            raise Persistent("broken")

    async with working(app) as runtime:
        (first,) = await send(app, ("a", 0))
        await runtime.drain()
        broken.clear()
        await runtime.store.do(ChangePause("app", "keeper", paused=True, by=Actor("ada", "code")))
        await send(app, ("a", 1))
        await fork(runtime, first)
        await runtime.store.do(ChangePause("app", "keeper", paused=False, by=Actor("ada", "code")))
        await runtime.drain()
    assert begun == [0, 1, 0]
