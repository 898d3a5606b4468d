"""Events that the condition of a wait could not be asked of: the wait goes on, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from support.stores import query
from wakeful import App, Run, on
from wakeful.clock import VirtualClock
from wakeful.intake.matching import fits
from wakeful.runtime import Runtime
from wakeful.stores.keyring import new_key
from wakeful.stores.verbs.waits import LookAgain

asyncpg = pytest.importorskip("asyncpg")

WHERE = "data.amount >= values.least"


def selling(app: App) -> App:
    @app.agent(on("go"))
    async def order(run: Run) -> Any:
        paid = await run.wait_for("paid", where=WHERE, values={"least": 10}, timeout="1h")
        return paid.data["amount"]

    return app


async def waits_for(runtime: Runtime, run: dict[str, Any]) -> dict[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    (step,) = [step for step in found["steps"] if step["state"] == "waiting"]
    awaited: dict[str, Any] = step["waits_for"]
    return awaited


async def story(runtime: Runtime, run: dict[str, Any]) -> str:
    told = await runtime.reader.why(run["id"])
    assert told is not None
    return " ".join(told["story"])


class TestWhatIsNoted:
    async def test_a_missing_field_is_told_with_the_condition_and_the_data(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"sum": 12}, id="P-1")
            assert (await waits_for(runtime, run))["misfit"] == {
                "event": "P-1",
                "reason": f'no field data.amount, which where "{WHERE}" needs; its data is {{"sum":12}}',
            }
            told = await story(runtime, run)
            await app.emit("paid", {"amount": 12})
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
        assert (
            "Event P-1 arrived, but the condition could not be evaluated for it, which counts as no match: no field"
            in told
        )
        assert '{"sum":12}' in told
        assert (run["state"], run["output"]) == ("done", 12)

    async def test_a_field_of_another_kind_is_told_too(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"amount": "much"}, id="P-1")
            reason = (await waits_for(runtime, run))["misfit"]["reason"]
        assert reason.startswith(f'where "{WHERE}" could not be evaluated')
        assert reason.endswith('; its data is {"amount":"much"}')

    async def test_the_last_one_stays(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            for number in range(3):
                await app.emit("paid", number, id=f"P-{number}")
            assert (await waits_for(runtime, run))["misfit"]["event"] == "P-2"

    async def test_a_condition_that_is_simply_false_is_nothing_to_note(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"amount": 9})
            assert "misfit" not in await waits_for(runtime, run)

    async def test_large_data_is_cut(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"text": "x" * 100_000})
            reason = (await waits_for(runtime, run))["misfit"]["reason"]
        assert len(reason) < 500
        assert reason.endswith("x…")

    async def test_each_run_that_waits_notes_it_and_the_one_that_can_tell_takes_it(self, app: App):
        @app.agent(on("go"))
        async def easy(run: Run) -> Any:
            return (await run.wait_for("paid", timeout="1h")).data

        async with working(selling(app)) as runtime:
            receipt = await app.emit("go")
            await runtime.drain()
            await app.emit("paid", {"sum": 1}, id="P-1")
            await runtime.drain()
            runs = {run["agent"]: run for one in receipt.runs if (run := await runtime.reader.run(one)) is not None}
            misfit = (await waits_for(runtime, runs["order"]))["misfit"]
        assert misfit["event"] == "P-1"
        assert runs["easy"]["output"] == {"sum": 1}


class TestWhereItIsNoted:
    async def test_an_event_that_came_before_the_wait(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> Any:
            await run.sleep("1h")
            return (await run.wait_for("paid", where=WHERE, values={"least": 10})).data

        async with working(app) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"sum": 12}, id="P-1")
            await pass_time(runtime, "1h")
            assert (await waits_for(runtime, run))["misfit"]["event"] == "P-1"

    async def test_time_runs_out_and_the_error_names_it_without_its_data(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"sum": 12}, id="P-1")
            await pass_time(runtime, "1h")
            run = (await runtime.reader.run(run["id"])) or {}
            told = await story(runtime, run)
        assert run["state"] == "dead"
        assert run["error"]["message"].endswith(
            f"within 1 h 0 m. Event P-1 came, but its match could not be determined: no field data.amount, which "
            f'where "{WHERE}" needs'
        )
        assert "Event P-1 came" in told

    @pytest.mark.postgres
    async def test_an_event_that_was_being_accepted_while_the_wait_was_registered(
        self, postgres_url: str, clock: VirtualClock
    ):
        app = selling(App("app", store=postgres_url, clock=clock))
        async with working(app) as runtime:
            assert runtime.rechecker is not None
            await runtime.rechecker.stop()
            connection = await asyncpg.connect(postgres_url)
            try:
                async with connection.transaction():
                    await app.emit("paid", {"sum": 12}, id="P-1", within=connection)
                    run = await go(runtime)
                    assert "misfit" not in await waits_for(runtime, run)
            finally:
                await connection.close()
            await runtime.rechecker.run_once()
            assert (await waits_for(runtime, run))["misfit"]["event"] == "P-1"

    async def test_it_is_encrypted_like_the_event(self, new_app: NewApp, store_url: str):
        app = selling(new_app(encryption=[new_key()]))
        async with working(app) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"sum": 12}, id="P-1")
            assert '{"sum":12}' in (await waits_for(runtime, run))["misfit"]["reason"]
            rows = await query(store_url, "select reason from wakeful_wait")
        assert [row[0].partition(":")[0] for row in rows] == ["@sealed"]


class TestValues:
    async def test_what_a_condition_names_is_shown_with_it(self, app: App):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            assert (await waits_for(runtime, run))["event"]["values"] == {"least": 10}
            assert f"has waited for an event paid where {WHERE} (least = 10), until" in await story(runtime, run)

    async def test_a_long_one_is_cut(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            await run.wait_for("paid", where="data in values.names", values={"names": ["somebody"] * 100})

        async with working(app) as runtime:
            run = await go(runtime)
            told = await story(runtime, run)
        assert '(names = ["somebody","somebody",' in told
        assert told.count("somebody") < 10


class TestConditionsThatGiveNoAnswer:
    @pytest.mark.parametrize(
        ("column", "broken", "reason"),
        [
            ("condition", "data.amount >= ", "the condition of the wait cannot be used"),
            ("condition", "data.amount > 1 && (true // note)", "the condition of the wait cannot be used"),
            ("variables", "{", "the values of the wait are not JSON"),
        ],
    )
    async def test_a_stored_one_that_is_broken_refuses_no_event(
        self, app: App, store_url: str, column: str, broken: str, reason: str
    ):
        async with working(selling(app)) as runtime:
            run = await go(runtime)
            await query(store_url, f"update wakeful_wait set {column} = $1", broken)
            for number in range(2):
                assert (await app.emit("paid", {"amount": 12}, id=f"P-{number}")).status == "unmatched"
            misfit = (await waits_for(runtime, run))["misfit"]
            told = await story(runtime, run)
        assert misfit["event"] == "P-1"
        assert misfit["reason"].startswith(reason)
        assert reason in told

    @pytest.mark.parametrize("before", [False, True], ids=["comes later", "is there already"])
    async def test_one_that_runs_out_of_its_budget_opens_an_alarm_once(self, app: App, before: bool):
        @app.agent(on("go"))
        async def order(run: Run) -> Any:
            if before:
                await run.sleep("1h")
            return (await run.wait_for("paid", where="data.many.exists(x, x == 1)", timeout="1d")).id

        async with working(app) as runtime:
            run = await go(runtime)
            await app.emit("paid", {"many": [0] * 10_100}, id="P-1")
            await pass_time(runtime, "1h")
            await runtime.store.do(LookAgain([1], matches=fits))
            (alarm,) = (await runtime.reader.alarms())["alarms"]
            misfit = (await waits_for(runtime, run))["misfit"]
        assert misfit["event"] == "P-1"
        assert (alarm["key"], alarm["agent"], alarm["count"]) == ("condition/app/order", "order", 1)
        assert f"event P-1 did not end a wait of run {run['id']} of agent order, because where" in alarm["text"]
        assert "ran out of its budget" in alarm["text"]
        assert "its data is" not in alarm["text"]
