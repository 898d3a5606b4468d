"""The one door: what comes in by `app.emit` is stored before it is answered, and every event ends in a visible state."""

from __future__ import annotations

import asyncio
import enum
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from support.apps import NewApp, ended, go, the_run, working
from support.stores import query
from wakeful import App, ConfigError, Run, on
from wakeful.clock import VirtualClock, to_datetime
from wakeful.errors import InvalidEvent
from wakeful.model import Decision
from wakeful.policy.decide import DEFAULT_RULES, AdmissionFacts
from wakeful.runtime import Runtime


async def why(runtime: Runtime, identifier: str) -> dict[str, Any]:
    event = await runtime.reader.event(identifier)
    assert event is not None, f"event {identifier} is gone"
    return event


def quiet(app: App) -> App:
    @app.agent(on("go"))
    async def agent(run: Run) -> Any:
        return run.event.data

    return app


class TestEmit:
    async def test_it_answers_once_the_event_is_on_disk(self, app: App, store_url: str):
        quiet(app)
        async with working(app, worker=False):
            receipt = await app.emit("go", {"a": 1}, id="1", source="/here", subject="s")
            assert receipt.to_json() == {"source": "/here", "id": "1", "status": "accepted", "runs": receipt.runs}
            # Seen by somebody else, on another connection:
            assert await query(store_url, "select state from wakeful_run") == [("ready",)]

    async def test_without_a_running_app_it_is_stored_for_later(self, new_app: NewApp):
        receipt = await quiet(new_app()).emit("go", 7)
        assert receipt.status == "accepted"
        async with working(quiet(new_app())) as runtime:
            assert (await ended(runtime, receipt))["output"] == 7

    async def test_without_an_id_each_is_its_own_event(self, app: App):
        quiet(app)
        async with working(app) as runtime:
            first, second = await app.emit("go"), await app.emit("go")
            await runtime.drain()
            assert first.id != second.id
            assert await runtime.reader.counts() == {"done": 2}

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"id": ""}, "id"),
            ({"id": "x" * 1_025}, "id"),
            ({"id": "a\0b"}, "id"),
            ({"subject": "\ud800"}, "subject"),
            ({"data": object()}, "data"),
            ({"data": 2**64}, "data"),
            ({"data": {"a": float("inf")}}, "data"),
            ({"data": "a\0b"}, "data"),
            ({"expirytime": "tomorrow"}, "expirytime"),
        ],
    )
    async def test_what_is_not_an_event_is_refused_and_nothing_is_stored(self, app: App, fields, field):
        quiet(app)
        async with working(app) as runtime:
            with pytest.raises(InvalidEvent, match=field):
                await app.emit("go", **fields)
            assert (await runtime.reader.events())["events"] == []

    async def test_an_agent_can_be_started_by_name(self, app: App):
        quiet(app)
        async with working(app) as runtime:
            receipt = await app.start("agent", {"by": "hand"})
            assert (await ended(runtime, receipt))["output"] == {"by": "hand"}
            with pytest.raises(ConfigError, match='Did you mean "agent"'):
                await app.start("agnt")

    async def test_the_same_event_after_a_restart_is_a_duplicate(self, new_app: NewApp):
        for expected in ("accepted", "duplicate", "duplicate"):
            app = quiet(new_app())
            async with working(app) as runtime:
                receipt = await app.emit("go", id="1", source="/s")
                await runtime.drain()
                assert receipt.status == expected
                assert await runtime.reader.counts() == {"done": 1}


