"""`@app.agent(once=…)`: of several events of one key, one starts a run."""

from __future__ import annotations

import asyncio
import sys
import textwrap

import pytest

from support.apps import NewApp, pass_time, the_run, working
from wakeful import App, ConfigError, Persistent, Run, on
from wakeful.execution.housekeeping import Housekeeper, Retention
from wakeful.intake.cloudevents import new_event
from wakeful.operations.declared import Declared
from wakeful.operations.feeding import Feeding, feed_events, plan_feed
from wakeful.stores.keeping import Keeper
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.why import why


def ticketing(app: App, tickets: list[str], **options) -> App:
    options.setdefault("once", "data.incident")

    @app.agent(on("alert"), **options)
    async def ticket(run: Run) -> str:
        if run.event.data.get("broken"):
            message = "no tickets today"
            raise Persistent(message)
        tickets.append(run.event.id)
        return f"ticket for {run.event.id}"

    return app


async def admission(runtime, event: str) -> dict:
    (one,) = (await runtime.reader.event(event))["admissions"]
    return one


async def story_of(runtime, event: str) -> str:
    told = await why(runtime.reader, event)
    assert told is not None
    return " ".join(told["story"])


async def test_a_second_event_of_the_key_joins_the_first_run(app: App):
    tickets: list[str] = []
    async with working(ticketing(app, tickets)) as runtime:
        first = await app.emit("alert", {"incident": "INC-7"}, id="one")
        second = await app.emit("alert", {"incident": "INC-7", "more": True}, id="two")
        other = await app.emit("alert", {"incident": "INC-8"}, id="three")
        await runtime.drain()
        again = await app.emit("alert", {"incident": "INC-7"}, id="four")
        await runtime.drain()
        assert (second.status, second.runs, again.runs) == ("accepted", first.runs, first.runs)
        assert other.runs != first.runs
        assert sorted(tickets) == ["one", "three"]
        told = await admission(runtime, "two")
        assert (told["state"], told["run"]) == ("joined", first.runs[0])
        assert told["reason"] == f'once: key "INC-7" has run {first.runs[0]}'
        assert (await admission(runtime, "one"))["state"] == "started"
        story = await story_of(runtime, "two")
        assert (
            f'started no run for it, because an earlier event has the same key (once: key "INC-7" has run {first.runs[0]})'
            in story
        )
        # A second delivery of the joined event is a duplicate, and has the same run.
        repeated = await app.emit("alert", {"incident": "INC-7", "more": True}, id="two")
        assert (repeated.status, repeated.runs) == ("duplicate", first.runs)
        assert await app.result(second) == "ticket for one"


async def test_events_in_one_request(app: App):
    tickets: list[str] = []
    async with working(ticketing(app, tickets)) as runtime:
        events = [new_event("alert", {"incident": "INC-7"}, source="/test", id=str(number)) for number in range(3)]
        receipts = await runtime.door.accept(events)
        await runtime.drain()
    assert [receipt.runs for receipt in receipts] == [receipts[0].runs] * 3
    assert tickets == ["0"]


@pytest.mark.parametrize("keyed", [False, True])
async def test_64_at_once(new_app: NewApp, keyed: bool):
    """In two processes: one run."""
    tickets: list[str] = []
    options = {"key": "data.incident"} if keyed else {}
    one, two = (ticketing(new_app(clock=None), tickets, **options) for _ in range(2))
    async with working(one), working(two):
        receipts = await asyncio.gather(
            *[(one, two)[number % 2].emit("alert", {"incident": "INC-7"}, id=str(number)) for number in range(64)]
        )
        await one.result(receipts[0])
    assert len({tuple(receipt.runs) for receipt in receipts}) == 1
    assert len(tickets) == 1


