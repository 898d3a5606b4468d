"""Resume: the handler runs from the top, and what was done, decided or said in the earlier part stays as it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.apps import NewApp, ended, go, pass_time, the_run, working
from wakeful import App, Run, Transient, on
from wakeful.clock import VirtualClock
from wakeful.execution.attempt import current_attempt
from wakeful.model import Receipt
from wakeful.stores.verbs.processes import BuryProcess


async def nothing(number: int = 0) -> int:
    return number


def fail_once(run: Run) -> None:
    if run.attempt == 1:
        raise Transient("the first attempt fails here")


async def twice(app: App, **event: Any) -> dict[str, Any]:
    """An event whose run fails at its first attempt and is tried again an hour later."""
    async with working(app) as runtime:
        receipt = await app.emit("go", **event)
        await runtime.drain()
        await pass_time(runtime)
        return await the_run(runtime, receipt)


class TestFacts:
    """run.now(), run.uuid() and run.random give the same values again."""

    @pytest.mark.parametrize("checkpoint", ["step", "emit", "map", "none"])
    async def test_the_time_stays_the_same_once_it_is_stored(self, app: App, clock: VirtualClock, checkpoint):
        seen: list[list[object]] = []

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            first = run.now()
            clock.move("1s")
            second = run.now()
            seen.append([first, second])
            if checkpoint == "step":
                await run.step(nothing)
            elif checkpoint == "emit":
                await run.emit("elsewhere")
            elif checkpoint == "map":
                await run.map(nothing, [1, 2])
            fail_once(run)

        assert (await twice(app))["state"] == "done"
        assert seen[0] == seen[1]
        assert seen[0][0] != seen[0][1]

    async def test_the_time_stays_the_same_when_a_step_that_was_given_it_failed(self, app: App):
        given: list[str] = []

        async def use(moment: str) -> None:
            given.append(moment)
            if len(given) == 1:
                raise Transient("put away", retry_after="10s")

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(use, run.now().isoformat())

        run = await twice(app)
        assert (run["state"], run["attempts"]) == ("done", 1)
        assert len(given) == 2
        assert given[0] == given[1]

    async def test_the_time_is_the_clocks(self, app: App, clock: VirtualClock):
        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            return run.now().isoformat()

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == "2026-01-01T00:00:00+00:00"

    async def test_identifiers_and_chance_are_the_same_again_and_differ_from_run_to_run(self, app: App):
        seen: dict[str, list[object]] = {}

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            values = [
                run.uuid(),
                run.uuid(),
                run.random.random(),
                run.random.randint(1, 10**9),
                run.random.choice("abcdef"),
            ]
            seen.setdefault(run.id, []).append(values)
            fail_once(run)

        async with working(app) as runtime:
            await app.emit("go", id="1")
            await app.emit("go", id="2")
            await runtime.drain()
            await pass_time(runtime)
        one, other = seen.values()
        assert one[0] == one[1]
        assert other[0] == other[1]
        assert one[0] != other[0]
        identifiers = [values[0][number] for values in (one, other) for number in (0, 1)]  # type: ignore[index]
        assert len(set(identifiers)) == 4

    async def test_facts_about_the_run(self, app: App):
        seen = []

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            seen.append((run.id, run.agent, run.attempt, run.event.id, run.event.data, run.scheduled_for))
            fail_once(run)

        run = await twice(app, id="7", data={"a": 1})
        assert seen == [(run["id"], "agent", attempt, "7", {"a": 1}, None) for attempt in (1, 2)]


class TestLog:
    async def test_lines_of_the_part_that_is_read_back_are_not_repeated(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            run.log.info("starting")
            await run.step(nothing, 1)
            run.log.info("between", number=1)
            await run.step(nothing, 2)
            fail_once(run)
            run.log.warning("after")
            await run.step(nothing, 3)
            run.log.info("done")

        with capture_logs() as logs:
            run = await twice(app)
        own = [line for line in logs if line["event"] in {"starting", "between", "after", "done"}]
        assert [line["event"] for line in own] == ["starting", "between", "after", "done"]
        assert [line["log_level"] for line in own] == ["info", "info", "warning", "info"]
        assert own[1]["number"] == 1
        assert run["state"] == "done"

    async def test_lines_go_on_when_a_branch_is_new(self, app: App):
        """What was recorded and is not asked for again does not silence the rest."""

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.step(nothing, run.attempt)
            run.log.info(f"attempt {run.attempt}")
            fail_once(run)

        with capture_logs() as logs:
            await twice(app)
        assert [line["event"] for line in logs if line["event"].startswith("attempt")] == ["attempt 1", "attempt 2"]


class TestEmit:
    async def test_an_event_is_emitted_once(self, app: App):
        receipts: list[Receipt] = []
        emitted = []

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            receipts.append(await run.emit("order.created", {"number": 7}, subject="orders/7"))
            fail_once(run)

        @app.agent(on("order.created"))
        async def ship(run: Run) -> None:
            emitted.append(run.event)

        assert (await twice(app, id="1"))["state"] == "done"
        (event,) = emitted
        assert (event.type, event.data, event.subject) == ("order.created", {"number": 7}, "orders/7")
        assert event.source == "/app/agent"
        assert len(receipts) == 2
        assert receipts[0] == receipts[1]
        assert (receipts[0].status, len(receipts[0].runs)) == ("accepted", 1)

    async def test_it_carries_where_it_came_from(self, app: App):
        seen = {}
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

        @app.agent(on("first"))
        async def first(run: Run) -> None:
            await run.emit("second")

        @app.agent(on("second"))
        async def second(run: Run) -> None:
            seen["second"] = run.event
            await run.emit("third")

        @app.agent(on("third"))
        async def third(run: Run) -> None:
            seen["third"] = run.event

        async with working(app) as runtime:
            await app.emit("first", id="root", traceparent=trace)
            await runtime.drain()
        assert (seen["second"].causationid, seen["second"].correlationid) == ("root", "root")
        assert (seen["third"].causationid, seen["third"].correlationid) == (seen["second"].id, "root")
        assert seen["third"].traceparent == trace

    async def test_equal_ones_are_counted_and_each_is_an_event(self, app: App):
        seen = []

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            for _ in range(3):
                await run.emit("tick")
            fail_once(run)

        @app.agent(on("tick"))
        async def ticks(run: Run) -> None:
            seen.append(run.event.id)

        await twice(app)
        assert len(seen) == len(set(seen)) == 3

    async def test_an_id_of_its_own_maps_onto_what_was_there(self, app: App):
        receipts = []

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            receipts.append(await run.emit("order.created", id="the one"))
            fail_once(run)

        @app.agent(on("order.created"))
        async def ship(run: Run) -> None: ...

        async with working(app) as runtime:
            first = await app.emit("go", id="1")
            await ended(runtime, first)
            await app.emit("go", id="2")
            await runtime.drain()
            await pass_time(runtime)
            assert await runtime.reader.counts() == {"done": 3}
        assert sorted(receipt.status for receipt in receipts) == ["accepted", "accepted", "duplicate", "duplicate"]
        assert len({tuple(receipt.runs) for receipt in receipts}) == 1

    async def test_an_event_that_was_given_the_time_is_emitted_once(self, app: App, clock: VirtualClock):
        """The time is stored with the event that carries it: otherwise the second attempt would emit another one."""

        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.emit("tick", {"at": run.now().isoformat()})
            fail_once(run)

        async with working(app) as runtime:
            await app.emit("go")
            await runtime.drain()
            await pass_time(runtime)
            assert len((await runtime.reader.events(type="tick"))["events"]) == 1

    @pytest.mark.parametrize(
        ("type", "fields"),
        [("", {}), ("x" * 2_000, {}), ("a\0b", {}), ("ok", {"id": ""}), ("ok", {"Bad-Name": "x"})],
        ids=["empty", "too long", "NUL", "empty id", "bad extension"],
    )
    async def test_an_event_that_is_not_one_is_a_persistent_failure(self, app: App, type, fields):  # noqa: A002
        @app.agent(on("go"), attempts=3)
        async def agent(run: Run) -> None:
            await run.emit(type, **fields)

        async with working(app) as runtime:
            run = await go(runtime)
            assert [event["type"] for event in (await runtime.reader.events())["events"]] == ["go"]
        assert (run["state"], run["attempts"]) == ("dead", 1)

    async def test_data_that_is_not_json_is_a_persistent_failure(self, app: App):
        @app.agent(on("go"))
        async def agent(run: Run) -> None:
            await run.emit("other", object())

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "emit other" in run["error"]["message"]

    async def test_a_run_that_was_lost_emits_nothing(self, new_app: NewApp):
        """The first worker is declared dead while its handler thinks; what it emits afterwards is refused."""
        slow, quick = new_app(), new_app()
        thinking, decided = asyncio.Event(), asyncio.Event()
        outcome: list[str] = []

        @slow.agent(on("go"), name="agent")
        async def thinks(run: Run) -> None:
            thinking.set()
            await decided.wait()
            try:
                await run.emit("from the zombie")
            finally:
                outcome.append("refused" if current_attempt().interrupted else "went through")

        @quick.agent(on("go"), name="agent")
        async def acts(run: Run) -> str:
            await run.emit("from the heir")
            return "done"

        async with working(slow):
            receipt = await slow.emit("go")
            await thinking.wait()
            async with working(quick) as runtime:
                assert slow.runtime is not None
                await runtime.store.do(BuryProcess(slow.runtime.membership.process, certain=True))
                assert (await ended(runtime, receipt))["output"] == "done"
                decided.set()
                await slow.runtime.worker.idle()
                types = {event["type"] for event in (await runtime.reader.events())["events"]}
        assert types == {"go", "from the heir"}
        assert outcome == ["refused"]


async def test_a_run_resumes_in_another_process_from_its_last_step(new_app: NewApp):
    """The first one stops in the middle and gives the run back; the second has only what is stored."""
    first, second = new_app(), new_app()
    calls = []
    waiting = asyncio.Event()

    async def fetch(number: int) -> int:
        calls.append(number)
        return number * 10

    @first.agent(on("go"), name="agent")
    async def stops(run: Run) -> None:
        await run.step(fetch, 1)
        await run.step(fetch, 2)
        waiting.set()
        await asyncio.Event().wait()

    @second.agent(on("go"), name="agent")
    async def goes_on(run: Run) -> list[int]:
        return [await run.step(fetch, number) for number in (1, 2, 3)]

    async with working(first) as runtime:
        receipt = await first.emit("go")
        await waiting.wait()
        await runtime.stop(grace=0)
    async with working(second) as runtime:
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"], run["attempts"]) == ("done", [10, 20, 30], 1)
    assert calls == [1, 2, 3]


async def test_a_step_whose_record_is_refused_is_not_continued(new_app: NewApp):
    """A worker that was declared dead while a step ran: its result is not stored, and the next line never runs."""
    slow, quick = new_app(), new_app()
    calls: list[str] = []
    working_on_it, go_on = asyncio.Event(), asyncio.Event()

    async def compute(who: str) -> str:
        calls.append(who)
        if who == "zombie":
            working_on_it.set()
            await go_on.wait()
        return who

    @slow.agent(on("go"), name="agent")
    async def zombie(run: Run) -> None:
        try:
            await run.step(compute, "zombie")
            calls.append("next line")
        except Exception:
            calls.append("error")
        await run.step(compute, "further")

    @quick.agent(on("go"), name="agent")
    async def heir(run: Run) -> str:
        return await run.step(compute, "heir")

    async with working(slow):
        receipt = await slow.emit("go")
        await working_on_it.wait()
        async with working(quick) as runtime:
            assert slow.runtime is not None
            await runtime.store.do(BuryProcess(slow.runtime.membership.process, certain=True))
            run = await ended(runtime, receipt)
            go_on.set()
            await slow.runtime.worker.idle()
            after = await the_run(runtime, receipt)
    assert "next line" not in calls
    assert "further" not in calls
    assert (after["state"], after["output"]) == ("done", "heir")
    assert after["steps"] == run["steps"]
