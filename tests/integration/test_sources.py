"""The contract of sources, with a source that the test makes up: whatever is read is stored with the cursor, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from support.apps import FOREVER, NewApp, working
from wakeful import App, Run
from wakeful.cel import Match
from wakeful.errors import SourceLost
from wakeful.model import Event
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.sources import ForgetSource, HoldSource, find_source
from wakeful.stores.verbs.take_in import Item, TakeIn, items_of
from wakeful.testing.waiting import until
from wakeful.triggers.reading import SOON
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble, Unreadable


@dataclass(eq=False)
class Tape:
    """The outside: numbered lines, and what the reader was told of them."""

    lines: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    opened_at: list[str | None] = field(default_factory=list)
    trouble: str | None = None
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, *lines: str) -> None:
        self.lines += lines
        self.came.set()


class TapeReader(Reader):
    kind = "tape"

    def __init__(self, tape: Tape, context: Context) -> None:
        super().__init__("tape")
        self._tape = tape
        self._context = context
        self._at = 0

    async def open(self, cursor: str | None) -> None:
        if self._tape.trouble is not None:
            raise SourceTrouble(self._tape.trouble)
        self._tape.opened_at.append(cursor)
        self._at = int(cursor or 0)

    async def read(self, within: float) -> Batch | None:
        if self._tape.trouble is not None:
            raise SourceTrouble(self._tape.trouble)
        if self._at == len(self._tape.lines):
            self._tape.came.clear()
            try:
                async with asyncio.timeout(within):
                    await self._tape.came.wait()
            except TimeoutError:
                return None
        lines = self._tape.lines[self._at : self._at + 3]
        batch = Batch(cursor=str(self._at + len(lines)), receipt=lines, behind=len(self._tape.lines) - self._at)
        for number, line in enumerate(lines, start=self._at):
            if line.startswith("?"):
                batch.unreadable.append(
                    Unreadable(line.encode(), "it begins with a question mark", {"line": str(number)})
                )
            else:
                batch.events.append(Event("/tape", str(number), "tape.line", {"line": line}))
                batch.items.append(Item(line, number, "read"))
        self._at += len(lines)
        return batch

    async def acknowledge(self, batch: Batch) -> None:
        self._tape.acknowledged += batch.receipt

    async def close(self) -> None:
        pass


@dataclass(frozen=True)
class TapeTrigger:
    tape: Tape
    type: ClassVar[str] = "tape.line"
    source: ClassVar[str | None] = "/tape"
    where: ClassVar[str | None] = None
    carries_data: ClassVar[bool] = True

    @property
    def shared(self) -> tuple[object, ...]:
        return ("tape", id(self.tape))

    def describe(self) -> str:
        return "tape"

    def matches(self, event: Event) -> Match:
        return Match(matched=True, reason="tape")

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        return TapeReader(self.tape, context)

    async def problems(self) -> list[str]:
        return []


def an_app(new_app: NewApp, tape: Tape, seen: list[str], **options: Any) -> App:
    app = new_app(**options)

    @app.agent(TapeTrigger(tape))
    async def note(run: Run) -> None:
        seen.append(run.event.data["line"])

    return app


async def until_in_state(runtime: Runtime, state: str, *, source: str = "tape") -> Any:
    async with asyncio.timeout(60):
        while (found := await find_source(runtime.store.database, "app", source)) is None or found.state != state:
            await asyncio.sleep(0.01)
    return found


async def test_what_is_read_becomes_runs_with_the_cursor_and_is_acknowledged(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    tape.write("a", "b", "c", "d")
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == ["a", "b", "c", "d"]
        assert tape.acknowledged == ["a", "b", "c", "d"]
        found = await find_source(runtime.store.database, "app", "tape")
        assert found is not None
        assert (found.kind, found.state, found.cursor, found.taken, found.repeated) == ("tape", "reading", "4", 4, 0)
        assert [one.item for one in await items_of(runtime.store.database, "app", "tape")] == ["a", "b", "c", "d"]
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        tape.write("e")
        await runtime.drain()
        assert tape.opened_at == [None, "4"]
        assert sorted(seen) == ["a", "b", "c", "d", "e"]


async def test_a_death_after_the_read_loses_and_doubles_nothing(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    tape.write("a", "b")

    def die_after(moment: str, requests: Sequence[Any]) -> None:
        if moment == "within" and any(isinstance(one, TakeIn) for one in requests):
            raise Died

    app = an_app(new_app, tape, seen)
    runtime = Runtime(app, lease=FOREVER, probe=die_after)
    await runtime.open(migrate=True)
    await runtime.start()
    async with asyncio.timeout(60):
        while not runtime.store.journal.is_dead():
            await asyncio.sleep(0.01)
    await runtime.die()
    assert tape.acknowledged == []
    async with working(an_app(new_app, tape, seen), reading="drained") as again:
        for process, _, _ in await other_processes(again.store.database, again.membership.process):
            await again.store.do(BuryProcess(process, certain=True))
        await again.drain()
        assert sorted(seen) == ["a", "b"]
        assert tape.acknowledged == ["a", "b"]


async def test_only_one_process_reads_and_a_stale_one_stores_nothing(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    async with working(an_app(new_app, tape, seen), reading="drained") as first:
        await first.drain()
        held = await find_source(first.store.database, "app", "tape")
        assert held is not None
        async with working(an_app(new_app, tape, seen), reading="drained") as second:
            tape.write("a")
            await second.drain()
            assert seen == []  # the first one has it
            assert await second.store.do(HoldSource("app", "tape", second.membership.process)) is None
            await first.sources.stop()
            await second.drain()
            assert seen == ["a"]
            with pytest.raises(SourceLost, match="read by another process"):
                await first.store.do(
                    TakeIn("app", "tape", process=first.membership.process, token=held.token, cursor="0")
                )


async def test_a_source_that_cannot_be_read_is_an_alarm_and_the_rest_goes_on(new_app: NewApp):
    tape, seen = Tape(trouble="the tape is torn: mend it"), list[str]()
    async with working(an_app(new_app, tape, seen, clock=None)) as runtime:
        failing = await until_in_state(runtime, "failing")
        assert failing.error == "the tape is torn: mend it"
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert alarm["key"] == "source/app/tape"
        assert "mend it" in alarm["text"]
        tape.trouble = None
        tape.write("a")
        await until_in_state(runtime, "reading")
        async with asyncio.timeout(60):
            while not seen:
                await asyncio.sleep(0.01)
        assert not [one for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]


@pytest.mark.parametrize("makes", ["an error", "no reader"])
async def test_a_trigger_that_makes_no_reader_is_an_alarm_and_the_rest_goes_on(new_app: NewApp, makes: str):
    tape, seen = Tape(), list[str]()
    app = an_app(new_app, tape, seen, clock=None)

    class Torn(TapeTrigger):
        @property
        def shared(self) -> tuple[object, ...]:
            return ("torn",)

        def describe(self) -> str:
            return "torn"

        def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
            if makes == "an error":
                raise KeyError("spool")
            return None  # type: ignore[return-value]

    @app.agent(Torn(tape))
    async def other(run: Run) -> None: ...

    tape.write("a")
    async with working(app) as runtime:
        failing = await until_in_state(runtime, "failing", source="torn")
        told = (
            "KeyError: 'spool'"
            if makes == "an error"
            else "it returned NoneType, which is not a wakeful.sources.Reader"
        )
        assert told in failing.error
        assert "Fix the trigger" in failing.error
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert alarm["key"] == "source/app/torn"
        await until(lambda: seen == ["a"])


async def test_the_same_identity_with_other_content_is_an_alarm(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    tape.write("a")
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        await runtime.door.accept([Event("/tape", "0", "tape.line", {"line": "another"})], by="source")
        await runtime.drain()
        assert seen == ["another"]
        async with asyncio.timeout(60):
            while not (alarms := (await runtime.reader.alarms())["alarms"]):
                await asyncio.sleep(0.01)
        assert alarms[0]["key"] == "conflict/app//tape"


async def test_a_full_backlog_pauses_reading(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    app = an_app(new_app, tape, seen, clock=None, backlog=2)

    @app.agent(name="slow")
    async def slow(run: Run) -> None:
        pass

    async with working(app, reading="drained") as runtime:
        runtime.worker.claim_nothing_more()
        for number in range(3):
            await runtime.door.accept([Event("/test", str(number), "x")], agent="slow")
        tape.write("a")
        await runtime.sources.drain()
        found = await find_source(runtime.store.database, "app", "tape")
        assert found is not None
        assert found.state == "paused"
        assert found.taken == 0
        assert found.error is not None
        assert "App(backlog=" in found.error


async def test_one_that_fails_between_two_pauses(new_app: NewApp):
    """Each look says what prevents reading now."""
    tape, seen = Tape(), list[str]()
    app = an_app(new_app, tape, seen, backlog=2)

    @app.agent(name="slow")
    async def slow(run: Run) -> None: ...

    async with working(app, reading="drained") as runtime:
        tape.trouble = "the tape is torn"
        await runtime.sources.drain()
        await until_in_state(runtime, "failing")
        tape.trouble = None
        runtime.worker.claim_nothing_more()
        for number in range(3):
            await runtime.door.accept([Event("/test", str(number), "x")], agent="slow")
        tape.write("a")
        (reading,) = runtime.sources.readings.values()
        reading._looked_at_backlog = 0.0  # it looks from time to time
        await runtime.sources.drain()
        await until_in_state(runtime, "paused")
        for run in (await runtime.reader.runs(state="ready"))["runs"]:
            await runtime.store.do(CancelRun(run["id"], by=Actor("ada", "code")))
        tape.trouble = "the tape is torn again"
        await runtime.sources.drain()
        assert (await until_in_state(runtime, "failing")).error == "the tape is torn again"


async def test_what_cannot_be_read_is_kept_in_quarantine(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    tape.write("a", "?b", "c")
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == ["a", "c"]
        listing = await runtime.reader.events(state="quarantined", limit=10)
        (kept,) = listing["events"]
        assert kept["reason"] == "it begins with a question mark"
        found = await find_source(runtime.store.database, "app", "tape")
        assert found is not None
        assert (found.taken, found.quarantined) == (2, 1)
        reader = runtime.sources.reader("tape")
        assert reader is not None
        await reader.open(None)
        await runtime.drain()  # the same again, from the beginning
        assert [one["id"] for one in (await runtime.reader.events(state="quarantined", limit=10))["events"]] == [
            kept["id"]
        ]


async def test_an_event_is_known_by_its_other_names(new_app: NewApp):
    app = new_app()

    @app.agent(name="note")
    async def note(run: Run) -> None:
        pass

    async with working(app) as runtime:
        (first,) = await runtime.door.accept([Event("/hook", "1", "x", {"a": 1})], agent="note", aliases=("signed",))
        (again,) = await runtime.door.accept([Event("/hook", "2", "x", {"a": 1})], agent="note", aliases=("signed",))
        (other,) = await runtime.door.accept([Event("/hook", "3", "x", {"a": 1})], agent="note", aliases=("other",))
        (elsewhere,) = await runtime.door.accept([Event("/b", "4", "x", {})], agent="note", aliases=("signed",))
        assert (again.status, again.runs) == ("duplicate", first.runs)
        assert other.status == elsewhere.status == "accepted"
        assert other.runs != first.runs


async def alarms_of(runtime: Runtime) -> dict[str, str]:
    """The open ones, with what they say."""
    return {one["key"]: one["text"] for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"}


async def test_one_that_was_given_up_for_dead_does_not_go_on_reading(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    async with working(an_app(new_app, tape, seen), reading="drained") as first:
        await first.drain()
        await first.store.do(BuryProcess(first.membership.process, certain=True))
        await first.membership.join()
        async with working(an_app(new_app, tape, seen), reading="drained") as second:
            await second.drain()
            assert len(tape.opened_at) == 2
            await first.drain()
            assert not first.sources.readings["tape"].is_open  # though nothing came that it could not have stored
            tape.write("a")
            await first.drain()
            assert seen == []
            await second.drain()
            assert seen == ["a"]
        await first.drain()
        assert len(tape.opened_at) == 3


async def test_whoever_takes_over_knows_nothing_of_how_it_was(new_app: NewApp):
    """The alarm of the one that had it in between is over when this one reads."""
    tape, seen = Tape(), list[str]()
    async with working(an_app(new_app, tape, seen), reading="drained") as first:
        await first.drain()
        async with working(an_app(new_app, tape, seen), reading="drained") as second:
            await first.store.do(BuryProcess(first.membership.process, certain=True))
            await first.membership.join()
            await second.drain()
            tape.write("a")
            await first.drain()  # it learns that it has lost the source
            tape.trouble = "the tape is torn: mend it"
            await second.drain()
        assert "source/app/tape" in await alarms_of(first)
        tape.trouble = None
        await first.drain()
        assert seen == ["a"]
        found = await find_source(first.store.database, "app", "tape")
        assert found is not None
        assert found.state == "reading"
        assert await alarms_of(first) == {}


async def test_what_one_process_cannot_read_another_may(new_app: NewApp):
    here, there, seen = Tape(trouble="not from here: mount it"), Tape(), list[str]()
    async with working(an_app(new_app, here, seen), reading="drained") as first:
        await first.drain()
        assert await alarms_of(first) == {"source/app/tape": "not from here: mount it"}
        async with working(an_app(new_app, there, seen), reading="drained") as second:
            there.write("a")
            await second.drain()
            assert seen == ["a"]
            assert await alarms_of(first) == {}
            await first.drain()
            assert await alarms_of(first) == {}  # it is read
            assert first.sources.readings["tape"].state == "idle"
        await first.drain()
        assert "source/app/tape" in await alarms_of(first)


async def test_one_that_was_forgotten_while_it_could_not_be_read_is_read_again(new_app: NewApp):
    tape, seen = Tape(trouble="the tape is torn: mend it"), list[str]()
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        await runtime.drain()
        assert await runtime.store.do(ForgetSource("app", "tape", by=Actor("ada", "code")))
        assert await alarms_of(runtime) == {}
        tape.trouble = None
        tape.write("a")
        await runtime.drain()
        await runtime.drain()
        assert seen == ["a"]


async def test_how_much_waits_is_nothing_when_nothing_more_comes(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    tape.write("a", "b")
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        await runtime.drain()
        found = await find_source(runtime.store.database, "app", "tape")
        assert found is not None
        assert found.behind == 0


class SharedReader(TapeReader):
    """A queue, say: every process reads it."""

    single = False


@dataclass(frozen=True)
class SharedTrigger(TapeTrigger):
    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        return SharedReader(self.tape, context)


async def test_a_process_that_stops_does_not_hide_that_another_cannot_read(new_app: NewApp):
    """As with a source that one process reads: failing until it is read again."""
    well, unwell = Tape(), Tape(trouble="the tape is torn")
    apps = [new_app(), new_app()]
    for app, tape in zip(apps, (well, unwell), strict=True):

        @app.agent(SharedTrigger(tape))
        async def note(run: Run) -> None: ...

    async with working(apps[1], reading="drained") as failing:
        async with working(apps[0], reading="drained") as reading:
            await reading.sources.drain()
            assert (await until_in_state(reading, "reading")).error is None
            await failing.sources.drain()
            assert (await until_in_state(failing, "failing")).error == "the tape is torn"
        found = await find_source(failing.store.database, "app", "tape")
        assert found is not None
        assert (found.state, found.error) == ("failing", "the tape is torn")
    async with working(apps[0], reading="drained") as reading:
        await reading.sources.drain()
        assert (await until_in_state(reading, "reading")).error is None
    async with working(apps[1], worker=False) as looking:
        await until_in_state(looking, "idle")


async def test_once_goes_on_reading_when_the_backlog_is_worked_off(new_app: NewApp):
    tape, seen, gate = Tape(), list[str](), asyncio.Event()
    app = an_app(new_app, tape, seen, backlog=2, in_flight=1)

    @app.agent(name="slow")
    async def slow(run: Run) -> None:
        await gate.wait()

    async with working(app, reading="drained") as runtime:
        for number in range(4):
            await runtime.door.accept([Event("/test", str(number), "x")], agent="slow")
        tape.write("a", "b", "c", "d", "e", "f", "g")
        draining = asyncio.create_task(runtime.drain())
        await until_in_state(runtime, "paused")
        gate.set()
        await draining
        assert sorted(seen) == ["a", "b", "c", "d", "e", "f", "g"]


async def test_a_reader_that_does_not_wait_is_asked_now_and_then(new_app: NewApp):
    tape, seen = Tape(), list[str]()
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        reading = runtime.sources.readings["tape"]
        tape.write("a")
        assert await reading.run_once() == 0.0
        reading.reader.read = nothing_at_once  # type: ignore[method-assign]
        assert await reading.run_once() == SOON


async def nothing_at_once(within: float) -> None:
    return None