async def test_real_processes_race(new_app: NewApp, store_url: str):
    child = textwrap.dedent(
        """
        import asyncio, sys
        from wakeful import App, on

        app = App("app", store=sys.argv[1])

        @app.agent(on("alert"), once="data.incident")
        async def ticket(run): ...

        async def main():
            async with app.running(worker=False):
                print("ready", flush=True)
                sys.stdin.readline()
                await asyncio.gather(*[
                    app.emit("alert", {"incident": str(number)}, id=f"{sys.argv[2]}-{number}") for number in range(32)
                ])

        asyncio.run(main())
        """
    )
    tickets: list[str] = []
    app = ticketing(new_app(clock=None), tickets)
    async with working(app, worker=False):
        pipe = asyncio.subprocess.PIPE
        children = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", child, store_url, name, stdin=pipe, stdout=pipe)
            for name in ("a", "b", "c")
        ]
        for process in children:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        for process in children:
            assert process.stdin is not None
            process.stdin.write(b"\n")
        for process in children:
            await process.communicate()
            assert process.returncode == 0
    async with working(app) as runtime:
        await runtime.drain()
        events = (await runtime.reader.events(limit=500))["events"]
        runs = (await runtime.reader.runs(limit=500))["runs"]
    assert (len(events), len(runs), len(tickets)) == (96, 32, 32)


async def test_the_key_is_free_again_when_its_time_is_over(app: App):
    tickets: list[str] = []
    async with working(ticketing(app, tickets, once_for="30d")) as runtime:
        await app.emit("alert", {"incident": "INC-7"}, id="one")
        await pass_time(runtime, "29d")
        await app.emit("alert", {"incident": "INC-7"}, id="two")
        await pass_time(runtime, "1d")
        await app.emit("alert", {"incident": "INC-7"}, id="three")
        await runtime.drain()
        await app.emit("alert", {"incident": "INC-7"}, id="four")
        await runtime.drain()
        assert tickets == ["one", "three"]


async def test_a_dead_run_keeps_its_key_and_is_replayed(app: App):
    """Two runs for one key would be what the key is there to prevent: a person replays the first."""
    tickets: list[str] = []
    async with working(ticketing(app, tickets)) as runtime:
        first = await go_alert(runtime, {"incident": "INC-7", "broken": True})
        assert first["state"] == "dead"
        second = await app.emit("alert", {"incident": "INC-7"}, id="two")
        await runtime.drain()
        assert (second.runs, tickets) == ([first["id"]], [])
        assert (await admission(runtime, "two"))["reason"].endswith("which is dead: replay that one")
        story = await story_of(runtime, "two")
        assert "which is dead: replay that one" in story
        assert f"wakeful replay {first['id']}" in story
        await runtime.store.do(RedoRun(first["id"], data='{"incident": "INC-7"}', by=Actor("ada", "code")))
        await runtime.drain()
        assert tickets == ["one"]


async def go_alert(runtime, data, id="one"):  # noqa: A002
    receipt = await runtime.app.emit("alert", data, id=id)
    await runtime.drain()
    return await the_run(runtime, receipt)


@pytest.mark.parametrize("data", [{}, {"incident": None}, {"incident": ""}, {"incident": ["INC"]}])
async def test_an_event_without_the_key_is_handled_like_any_other(app: App, data: dict):
    tickets: list[str] = []
    async with working(ticketing(app, tickets)) as runtime:
        await go_alert(runtime, data, "one")
        await go_alert(runtime, data, "two")
        assert tickets == ["one", "two"]
        told = await admission(runtime, "two")
        assert told["state"] == "started"
        assert told["reason"].startswith('once="data.incident" gives no key')
        assert "it is not compared with other events" in await story_of(runtime, "two")


async def test_a_function_gives_the_key(app: App):
    tickets: list[str] = []

    def incident(event):
        return event.data["incident"].lower()

    async with working(ticketing(app, tickets, once=incident)) as runtime:
        await app.emit("alert", {"incident": "INC-7"}, id="one")
        await app.emit("alert", {"incident": "inc-7"}, id="two")
        await app.emit("alert", {}, id="three")  # the function fails: nothing is lost
        await runtime.drain()
        assert sorted(tickets) == ["one", "three"]
        assert "incident gives no key (KeyError" in (await admission(runtime, "three"))["reason"]


async def test_each_agent_has_keys_of_its_own(app: App):
    tickets: list[str] = []
    ticketing(app, tickets)

    @app.agent(on("alert"))
    async def log(run: Run) -> None:
        tickets.append(f"log {run.event.id}")

    async with working(app) as runtime:
        await app.emit("alert", {"incident": "INC-7"}, id="one")
        second = await app.emit("alert", {"incident": "INC-7"}, id="two")
        await runtime.drain()
    assert sorted(tickets) == ["log one", "log two", "one"]
    assert len(second.runs) == 2


