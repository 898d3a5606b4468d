"""Who did what: the row about a sent event goes with the event; what a person decided stays, or as long as the app says."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import NewApp, ended, pass_time, working
from support.stores import query
from wakeful import App, Run, on
from wakeful.errors import ConfigError
from wakeful.intake.cloudevents import new_event
from wakeful.operations.checking_in import check_in
from wakeful.operations.starting import start_run
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.people import RecordOperation
from wakeful.stores.verbs.sending import SentBy

ADA, ROBOT = Actor("ada", "cli"), Actor("token", "http")


def working_app(app: App) -> App:
    app.expect("backup", at_least_every="3650d")

    @app.agent(on("go"))
    async def handle(run: Run) -> None: ...

    @app.agent(on("ask"))
    async def asks(run: Run) -> None:
        await run.ask("free?")

    return app


async def send_all(runtime: Runtime, identifier: str) -> None:
    """An event, a run and a check-in, as programs send them."""
    app = runtime.app.name
    await runtime.door.accept(
        [new_event("go", source="/desk", id=identifier)], by="app", sent=SentBy(ADA, "emit", "go")
    )
    await start_run(runtime.door, app, "handle", None, f"run-{identifier}", by=ROBOT)
    await check_in(runtime.door, app, "backup", None, f"in-{identifier}", by=ROBOT)
    await runtime.drain()


async def keep_house(runtime: Runtime) -> None:
    """The newest event and run always stay. A payload goes in one round, its event in the next."""
    await ended(runtime, await runtime.app.emit("go"))
    for _ in range(3):
        await runtime.housekeeper.run_once()


async def verbs(url: str, app: str | None = "app") -> list[str]:
    return [row[0] for row in await query(url, "select verb from wakeful_operation where app = $1 order by seq", app)]


SENT = ["emit", "run", "checkin"]


async def test_what_was_sent_is_recorded_for_as_long_as_its_event(new_app: NewApp, store_url: str):
    app = working_app(new_app(retention="1d", deduplication="10d"))
    async with working(app) as runtime:
        await send_all(runtime, "1")
        await runtime.store.do(ChangePause("app", "asks", paused=True, by=ADA))
        await pass_time(runtime, "9d")
        await keep_house(runtime)  # the run is gone, and the identity of its event is kept
        assert await query(store_url, "select 1 from wakeful_run where agent = 'handle' limit 2") == [(1,)]
        assert await verbs(store_url) == [*SENT, "pause"]
        await send_all(runtime, "2")
        await pass_time(runtime, "2d")
        await keep_house(runtime)
        assert await query(store_url, "select 1 from wakeful_event where id = '1'") == []
        assert await verbs(store_url) == ["pause", *SENT]
        await pass_time(runtime, "3650d")
        await keep_house(runtime)
        assert await verbs(store_url) == ["pause"]


async def test_it_stays_while_events_stay(new_app: NewApp, store_url: str):
    async with working(working_app(new_app())) as runtime:
        await send_all(runtime, "1")
        await pass_time(runtime, "3650d")
        await keep_house(runtime)
        assert await verbs(store_url) == SENT


async def test_it_stays_while_its_run_is_not_over(new_app: NewApp, store_url: str):
    app = working_app(new_app(retention="1d", deduplication="10d"))
    async with working(app) as runtime:
        await start_run(runtime.door, "app", "asks", None, "waits", by=ROBOT)
        await runtime.drain()
        await pass_time(runtime, "100d")
        await keep_house(runtime)
        assert await verbs(store_url) == ["run"]


async def test_the_row_of_a_duplicate_goes_too(new_app: NewApp, store_url: str):
    app = working_app(new_app(retention="1d", deduplication="10d"))
    async with working(app) as runtime:
        await send_all(runtime, "1")
        await pass_time(runtime, "5d")
        await send_all(runtime, "1")
        assert len(await verbs(store_url)) == 6
        await pass_time(runtime, "11d")
        await keep_house(runtime)
        assert await verbs(store_url) == []


async def test_rows_whose_events_went_before_go(new_app: NewApp, store_url: str):
    """Versions before this one removed the events and left the rows."""
    app = working_app(new_app(deduplication="10d"))
    async with working(app) as runtime:
        await runtime.store.do(RecordOperation("ada", "emit", "app", "gone", "go: accepted", "cli"))
        await runtime.store.do(RecordOperation("ada", "emit", "other", "gone", "go: accepted", "cli"))
        await pass_time(runtime, "9d")
        await keep_house(runtime)
        assert await verbs(store_url) == ["emit"]
        await pass_time(runtime, "2d")
        await keep_house(runtime)
        assert await verbs(store_url) == []
        assert await verbs(store_url, "other") == ["emit"]


async def decide(runtime: Runtime) -> None:
    """What people decide: about an agent, an approval and a run."""
    receipts = [await runtime.app.emit("ask"), await runtime.app.emit("ask")]
    await runtime.drain()
    first, second = [one["id"] for one in (await runtime.reader.approvals())["approvals"]]
    await runtime.store.do(AnswerApproval(first, "true", by=ADA))
    of_second = next(one["run"] for one in (await runtime.reader.approvals())["approvals"] if one["id"] == second)
    await runtime.store.do(CancelRun(of_second, by=ADA))
    await runtime.store.do(ChangePause("app", "handle", paused=True, by=ADA))
    await runtime.store.do(ChangePause("app", "handle", paused=False, by=ADA))
    await runtime.drain()
    assert len(receipts) == 2


@pytest.mark.parametrize(("kept", "left"), [(None, ["answer", "cancel", "pause", "resume"]), ("400d", [])])
async def test_what_people_decided_is_kept_as_long_as_the_app_says(
    new_app: NewApp, store_url: str, kept: Any, left: list[str]
):
    app = working_app(new_app(keep_operations=kept))
    async with working(app) as runtime:
        await decide(runtime)
        await send_all(runtime, "1")
        await pass_time(runtime, "399d")
        await keep_house(runtime)
        assert await verbs(store_url) == ["answer", "cancel", "pause", "resume", *SENT]
        await pass_time(runtime, "2d")
        await keep_house(runtime)
        assert await verbs(store_url) == [*left, *SENT]  # their events are still there


async def test_an_act_is_recorded_with_the_app_that_it_is_about(new_app: NewApp, store_url: str):
    """So that each app keeps its own as long as it says, also after the run is gone."""
    app, other = working_app(new_app(keep_operations="1d")), working_app(new_app("other"))
    async with working(other) as runtime:
        await runtime.app.emit("ask")
        await runtime.drain()
        (approval,) = (await runtime.reader.approvals())["approvals"]
        await runtime.store.do(AnswerApproval(approval["id"], "true", by=ADA))
    async with working(app) as runtime:
        await pass_time(runtime, "2d")
        await keep_house(runtime)
    assert await verbs(store_url, "other") == ["answer"]


@pytest.mark.parametrize("alone", [True, False])
async def test_acts_that_name_no_app_go_only_if_the_store_has_no_other_app(
    new_app: NewApp, store_url: str, *, alone: bool
):
    if not alone:
        async with working(working_app(new_app("other"))):
            pass
    async with working(working_app(new_app(keep_operations="30d"))) as runtime:
        await runtime.store.do(RecordOperation("ada", "keys rotate", way="cli"))
        await pass_time(runtime, "31d")
        await keep_house(runtime)
    rows = await query(store_url, "select verb from wakeful_operation where app is null and verb = 'keys rotate'")
    assert bool(rows) is not alone


def test_a_time_that_cannot_be_read_is_refused(new_app: NewApp):
    with pytest.raises(ConfigError, match="keep_operations"):
        new_app(keep_operations="for long")