class TestRouting:
    async def test_an_event_goes_to_every_agent_that_takes_its_type(self, app: App):
        seen = []

        @app.agent(on("ticket.created"))
        async def exact(run: Run) -> None:
            seen.append("exact")

        @app.agent(on("ticket.*"))
        async def pattern(run: Run) -> None:
            seen.append("pattern")

        @app.agent(on("order.*"), on("*.created"))
        async def several(run: Run) -> None:
            seen.append("several")

        @app.agent(on("order.*"))
        async def other(run: Run) -> None:
            seen.append("other")

        async with working(app) as runtime:
            receipt = await app.emit("ticket.created")
            await runtime.drain()
        assert sorted(seen) == ["exact", "pattern", "several"]
        assert len(receipt.runs) == 3

    async def test_an_event_that_nobody_takes_is_kept_and_says_so(self, app: App):
        quiet(app)
        async with working(app) as runtime:
            receipt = await app.emit("unheard.of", {"a": 1}, id="1")
            assert (receipt.status, receipt.runs) == ("unmatched", [])
            event = await why(runtime, "1")
            assert (event["state"], event["reason"]) == ("unmatched", "no agent takes type unheard.of")
            assert event["envelope"]["data"] == {"a": 1}
            assert [one["id"] for one in (await runtime.reader.events(state="unmatched"))["events"]] == ["1"]

    async def test_a_condition_that_is_not_met_is_visible_with_its_reason(self, app: App):
        @app.agent(on("ticket", where="data.severity >= 3"))
        async def urgent(run: Run) -> None: ...

        @app.agent(on("ticket"))
        async def every(run: Run) -> None: ...

        async with working(app) as runtime:
            receipt = await app.emit("ticket", {"severity": 1}, id="1")
            assert (receipt.status, len(receipt.runs)) == ("accepted", 1)
            event = await why(runtime, "1")
            assert {one["agent"]: one["state"] for one in event["admissions"]} == {
                "urgent": "skipped",
                "every": "started",
            }
            (skipped,) = [one for one in event["admissions"] if one["state"] == "skipped"]
            assert "data.severity >= 3" in skipped["reason"]
            assert len((await app.emit("ticket", {"severity": 3}, id="2")).runs) == 2

    async def test_when_no_condition_is_met_the_event_is_unmatched_and_says_why(self, app: App):
        @app.agent(on("ticket", where="data.severity >= 3"))
        async def urgent(run: Run) -> None: ...

        async with working(app) as runtime:
            assert (await app.emit("ticket", {"severity": 1}, id="1")).status == "unmatched"
            event = await why(runtime, "1")
            assert [one["state"] for one in event["admissions"]] == ["skipped"]
            assert "condition that was not met" in event["reason"]

    async def test_a_field_that_is_missing_is_no_match(self, app: App):
        @app.agent(on("ticket", where="data.severity >= 3"))
        async def urgent(run: Run) -> None: ...

        async with working(app) as runtime:
            assert (await app.emit("ticket", {}, id="1")).status == "unmatched"
            (admission,) = (await why(runtime, "1"))["admissions"]
            assert "severity" in admission["reason"]


class TestExpiry:
    async def test_an_event_that_expired_before_it_came_runs_nothing(self, app: App, clock: VirtualClock):
        quiet(app)
        async with working(app) as runtime:
            past = to_datetime(clock.now()) - timedelta(seconds=1)
            receipt = await app.emit("go", id="1", expirytime=past)
            await runtime.drain()
            assert (receipt.status, receipt.runs) == ("expired", [])
            event = await why(runtime, "1")
            assert event["state"] == "expired"
            assert [one["state"] for one in event["admissions"]] == ["expired"]
            assert await runtime.reader.counts() == {}

    async def test_one_that_expires_before_its_first_start_does_not_start_and_says_so(
        self, new_app: NewApp, clock: VirtualClock
    ):
        app = quiet(new_app())
        async with working(app, worker=False):
            receipt = await app.emit("go", id="1", expirytime=to_datetime(clock.now()) + timedelta(minutes=1))
            assert receipt.status == "accepted"
        clock.move("1m")
        async with working(quiet(new_app())) as runtime:
            run = await ended(runtime, receipt)
            event = await why(runtime, "1")
            alarms = (await runtime.reader.alarms())["alarms"]
        assert (run["state"], run["output"], run["outcome"]["execution"]) == ("cancelled", None, "cancelled")
        assert "expired at 2026-01-01T00:01:00Z" in run["reason"]
        assert [one["state"] for one in event["admissions"]] == ["expired"]
        assert alarms == []

    async def test_one_that_has_started_is_finished_however_late(self, app: App, clock: VirtualClock):
        from wakeful import Transient

        @app.agent(on("go"))
        async def agent(run: Run) -> str:
            if run.attempt == 1:
                raise Transient("later", retry_after="1h")
            return "done"

        async with working(app) as runtime:
            receipt = await app.emit("go", expirytime=to_datetime(clock.now()) + timedelta(minutes=1))
            await runtime.drain()
            clock.move("1h")
            assert (await ended(runtime, receipt))["state"] == "done"