async def test_calls_that_join_a_run_get_its_output(app: App):
    """The first run has callers that it did not know of when it was claimed."""
    release, tickets = asyncio.Event(), []

    @app.agent(once="data.incident")
    async def ticket(run: Run) -> str:
        tickets.append(run.event.id)
        await release.wait()
        return f"ticket {len(tickets)}"

    @app.agent(on("alert"))
    async def alert(run: Run) -> str:
        return await run.call(ticket, {"incident": "INC-7", "alert": run.event.id})

    async with working(app) as runtime:
        receipts = [await app.emit("alert", id=str(number)) for number in range(3)]
        while len(await waiting_runs(runtime)) < 3:
            await asyncio.sleep(0.01)
        release.set()
        await runtime.drain()
        assert [(await the_run(runtime, receipt))["output"] for receipt in receipts] == ["ticket 1"] * 3
        after = await app.emit("alert", id="later")  # the run is over already
        await runtime.drain()
        assert (await the_run(runtime, after))["output"] == "ticket 1"


async def test_a_run_that_others_called_too_is_not_cancelled_with_its_first_caller(app: App):
    release = asyncio.Event()

    @app.agent(once="data.incident")
    async def ticket(run: Run) -> str:
        await release.wait()
        return "ticket"

    @app.agent(on("alert"))
    async def alert(run: Run) -> str:
        return await run.call(ticket, {"incident": "INC-7"})

    async with working(app) as runtime:
        first, second = [await app.emit("alert", id=str(number)) for number in range(2)]
        while len(await waiting_runs(runtime)) < 2:
            await asyncio.sleep(0.01)
        await runtime.store.do(CancelRun(first.runs[0], by=Actor("ada", "code")))
        release.set()
        await runtime.drain()
        assert (await the_run(runtime, first))["state"] == "cancelled"
        assert (await the_run(runtime, second))["output"] == "ticket"


async def waiting_runs(runtime) -> list:
    return (await runtime.reader.runs(agent="alert", state="waiting"))["runs"]


async def test_events_that_are_handed_over_later_count_too(app: App):
    """An agent that is added with `replay --events` makes one ticket for each incident."""
    tickets: list[str] = []
    async with working(app) as runtime:
        for number in range(3):
            await app.emit("alert", {"incident": "INC-7"}, id=str(number))
    later = App("app", store=app.store, clock=app.clock)
    async with working(ticketing(later, tickets)) as runtime:
        feeding = Feeding("alert", 0, 10**17, "ticket")
        plan, flow = await plan_feed(runtime.reader, feeding), Declared(later).flow("ticket")
        assert await feed_events(runtime.store, runtime.reader, feeding, plan, by=Actor("ada", "code"), flow=flow) == 1
        await runtime.drain()
        assert len(tickets) == 1
        assert sorted([(await admission(runtime, str(number)))["state"] for number in range(3)]) == [
            "joined",
            "joined",
            "started",
        ]


async def test_keys_go_when_their_time_is_over(app: App):
    async with working(ticketing(app, [], once_for="30d")) as runtime:
        await go_alert(runtime, {"incident": "INC-7"})
        housekeeper = Housekeeper(Keeper(runtime.store), Retention("app"), pause=0)
        await housekeeper.run_once()
        assert len(await runtime.database.fetch("find_once", "app", "ticket", "INC-7")) == 1
        await pass_time(runtime, "31d")
        await housekeeper.run_once()
        assert await runtime.database.fetch("find_once", "app", "ticket", "INC-7") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"once": "data.incident ="}, "once"),
        ({"once": 7}, "once must be a CEL expression or a function of the event"),
        ({"once_for": "30d"}, "give the agent a once="),
        ({"once": "data.x", "once_for": "soon"}, "once_for"),
        ({"once": "data.x", "batch": (2, "1s")}, "exclude each other"),
        ({"once": "data.x", "debounce": "1s"}, "exclude each other"),
        ({"once": "data.x", "overlap": "replace"}, "exclude each other"),
        ({"onec": "data.x"}, 'Did you mean "once"?'),
    ],
)
def test_what_cannot_be_meant(options: dict, words: str):
    app = App("app")
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")):

        @app.agent(on("alert"), **options)
        async def ticket(run: Run) -> None: ...
