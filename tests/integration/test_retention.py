"""What is over and done goes when its time has come; what is open, dead or young stays, and so does every identity."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, ended, go, pass_time, working
from support.stores import Onlooker, OpenStore, accept, an_arrival, count, forge, join, query
from wakeful import App, Denied, Operation, Persistent, Run, action, on
from wakeful.clock import VirtualClock, duration
from wakeful.errors import ConfigError, PayloadMissing
from wakeful.execution.housekeeping import Housekeeper, Retention
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.keeping import Keeper
from wakeful.stores.payloads import LARGE
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.feed import FeedEvents
from wakeful.stores.verbs.redo import RedoRun

TABLES = ("step", "attempt", "effect", "delivery", "remedy", "decision", "batch", "wait", "approval")


@action(safety="idempotent")
async def send(op: Operation, text: str) -> str:
    return text


def agents_of(app: App) -> App:
    @app.agent(on("go"))
    async def handle(run: Run) -> str:
        await run.step(look_up)
        await run.act(send, "it")
        run.send("log", "sent")
        return "done"

    @app.agent(on("break"))
    async def fail(run: Run) -> None:
        raise Persistent("no")

    @app.agent(on("peek"))
    async def peek(run: Run) -> None:
        raise Denied("no")

    return app


async def look_up() -> int:
    return 1


async def one_more(runtime: Runtime) -> None:
    """The newest of all stays, so that its number is not given away again."""
    await ended(runtime, await runtime.app.emit("go", id="newest"))


def keep_house(runtime: Runtime) -> Any:
    return runtime.housekeeper.run_once()


class TestRuns:
    async def test_go_with_all_that_belongs_to_them(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "31d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is None
            for table in TABLES:
                of_newest = {"step": 1, "effect": 1, "delivery": 1}.get(table, 0)
                assert await count(store_url, f"wakeful_{table}") == of_newest, table

    async def test_stay_until_their_time_has_come(self, new_app: NewApp):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "29d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is not None

    async def test_stay_for_ever_unless_told_otherwise(self, app: App, store_url: str):
        async with working(agents_of(app)) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "3650d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is not None

    async def test_of_an_agent_go_by_its_own_time(self, app: App):
        @app.agent(on("t"), retention="1h")
        async def short(run: Run) -> None: ...

        @app.agent(on("t"))
        async def long(run: Run) -> None: ...

        async with working(agents_of(app)) as runtime:
            receipt = await app.emit("t", {"a": 1}, id="1")
            await pass_time(runtime, "2h")
            await pass_time(runtime, "2h")
            await one_more(runtime)
            await keep_house(runtime)
            left = [run["agent"] for run in (await runtime.reader.runs())["runs"]]
            assert left == ["handle", "long"]
            event = await runtime.reader.event("1")
            assert event is not None
            assert event["envelope"]["data"] == {"a": 1}  # another run still needs it
            assert len(receipt.runs) == 2

    async def test_dead_letters_stay_and_denied_ones_go(self, new_app: NewApp):
        app = agents_of(new_app(retention="1d"))
        async with working(app) as runtime:
            dead = await ended(runtime, await app.emit("break"))
            denied = await ended(runtime, await app.emit("peek"))
            await pass_time(runtime, "2d")
            await one_more(runtime)
            await keep_house(runtime)
            assert ((await runtime.reader.run(dead["id"])) or {})["state"] == "dead"
            assert await runtime.reader.run(denied["id"]) is None

    async def test_whose_message_is_not_delivered_stay(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="1d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await forge(store_url, "update wakeful_delivery set state = 'dead'")
            await pass_time(runtime, "2d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is not None

    async def test_whose_effect_is_open_stay(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="1d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await forge(store_url, "update wakeful_effect set state = 'unknown'")
            await pass_time(runtime, "2d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is not None

    async def test_of_one_family_go_together(self, new_app: NewApp):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "25d")
            again = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("somebody", "code")))
            assert again is not None
            await runtime.drain()
            await pass_time(runtime, "25d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is not None
            await pass_time(runtime, "6d")
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is None
            assert await runtime.reader.run(again.run) is None

    async def test_one_that_was_called_and_went_is_not_waited_for(self, new_app: NewApp):
        app = agents_of(new_app(retention="365d"))

        @app.agent(retention="30d")
        async def child(run: Run) -> int:
            return 42

        @app.agent(on("call"))
        async def parent(run: Run) -> int:
            result: int = await run.call(child)
            return result

        async with working(app) as runtime:
            run = await ended(runtime, await app.emit("call"))
            await pass_time(runtime, "31d")
            await one_more(runtime)
            await keep_house(runtime)
            assert (await runtime.reader.runs(agent="child"))["runs"] == []
            again = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
            assert again is not None
            await runtime.drain()
            found = await runtime.reader.run(again.run)
            assert found is not None
            assert (found["state"], found["error"]["type"]) == ("dead", "ChildFailed")
            assert "is gone: it has ended and is no longer stored" in found["error"]["message"]

    async def test_many_go_in_small_pieces(self, new_app: NewApp, store_url: str):
        app = new_app(retention="1d")

        @app.agent(on("go"))
        async def handle(run: Run) -> None: ...

        async with working(app) as runtime:
            for number in range(130):
                await app.emit("go", id=str(number))
            await runtime.drain()
            await pass_time(runtime, "2d")
            before = runtime.store.journal.transitions
            await keep_house(runtime)
            assert await count(store_url, "wakeful_run") == 1  # the newest of all
            assert runtime.store.journal.transitions > before + 2

    async def test_a_new_run_never_gets_the_number_of_one_that_went(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="1d"))
        async with working(app) as runtime:
            await go(runtime)
            ((highest,),) = await query(store_url, "select max(seq) from wakeful_run")
            await pass_time(runtime, "2d")
            await keep_house(runtime)
            await go(runtime)
            ((newest,),) = await query(store_url, "select max(seq) from wakeful_run")
            assert newest > highest


class TestEvents:
    async def test_keep_their_identity_without_their_payload(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            first = await app.emit("go", {"secret": "moon"}, id="1")
            await ended(runtime, first)
            await pass_time(runtime, "31d")
            await one_more(runtime)
            await keep_house(runtime)
            event = await runtime.reader.event("1")
            assert event is not None
            assert (event["envelope"], event["payload_removed"]) == (None, True)
            for data in ({"secret": "moon"}, {"secret": "other"}):
                again = await app.emit("go", data, id="1")
                assert (again.status, again.runs) == ("duplicate", first.runs)
            assert len((await runtime.reader.runs())["runs"]) == 1

    async def test_go_after_the_deduplication_window(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="30d", deduplication="60d"))
        async with working(app) as runtime:
            await ended(runtime, await app.emit("go", id="1"))
            await pass_time(runtime, "61d")
            await one_more(runtime)
            await keep_house(runtime)
            await keep_house(runtime)
            assert await runtime.reader.event("1") is None
            assert await count(store_url, "wakeful_admission") == 1
            assert (await app.emit("go", id="1")).status == "accepted"

    async def test_that_nobody_took_go_by_the_time_of_the_app(self, new_app: NewApp):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            await app.emit("nobody.takes.this", {"a": 1}, id="1")
            await one_more(runtime)
            await pass_time(runtime, "31d")
            await keep_house(runtime)
            event = await runtime.reader.event("1")
            assert event is not None
            assert (event["state"], event["payload_removed"]) == ("unmatched", True)

    async def test_without_payload_are_not_handed_to_an_agent(self, new_app: NewApp, store_url: str):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            await app.emit("nobody.takes.this", {"a": 1}, id="1")
            await one_more(runtime)
            await pass_time(runtime, "31d")
            await keep_house(runtime)
            ((seq,),) = await query(store_url, "select seq from wakeful_event where id = '1'")
            feed = FeedEvents("app", "handle", "late", [(seq, "run-1")], by=Actor("ada", "code"))
            assert await runtime.store.do(feed) == 0
            assert await runtime.reader.run("run-1") is None

    async def test_why_tells_what_was_removed(self, new_app: NewApp):
        app = agents_of(new_app(retention="30d"))
        async with working(app) as runtime:
            run = await ended(runtime, await app.emit("go", {"a": 1}, id="1"))
            await pass_time(runtime, "31d")
            await one_more(runtime)
            await keep_house(runtime)
            for identifier in ("1", run["id"]):
                told = await runtime.reader.why(identifier)
                assert told is not None
                story = " ".join(told["story"])
                assert "Its payload was removed" in story
                assert f"Run {run['id']} of agent handle finished and was removed" in story
            assert await runtime.reader.why("0" * 26) is None


class TestTheRest:
    async def test_old_idempotency_keys_go(self, new_app: NewApp, store_url: str, clock: VirtualClock):
        app = agents_of(new_app(deduplication="60d"))
        async with working(app) as runtime:
            await accept(runtime.store, an_arrival("1"), idempotency=("old", "digest"))
            clock.move("61d")
            await accept(runtime.store, an_arrival("2"), idempotency=("new", "digest"))
            await keep_house(runtime)
        assert await query(store_url, "select key from wakeful_idempotency") == [("new",)]

    async def test_processes_that_left_a_week_ago_go(self, new_app: NewApp, store_url: str, clock: VirtualClock):
        async with working(agents_of(new_app())):
            pass
        async with working(agents_of(new_app())) as runtime:
            assert await count(store_url, "wakeful_process") == 2
            clock.move("36500d")
            clock.move("8d")
            await keep_house(runtime)
            assert await query(store_url, "select state from wakeful_process") == [("alive",)]

    async def test_keys_that_no_run_has_go(self, new_app: NewApp, store_url: str):
        async with working(agents_of(new_app())) as runtime:
            run = await go(runtime)
            for key in ("kept", "free"):
                await query(
                    store_url, "insert into wakeful_key (app, agent, key, counter) values ('app', 'handle', $1, 1)", key
                )
            await query(store_url, "update wakeful_run set key = 'kept', place = 1 where id = $1", run["id"])
            await keep_house(runtime)
            assert await query(store_url, "select key from wakeful_key") == [("kept",)]

    async def test_blobs_that_nothing_points_to_go_and_the_others_stay(self, new_app: NewApp, store_url: str):
        app = new_app(retention="1d")
        wide = "x" * (LARGE + 1)

        @app.agent(on("go"))
        async def handle(run: Run) -> str:
            return wide

        async with working(app) as runtime:
            await go(runtime, id="1")
            await pass_time(runtime, "2d")
            kept = await go(runtime, id="2")
            await pass_time(runtime, "2h")
            await keep_house(runtime)
            assert await count(store_url, "wakeful_blob") == 2
            await keep_house(runtime)
            assert await count(store_url, "wakeful_blob") == 1
            assert ((await runtime.reader.run(kept["id"])) or {})["output"] == wide

    async def test_a_young_blob_stays_whatever_points_to_it(self, new_app: NewApp, store_url: str):
        async with working(agents_of(new_app())) as runtime:
            await go(runtime, "x" * (LARGE + 1))
            await query(store_url, "update wakeful_event set envelope = '{}'")
            await keep_house(runtime)
            await keep_house(runtime)
            assert await count(store_url, "wakeful_blob") == 1


class TestTwoAtOnce:
    async def test_do_no_harm(self, new_app: NewApp, store_url: str):
        app, other = agents_of(new_app(retention="1d")), agents_of(new_app(retention="1d"))
        async with working(app) as runtime, working(other) as second:
            for number in range(70):
                await app.emit("go", id=str(number))
            await runtime.drain()
            await second.drain()
            await pass_time(runtime, "2d")
            await asyncio.gather(keep_house(runtime), keep_house(second))
            assert await count(store_url, "wakeful_run") == 1
            assert await count(store_url, "wakeful_event") == 70

    async def test_a_run_that_is_done_again_in_between_stays(self, new_app: NewApp):
        app = agents_of(new_app(retention="1d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "2d")
            await one_more(runtime)
            keeper = Keeper(runtime.store)
            seen = await keeper.family(run["id"], await keeper.time())
            assert seen is not None
            await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("somebody", "code")))
            assert await keeper.remove_families([seen]) == []
            await runtime.drain()
            assert await runtime.reader.run(run["id"]) is not None

    @pytest.mark.postgres
    async def test_what_somebody_has_in_hand_is_left_for_the_next_time(self, postgres_url: str, clock: VirtualClock):
        app = agents_of(App("app", store=postgres_url, clock=clock, retention="1d"))
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "2d")
            await one_more(runtime)
            hand = Onlooker(postgres_url)
            await hand.query("begin")
            await hand.query("select 1 from wakeful_run where id = $1 for update", run["id"])
            await asyncio.wait_for(keep_house(runtime), 10)
            assert await runtime.reader.run(run["id"]) is not None
            await hand.query("rollback")
            await hand.close()
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is None


class TestTheArchive:
    async def test_has_what_was_removed(self, new_app: NewApp, tmp_path: Path):
        app = agents_of(new_app(retention="30d", archive=tmp_path / "old"))
        async with working(app) as runtime:
            run = await go(runtime, {"a": 1})
            await pass_time(runtime, "31d")
            await one_more(runtime)
            await keep_house(runtime)
            (file,) = (tmp_path / "old").iterdir()
            (line,) = file.read_text().splitlines()
            assert json.loads(line) == json.loads(json.dumps(run))

    async def test_that_cannot_be_written_keeps_everything(self, new_app: NewApp, tmp_path: Path):
        (tmp_path / "old").write_text("a file, not a folder")
        app = agents_of(new_app(retention="30d", archive=tmp_path / "old"))
        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "31d")
            await one_more(runtime)
            await keep_house(runtime)
            assert await runtime.reader.run(run["id"]) is not None
            await runtime.stop()
            async with new_app().running(worker=False) as later:
                (alarm,) = (await later.reader.alarms())["alarms"]
            assert "cannot be archived" in alarm["text"]

    async def test_one_run_that_cannot_be_read_does_not_keep_the_others(
        self, stores: OpenStore, store_url: str, clock: VirtualClock
    ):
        store = await stores(store_url)
        await accept(store, *(an_arrival(str(number)) for number in range(5)))
        member = await join(store, lease="36500d")
        for claim in await member.claim():
            await member.finish(claim)
        clock.move("2d")
        broken: list[str] = []
        troubles: list[str] = []

        async def archive(families: Sequence[Any]) -> None:
            broken[:] = broken or [families[1].root]
            if any(family.root in broken for family in families):
                message = "a part of it is missing"
                raise PayloadMissing(message)

        keeper = Keeper(store)
        retention = Retention("app", duration("1d"))
        await Housekeeper(keeper, retention, archive=archive, trouble=troubles.append, pause=0).run_once()
        left = [row[0] for row in await query(store_url, "select id from wakeful_run order by seq")]
        assert len(left) == 2  # the broken one, and the newest, which always stays
        assert broken[0] in left
        (trouble,) = troubles
        assert broken[0] in trouble
        assert "a part of it is missing" in trouble

    @pytest.mark.parametrize("point", ["before", "within", "after"])
    async def test_loses_nothing_when_the_process_dies(
        self, stores: OpenStore, store_url: str, tmp_path: Path, clock: VirtualClock, point: str
    ):
        """Dead before the removal is on disk: the run is in the archive and in the store. Dead after it: in the archive."""
        store = await stores(store_url)
        await accept(store, an_arrival("1"), an_arrival("2"))
        member = await join(store, lease="36500d")
        for claim in await member.claim():
            await member.finish(claim)
        clock.move("2d")
        archived: list[str] = []
        dying = False

        def probe(where: str, _requests: Sequence[Any]) -> None:
            if dying and where == point:
                raise Died

        async def archive(families: Sequence[Any]) -> None:
            archived.extend(family.root for family in families)

        def housekeeper(at: DatabaseStore) -> Housekeeper:
            keeper = Keeper(at)
            return Housekeeper(keeper, Retention("app", duration("1d")), archive=archive, pause=0)

        doomed = await stores(store_url, probe=probe)
        dying = True
        work = asyncio.ensure_future(housekeeper(doomed).run_once())
        while not doomed.journal.is_dead():
            await asyncio.sleep(0)
        work.cancel()
        assert len(archived) == 1
        left = await count(store_url, "wakeful_run")
        assert left == (1 if point == "after" else 2)
        await housekeeper(store).run_once()
        assert await count(store_url, "wakeful_run") == 1
        assert len(set(archived)) == 1


@pytest.mark.parametrize(
    "options", [{"retention": "often"}, {"retention": "0s"}, {"deduplication": None}, {"deduplication": "x"}]
)
def test_what_is_no_time_is_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        App("app", **options)
