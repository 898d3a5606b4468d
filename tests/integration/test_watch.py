"""The watcher: each kind of absence is noticed, under its own name, and is over by itself when what was expected comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from support import apps
from support.apps import NewApp, pass_time
from support.stores import OpenStore, count, query
from wakeful import App, ConfigError, Denied, Persistent, Run, Transient, on, step
from wakeful.channels import log
from wakeful.clock import VirtualClock, duration
from wakeful.execution.circuits import Circuit
from wakeful.model import Decision
from wakeful.operations.checking_in import check_in
from wakeful.policy.decide import DEFAULT_RULES, AdmissionFacts
from wakeful.runtime import Runtime
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.people import RaiseAlarm
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every
from wakeful.watch.facts import Facts
from wakeful.watch.watcher import Watcher

ADA = Actor("ada", "http")
START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[Runtime]:
    """The app at work, which fires what is due when the test says so, and not when another process writes something."""
    async with apps.working(app, **options) as runtime:
        await runtime.scheduler.stop()
        yield runtime


@pytest.fixture
async def outside(stores: OpenStore, store_url: str) -> Watcher:
    """A watcher that has none of the code, at the same store."""
    store = await stores(store_url)
    return Watcher(Facts(store.database), store, time_passes=False)


async def alarms(runtime: Runtime, state: str = "open") -> dict[str, str]:
    """What is open about expectations: names and kinds, and what is said of them."""
    found = (await runtime.reader.alarms(state=state))["alarms"]
    return {one["key"]: one["text"] for one in found if one["key"].startswith(("expect/", "down/"))}


async def look(watcher: Watcher, runtime: Runtime) -> list[str]:
    await watcher.run_once()
    return sorted(await alarms(runtime))


async def standing(runtime: Runtime, name: str) -> dict[str, Any]:
    (found,) = [one for one in await runtime.reader.expectations() if one["name"] == name]
    return found


class TestSchedules:
    async def test_that_nobody_fires(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        app = scheduled(new_app())
        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == []
        clock.move("15m")  # nobody is there
        async with working(new_app("other")) as runtime:
            assert await look(outside, runtime) == []
            clock.move("5m")
            assert await look(outside, runtime) == ["expect/app/note/not-fired"]
            (text,) = (await alarms(runtime)).values()
            assert text == (
                'schedule note (every("10m", tz="UTC")): not fired: its occurrence 2026-01-01T00:20:00Z is due, '
                "but no living process has its agent"
            )
        async with working(scheduled(new_app())) as runtime:
            await runtime.drain()
            assert await look(outside, runtime) == []
            assert "expect/app/note/not-fired" in await alarms(runtime, "resolved")

    async def test_that_never_fired_once(self, app: App, outside: Watcher, clock: VirtualClock):
        scheduled(app)
        async with working(app) as runtime:
            clock.move("9m30s")
            assert await look(outside, runtime) == []
            clock.move("10m")
            assert await look(outside, runtime) == ["expect/app/note/not-fired"]

    async def test_that_policy_skips(self, new_app: NewApp, outside: Watcher):
        quiet = True

        def night(facts: Any) -> Decision | None:
            return Decision("deny", "night", "it is night") if quiet and isinstance(facts, AdmissionFacts) else None

        app = scheduled(new_app(rules=(night, *DEFAULT_RULES)))
        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == ["expect/app/note/skipped"]
            assert "was denied: night: it is night" in (await alarms(runtime))["expect/app/note/skipped"]
            quiet = False
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == []

    async def test_whose_agent_is_paused(self, app: App, outside: Watcher, clock: VirtualClock):
        scheduled(app)
        async with working(app) as runtime:
            await runtime.store.do(ChangePause("app", "note", paused=True, by=Actor("ada", "code")))
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == []
            await pass_time(runtime, "9m59s")
            assert await look(outside, runtime) == ["expect/app/note/parked"]
            assert "because ada paused it: `wakeful resume note`" in (await alarms(runtime))["expect/app/note/parked"]
            await runtime.store.do(ChangePause("app", "note", paused=False, by=Actor("ada", "code")))
            await runtime.drain()
            assert await look(outside, runtime) == []

    async def test_whose_dependency_is_down(self, new_app: NewApp, outside: Watcher):
        down = True

        @step(dependency="stripe", attempts=1)
        async def charge() -> None:
            if down:
                raise Transient("no answer")

        app = new_app(circuits={"stripe": Circuit(failures=1, rest="1h")})

        @app.agent(every("10m", ends_within="5m"), name="note")
        async def note(run: Run) -> None:
            await run.step(charge)

        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            assert (await runtime.reader.runs())["runs"][0]["state"] == "parked"
            assert await look(outside, runtime) == []
            await pass_time(runtime, "5m")
            assert await look(outside, runtime) == ["expect/app/note/parked"]
            assert "it waits for stripe" in (await alarms(runtime))["expect/app/note/parked"]
            down = False
            await pass_time(runtime, "1h")
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == []

    async def test_that_fails(self, app: App, outside: Watcher):
        broken = True

        @app.agent(every("10m"), name="note", owner="ops")
        async def note(run: Run) -> None:
            if broken:
                raise Persistent("no")

        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == []  # its dead letter has an alarm, and that is enough
            (expected,) = await runtime.reader.expectations()
            assert (expected["state"], expected["absence"]) == ("absent", "failed")
            (alarm,) = (await runtime.reader.alarms())["alarms"]
            assert (alarm["key"].rpartition("/")[0], alarm["owner"]) == ("dead/app/note", "ops")
            broken = False
            await pass_time(runtime, "10m")
            (expected,) = await runtime.reader.expectations()
            assert expected["state"] == "met"

    async def test_that_its_own_code_denies(self, app: App, outside: Watcher):
        @app.agent(every("10m"), name="note")
        async def note(run: Run) -> None:
            raise Denied("not today")

        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            assert await look(outside, runtime) == ["expect/app/note/skipped"]

    async def test_that_takes_too_long(self, app: App, outside: Watcher):
        @app.agent(every("10m", grace="1h", ends_within="1h"), name="note")
        async def note(run: Run) -> None:
            await run.sleep("2h")

        async with working(app) as runtime:
            await pass_time(runtime, "9m30s")
            await pass_time(runtime, "59m")
            assert await look(outside, runtime) == []
            await pass_time(runtime, "1m")
            assert await look(outside, runtime) == ["expect/app/note/too-long"]
            assert (await standing(runtime, "note"))["absence"] == "too-long"
            await pass_time(runtime, "1h")
            assert await look(outside, runtime) == ["expect/app/note/too-long"]  # the next one goes; it is not done yet
            await runtime.schedules.pause("note", by=Actor("ada", "cli"))
            await pass_time(runtime, "2h")
            await runtime.schedules.resume("note", by=Actor("ada", "cli"))
            assert await look(outside, runtime) == []
            assert (await standing(runtime, "note"))["state"] == "met"

    async def test_that_was_missed_is_told_once(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(scheduled(new_app(), cron("0 * * * *", tz="UTC", grace="5m"))):
            pass
        clock.move("90m")
        async with working(scheduled(new_app(), cron("0 * * * *", tz="UTC", grace="5m"))) as runtime:
            await runtime.drain()
            keys = [one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]]
            assert keys == ["missed/app/note"]
            assert await look(outside, runtime) == []
            assert (await standing(runtime, "note"))["absence"] == "not-fired"

    @pytest.mark.parametrize("verb", ["pause", "remove"])
    async def test_that_was_missed_is_over_when_somebody_decides_so(
        self, new_app: NewApp, clock: VirtualClock, verb: str
    ):
        async with working(scheduled(new_app(), cron("0 * * * *", tz="UTC", grace="5m"))):
            pass
        clock.move("90m")
        async with working(scheduled(new_app(), cron("0 * * * *", tz="UTC", grace="5m"))) as runtime:
            await runtime.drain()
            assert [one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]] == ["missed/app/note"]
            await getattr(runtime.schedules, verb)("note", by=Actor("ada", "cli"))
            assert (await runtime.reader.alarms(state="open"))["alarms"] == []

    async def test_that_nobody_here_understands_keeps_nobody_from_the_others(
        self, app: App, outside: Watcher, store_url: str
    ):
        """Another version wrote it, or its zone is not on this machine."""
        scheduled(app)
        app.agent(every("10m"), name="strange", owner="ada")(lambda run: None)
        app.expect("backup", at_least_every="1h")
        app.expect("odd", by="03:00")
        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            odd = """update wakeful_expectation set definition = '{"by": "03:00", "zone": "Mars/Olympus"}' where name = 'odd'"""
            strange = """update wakeful_schedule set definition = '{"rule": {"kind": "tide"}}', revision = 9 where name = 'strange'"""
            for change in (odd, strange):
                await query(store_url, change)
            await pass_time(runtime, "30m")
            await runtime.store.do(RaiseAlarm(Alarm("app", "expect/app/strange/failed", "before")))
            clock = runtime.clock
            assert isinstance(clock, VirtualClock)
            clock.move("1h")
            assert await look(outside, runtime) == [
                "expect/app/backup/not-fired",
                "expect/app/note/not-fired",
                "expect/app/strange/failed",
            ]
            for name in ("odd", "strange"):
                found = await standing(runtime, name)
                assert (found["state"], found["reason"].split(":")[0]) == ("pending", "it cannot be judged here")
            (said,) = [one for one in (await runtime.reader.alarms())["alarms"] if one["key"] == "schedule/app/strange"]
            assert (said["agent"], said["owner"], said["count"]) == ("strange", "ada", 1)

    async def test_that_somebody_paused_is_not_missed(self, app: App, outside: Watcher):
        scheduled(app)
        async with working(app) as runtime:
            await runtime.schedules.pause("note", by=Actor("ada", "cli"))
            await pass_time(runtime, "5h")
            assert await look(outside, runtime) == []
            assert (await standing(runtime, "note"))["state"] == "excused"


def scheduled(app: App, *triggers: Any) -> App:
    @app.agent(*(triggers or [every("10m")]), name="note")
    async def note(run: Run) -> None: ...

    return app


class TestCheckIns:
    async def test_that_do_not_come_by_their_time(self, app: App, outside: Watcher, clock: VirtualClock):
        app.expect("nightly backup", by="03:00", tz="UTC", owner="ops")
        async with working(app) as runtime:
            clock.move("2h59m")
            assert await look(outside, runtime) == []
            clock.move("1m")
            assert await look(outside, runtime) == ["expect/app/nightly backup/not-fired"]
            assert "and there was never one" in (await alarms(runtime))["expect/app/nightly backup/not-fired"]
            await check_in(runtime.door, "app", "nightly backup", by=ADA)
            assert await look(outside, runtime) == []
            assert (await standing(runtime, "nightly backup"))["state"] == "met"
            clock.move("1d")  # what came late was that of yesterday
            assert await look(outside, runtime) == ["expect/app/nightly backup/not-fired"]
            clock.move("23h")
            await check_in(runtime.door, "app", "nightly backup", by=ADA)
            clock.move("30m")
            await check_in(runtime.door, "app", "nightly backup", by=ADA)
            clock.move("1h")
            assert await look(outside, runtime) == []

    async def test_of_another_name_are_not_it(self, app: App, outside: Watcher, clock: VirtualClock):
        app.expect("backup", by="03:00", tz="UTC")
        app.expect("other", at_least_every="1d")
        async with working(app) as runtime:
            await check_in(runtime.door, "app", "other", by=ADA)
            clock.move("4h")
            assert await look(outside, runtime) == ["expect/app/backup/not-fired"]

    async def test_only_on_some_days(self, app: App, outside: Watcher, clock: VirtualClock):
        app.expect("report", by="18:00", tz="UTC", days="mon-fri")  # the clock begins on a Thursday
        async with working(app) as runtime:
            clock.move("17h")
            await check_in(runtime.door, "app", "report", by=ADA)
            clock.move("1d")
            await check_in(runtime.door, "app", "report", by=ADA)
            clock.move("2d")
            assert await look(outside, runtime) == []
            clock.move("1d2h")
            assert await look(outside, runtime) == ["expect/app/report/not-fired"]

    async def test_an_event_can_be_it(self, app: App, outside: Watcher, clock: VirtualClock):
        app.expect("books", by="03:00", tz="UTC", event="books.closed")
        async with working(app) as runtime:
            await app.emit("books.closed")
            clock.move("4h")
            assert await look(outside, runtime) == []
            clock.move("1d")
            assert await look(outside, runtime) == ["expect/app/books/not-fired"]


class TestSources:
    async def test_that_fall_silent(self, app: App, outside: Watcher, clock: VirtualClock):
        app.expect(source="stripe", at_least_every="1d")
        async with working(app) as runtime:
            clock.move("23h")
            assert await look(outside, runtime) == []
            clock.move("1h")
            assert await look(outside, runtime) == ["expect/app/source stripe/not-fired"]
            await app.emit("charge", source="other")
            assert await look(outside, runtime) == ["expect/app/source stripe/not-fired"]
            await app.emit("charge", source="stripe")
            assert await look(outside, runtime) == []
            assert (await standing(runtime, "source stripe"))["due_at"] == "2026-01-03T00:00:30Z"


class TestOutput:
    @pytest.fixture
    def digest(self, app: App) -> dict[str, Any]:
        returned: dict[str, Any] = {"output": None, "error": None, "sleep": None}

        @app.agent(on("go"), attempts=1)
        async def digest(run: Run) -> Any:
            if returned["sleep"]:
                await run.sleep(returned["sleep"])
            if returned["error"]:
                raise returned["error"]
            return returned["output"]

        app.expect(agent="digest", output_within="2h")
        return returned

    async def go(self, runtime: Runtime) -> None:
        await runtime.app.emit("go")
        await runtime.drain()

    async def test_that_does_not_come_of_a_run_that_is_done(self, app: App, outside: Watcher, digest: dict[str, Any]):
        async with working(app) as runtime:
            await self.go(runtime)
            assert await look(outside, runtime) == ["expect/app/agent digest/no-output"]
            digest["output"] = "news"
            await self.go(runtime)
            assert await look(outside, runtime) == []
            assert (await standing(runtime, "agent digest"))["met_at"] is not None

    async def test_of_a_run_that_failed_or_takes_too_long(self, app: App, outside: Watcher, digest: dict[str, Any]):
        async with working(app) as runtime:
            digest["error"] = Persistent("no")
            await self.go(runtime)
            assert await look(outside, runtime) == ["expect/app/agent digest/failed"]
            digest |= {"error": None, "output": "news", "sleep": "3h"}
            await self.go(runtime)
            assert await look(outside, runtime) == [
                "expect/app/agent digest/failed"
            ]  # nobody knows of a better one yet
            await pass_time(runtime, "2h")
            assert await look(outside, runtime) == ["expect/app/agent digest/too-long"]
            await pass_time(runtime, "1h")
            assert await look(outside, runtime) == []

    async def test_that_was_denied(self, new_app: NewApp, outside: Watcher):
        def never(facts: Any) -> Decision | None:
            return Decision("deny", "never", "no") if isinstance(facts, AdmissionFacts) else None

        app = new_app(rules=(never,))
        app.expect(agent="digest", output_within="2h")

        @app.agent(on("go"))
        async def digest(run: Run) -> str:
            return "news"

        async with working(app) as runtime:
            await self.go(runtime)
            assert await look(outside, runtime) == ["expect/app/agent digest/skipped"]

    async def test_often_enough(self, app: App, outside: Watcher, clock: VirtualClock):
        @app.agent(on("go"))
        async def digest(run: Run) -> str:
            return "news"

        app.expect(agent="digest", output_within="2h", at_least_every="1d")
        async with working(app) as runtime:
            clock.move("1d")
            assert await look(outside, runtime) == ["expect/app/agent digest/not-fired"]
            await self.go(runtime)
            assert await look(outside, runtime) == []
            clock.move("1d")
            assert await look(outside, runtime) == ["expect/app/agent digest/not-fired"]

    async def test_of_an_agent_that_always_has_something_new_to_do(
        self, app: App, outside: Watcher, clock: VirtualClock
    ):
        app.agent(on("news"), name="digest")(lambda run: "text")
        app.expect(agent="digest", output_within="2h")
        async with working(app) as runtime:
            await runtime.store.do(ChangePause("app", "digest", paused=True, by=Actor("ada", "code")))
            for _ in range(3):
                for _ in range(60):
                    await app.emit("news")
                clock.move("61m")
            assert await look(outside, runtime) == ["expect/app/agent digest/parked"]


class TestWhatIsRemoved:
    async def test_was_there(self, app: App, outside: Watcher, store_url: str, clock: VirtualClock):
        app.expect("weekly", by="03:00", days="sun", tz="UTC")
        app.expect(source="stripe", at_least_every="60d")
        async with working(app) as runtime:
            clock.move("3d")  # it is Sunday
            await check_in(runtime.door, "app", "weekly", by=ADA)
            await app.emit("charge", source="stripe")
            assert await look(outside, runtime) == []
            clock.move("3d")
            for table in ("wakeful_admission", "wakeful_event"):
                await query(store_url, f"delete from {table}")
            assert await look(outside, runtime) == []
            clock.move("5d")
            assert await look(outside, runtime) == ["expect/app/weekly/not-fired"]
            clock.move("50d")
            assert await look(outside, runtime) == ["expect/app/weekly/not-fired"]
            clock.move("2d")
            assert len(await look(outside, runtime)) == 2


class TestTheWatcherItself:
    async def test_says_a_thing_once(self, app: App, outside: Watcher, stores: OpenStore, store_url: str):
        scheduled(app)
        another = Watcher(Facts((await stores(store_url)).database), await stores(store_url), time_passes=False)
        async with working(app) as runtime:
            moved(runtime, "20m")
            for watcher in (outside, another, outside, another):
                await watcher.run_once()
            (alarm,) = (await runtime.reader.alarms(state="open"))["alarms"]
            assert alarm["count"] == 1

    async def test_writes_nothing_while_all_is_well(self, app: App, store: DatabaseStore, clock: VirtualClock):
        scheduled(app)
        requests: list[Any] = []

        class Noting:
            async def do(self, request: Any) -> Any:
                requests.append(request)

        async with working(app) as runtime:
            await pass_time(runtime, "10m")
            await Watcher(Facts(store.database), Noting(), time_passes=False).run_once()
        assert requests == []

    async def test_rests_until_something_could_be_overdue(self, app: App, store: DatabaseStore):
        app.expect(source="stripe", at_least_every="45s")
        async with working(app):
            watcher = Watcher(Facts(store.database), store)
            assert await watcher.run_once() == pytest.approx(45)
            slow = Watcher(Facts(store.database), store, every=10_000_000)
            assert await slow.run_once() == pytest.approx(10)

    async def test_what_is_expected_no_more_is_over(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        app = new_app()
        app.expect(source="stripe", at_least_every="1h")
        async with working(app) as runtime:
            clock.move("2h")
            assert await look(outside, runtime) == ["expect/app/source stripe/not-fired"]
        async with working(new_app()) as runtime:
            assert await look(outside, runtime) == []
            assert await runtime.reader.expectations() == []

    async def test_what_is_expected_anew_counts_from_then(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        async with working(expecting(new_app(), "1h")):
            clock.move("2h")
        async with working(expecting(new_app(), "90m")) as runtime:
            assert await look(outside, runtime) == []
            clock.move("90m")
            assert await look(outside, runtime) == ["expect/app/source stripe/not-fired"]
        async with working(expecting(new_app(), "90m")) as runtime:  # started again, as it was
            assert await look(outside, runtime) == ["expect/app/source stripe/not-fired"]

    async def test_notices_that_an_app_is_down(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        runtime = Runtime(scheduled(new_app()))
        await runtime.open()
        await runtime.start()
        await runtime.die()
        async with working(new_app("other")) as other:
            assert await look(outside, other) == []
            clock.move("21s")
            assert await look(outside, other) == ["down/app"]
            async with working(scheduled(new_app())):
                assert await look(outside, other) == []
            assert await look(outside, other) == []  # it left in good order

    async def test_notices_that_the_last_one_died_whoever_stopped_before(
        self, new_app: NewApp, outside: Watcher, clock: VirtualClock
    ):
        runtime = Runtime(scheduled(new_app()), lease=duration("10m"))
        await runtime.open()
        await runtime.start()
        clock.move("1s")
        async with scheduled(new_app()).running(lease=duration("1m")):
            pass  # it began last, and said goodbye
        await runtime.die()
        clock.move("11m")
        async with working(new_app("other")) as runtime:
            assert "down/app" in await look(outside, runtime)

    async def test_knows_one_that_lives_behind_any_number_that_died(
        self, app: App, outside: Watcher, store_url: str, clock: VirtualClock
    ):
        scheduled(app)
        async with working(app):
            now = clock.now()
            for number in range(60):
                columns = "id, host, pid, state, started_at, lease_until, app, agents"
                values = f"'crashed-{number}', 'host', 1, 'dead', {now + number + 1}, {now + number + 2}, 'app', '[\"note\"]'"
                await query(store_url, f"insert into wakeful_process ({columns}) values ({values})")
            crew = await outside._facts.crew("app")
            assert (crew.workers["note"], crew.alive, crew.died) == (1, 1, False)

    async def test_does_not_count_one_that_only_watches(self, new_app: NewApp, outside: Watcher, clock: VirtualClock):
        runtime = Runtime(scheduled(new_app()))
        await runtime.open()
        await runtime.start()
        await runtime.die()
        clock.move("21s")
        async with working(scheduled(new_app()), watching=True) as watching:
            await watching.drain()
            assert await look(watching.watcher, watching) == ["down/app"]
            clock.move("20m")
            await watching.drain()
            assert await look(outside, watching) == ["down/app", "expect/app/note/not-fired"]
            assert (await watching.reader.runs())["runs"] == []

    async def test_the_owner_is_told_by_whoever_watches(self, new_app: NewApp, clock: VirtualClock):
        def declared() -> App:
            app = new_app(channels={"platform": log()})
            app.expect("backup", at_least_every="1h", owner="platform")
            return app

        async with working(declared()):
            clock.move("1h")
        async with working(declared(), watching=True) as watching:
            await watching.watcher.look()
            await watching.drain()
            (told,) = (await watching.reader.deliveries())["deliveries"]
            assert (told["channel"], told["state"]) == ("platform", "delivered")
            assert "backup" in str(told["message"])

    async def test_an_app_looks_after_itself(self, app: App, clock: VirtualClock):
        app.expect(source="stripe", at_least_every="1h")
        async with working(app) as runtime:
            clock.move("1h")
            await runtime.watcher.run_once()  # the first is that it waits a while
            await runtime.watcher.run_once()
            assert sorted(await alarms(runtime)) == ["expect/app/source stripe/not-fired"]


def moved(runtime: Runtime, by: str) -> None:
    assert isinstance(runtime.clock, VirtualClock)
    runtime.clock.move(by)


def expecting(app: App, often: str) -> App:
    app.expect(source="stripe", at_least_every=often)
    return app


class TestDeclaring:
    @pytest.mark.parametrize(
        ("name", "options", "words"),
        [
            (None, {"at_least_every": "1d"}, "nothing to expect"),
            ("backup", {}, "no deadline"),
            ("backup", {"by": "25:00"}, "by is a time of the day"),
            ("backup", {"by": "03:00", "tz": "Europe/Lodnon"}, "Europe/London"),
            ("backup", {"by": "03:00", "days": "monday to friday"}, 'days are like "mon-fri"'),
            ("backup", {"by": "03:00", "at_least_every": "1d"}, "cannot be combined with"),
            ("backup", {"at_least_every": "0s"}, "longer than zero"),
            ("backup", {"at_least_every": "often"}, "is not a duration"),
            ("backup", {"output_within": "2h"}, "give agent= too"),
            ("backup", {"at_least_every": "1d", "days": "mon"}, "go with by="),
            (None, {"source": "stripe", "event": "charge", "at_least_every": "1d"}, "together"),
            ("backup", {"by": "03:00", "zone": "UTC"}, 'unknown option "zone"'),
            ("", {"by": "03:00"}, "a name is a text"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, name: str | None, options: dict[str, Any], words: str):
        with pytest.raises(ConfigError, match=words):
            App("app").expect(name, **options)

    def test_twice_the_same_is_refused(self):
        app = App("app")
        app.expect("backup", by="03:00")
        with pytest.raises(ConfigError, match="is already expected"):
            app.expect("backup", by="04:00")

    async def test_of_an_agent_that_there_is_not(self, app: App):
        @app.agent(on("go"))
        async def digest(run: Run) -> None: ...

        app.expect(agent="digets", output_within="2h")
        with pytest.raises(ConfigError, match=r'there is no agent "digets"\. Did you mean "?digest'):
            async with working(app):
                pass

    async def test_of_the_name_of_a_schedule(self, app: App):
        scheduled(app).expect("note", by="03:00")
        with pytest.raises(ConfigError, match="a schedule has that name"):
            Runtime(app)

    async def test_starting_again_stores_nothing_new(self, new_app: NewApp, store_url: str):
        for _ in range(2):
            async with working(expecting(new_app(), "1h")):
                assert await count(store_url, "wakeful_expectation") == 1