class TestPolicy:
    async def test_a_denied_event_starts_nothing_and_the_decision_is_stored(self, new_app: NewApp):
        def only_from_friends(facts: AdmissionFacts) -> Decision | None:
            if facts.event.source == "/friend":
                return None
            return Decision("deny", rule="only_from_friends", reason=f"{facts.event.source} is no friend", version="3")

        app = quiet(new_app(rules=(only_from_friends, *DEFAULT_RULES)))
        async with working(app) as runtime:
            assert (await go(runtime, 1, source="/friend"))["state"] == "done"
            receipt = await app.emit("go", 2, id="1", source="/stranger")
            assert (receipt.status, receipt.runs) == ("accepted", [])
            event = await why(runtime, "1")
        assert [(one["state"], one["reason"]) for one in event["admissions"]] == [
            ("denied", "only_from_friends: /stranger is no friend")
        ]
        (decision,) = event["decisions"]
        assert (decision["answer"], decision["rule"], decision["version"]) == ("deny", "only_from_friends", "3")

    @pytest.mark.parametrize("broken", ["raises", "nonsense"])
    async def test_a_rule_that_is_broken_denies(self, new_app: NewApp, broken):
        def rule(facts: AdmissionFacts) -> Any:
            if broken == "raises":
                raise KeyError("oops")
            return "yes, of course"

        app = quiet(new_app(rules=(rule, *DEFAULT_RULES)))
        async with working(app) as runtime:
            receipt = await app.emit("go", id="1")
            assert receipt.runs == []
            event = await why(runtime, "1")
        assert [one["state"] for one in event["admissions"]] == ["denied"]
        assert "rule failed" in event["decisions"][0]["reason"]

    async def test_the_rules_are_told_the_facts(self, new_app: NewApp, clock: VirtualClock):
        seen = []

        def look(facts: AdmissionFacts) -> None:
            seen.append((facts.app, facts.agent, facts.owner, facts.event.id, facts.now))

        app = new_app(rules=(look, *DEFAULT_RULES))

        @app.agent(on("go"), owner="platform")
        async def agent(run: Run) -> None: ...

        async with working(app):
            await app.emit("go", id="1")
        assert seen == [("app", "agent", "platform", "1", clock.now())]


class TestConflict:
    async def test_the_first_one_stands_and_an_alarm_tells_of_the_other(self, app: App):
        quiet(app)
        async with working(app) as runtime:
            first = await app.emit("go", {"amount": 1}, id="1", source="/s")
            second = await app.emit("go", {"amount": 2}, id="1", source="/s")
            assert (second.status, second.conflict, second.runs) == ("duplicate", True, first.runs)
            assert (await ended(runtime, first))["output"] == {"amount": 1}
            async with asyncio.timeout(60):
                while not (alarms := (await runtime.reader.alarms())["alarms"]):
                    pass
        assert [alarm["key"] for alarm in alarms] == ["conflict/app//s"]


@pytest.mark.postgres
class TestWithin:
    """app.emit(within=…): inside a transaction of the caller's own."""

    @pytest.fixture
    async def connection(self, postgres_url: str):
        connection = await asyncpg.connect(postgres_url)
        await connection.execute("create table orders (number int)")
        yield connection
        await connection.close()

    async def test_it_is_stored_by_the_callers_commit(self, postgres_url: str, connection: asyncpg.Connection):
        app = quiet(App("app", store=postgres_url))
        async with working(app) as runtime:
            async with connection.transaction():
                await connection.execute("insert into orders values (1)")
                receipt = await app.emit("go", 7, id="1", within=connection)
                assert receipt.status == "accepted"
                assert await runtime.reader.event("1") is None  # not yet: it is the caller's commit that counts
            while (await the_run(runtime, receipt))["state"] != "done":
                pass  # woken by the notification that the commit sent
        assert await connection.fetchval("select count(*) from orders") == 1

    async def test_it_is_gone_with_the_callers_rollback(self, postgres_url: str, connection: asyncpg.Connection):
        app = quiet(App("app", store=postgres_url))
        async with working(app) as runtime:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("insert into orders values (1)")
            await app.emit("go", 7, id="1", within=connection)
            await transaction.rollback()
            await runtime.drain()
            assert await runtime.reader.event("1") is None
            assert await runtime.reader.counts() == {}
            assert (await app.emit("go", 7, id="1")).status == "accepted"

    async def test_it_works_without_a_running_app(self, postgres_url: str, connection: asyncpg.Connection):
        app = quiet(App("app", store=postgres_url))
        async with connection.transaction():
            await app.emit("go", id="1", within=connection)
        assert await query(postgres_url, "select state from wakeful_run") == [("ready",)]

    async def test_a_connection_of_a_pool_is_welcome(self, postgres_url: str, connection: asyncpg.Connection):
        app = quiet(App("app", store=postgres_url))
        async with (
            asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool,
            pool.acquire() as pooled,
            pooled.transaction(),
        ):
            assert (await app.emit("go", id="1", within=pooled)).status == "accepted"

    async def test_what_is_not_a_connection_in_a_transaction_is_refused(
        self, postgres_url: str, connection: asyncpg.Connection
    ):
        app = quiet(App("app", store=postgres_url))
        async with working(app):
            with pytest.raises(ConfigError, match="in a transaction"):
                await app.emit("go", within=connection)
            with pytest.raises(ConfigError, match="asyncpg connection, not str"):
                await app.emit("go", within="connection")


async def test_within_needs_postgresql(sqlite_url: str):
    app = quiet(App("app", store=sqlite_url))
    with pytest.raises(ConfigError, match="PostgreSQL"):
        await app.emit("go", within=object())


class TestRuns:
    async def test_runs_are_found_by_agent_state_and_event(self, app: App):
        from wakeful import Persistent

        @app.agent(on("go"))
        async def good(run: Run) -> None: ...

        @app.agent(on("go"))
        async def bad(run: Run) -> None:
            raise Persistent("no")

        async with working(app) as runtime:
            for number in range(3):
                await app.emit("go", id=str(number))
            await runtime.drain()
            read = runtime.reader.runs
            assert len((await read())["runs"]) == 6
            assert {run["state"] for run in (await read(agent="good"))["runs"]} == {"done"}
            assert {run["agent"] for run in (await read(state="dead"))["runs"]} == {"bad"}
            assert {run["event"]["id"] for run in (await read(event="1"))["runs"]} == {"1"}
            first = await read(limit=4)
            second = await read(limit=4, after=first["next"])
            assert (len(first["runs"]), len(second["runs"]), second["next"]) == (4, 2, None)
            assert len({run["id"] for run in first["runs"] + second["runs"]}) == 6
            (one, *_) = first["runs"]
            found = await runtime.reader.run(one["id"][:10])
            assert found is not None
            assert found["id"] == one["id"]


async def test_members_of_an_enum_are_welcome_as_names(new_app: NewApp):
    class Names(str, enum.Enum):  # noqa: UP042 the one whose str() is not its value
        APP = "app"
        AGENT = "review"
        TYPE = "go"

    app = new_app(Names.APP)

    @app.agent(on("go"), name=Names.AGENT)
    async def agent(run: Run) -> str:
        return run.agent

    async with working(app) as runtime:
        run = await ended(runtime, await app.emit(Names.TYPE))
    assert (run["state"], run["agent"], run["output"], run["app"]) == ("done", "review", "review", "app")
