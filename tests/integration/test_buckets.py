"""Buckets by listing, against a real server on loopback (moto): what is written and removed becomes events, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, working
from support.clouds import Box, Cloud
from wakeful import App, Run, bucket
from wakeful.connect.s3 import listing
from wakeful.operations.quarantine import release
from wakeful.resources.desk import looking
from wakeful.resources.quarantine_reading import input_of
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.request import Actor
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.sources import find_source
from wakeful.stores.verbs.take_in import TakeIn

Seen = list[tuple[str, str, int]]


def noting(new_app: NewApp, box: Box, seen: Seen, pattern: str = "", *, name: str = "note", **options: Any) -> App:
    return also_noting(new_app(), box, seen, pattern, name=name, **options)


def also_noting(app: App, box: Box, seen: Seen, pattern: str = "", *, name: str = "note", **options: Any) -> App:
    @app.agent(bucket(f"s3://{box.name}/{pattern}", **box.cloud.where, **options), name=name)
    async def note(run: Run) -> None:
        data = run.event.data
        seen.append((data["change"], data["key"], data["version"]))

    return app


async def test_written_changed_and_removed_are_events(new_app: NewApp, cloud: Cloud):
    box, seen = await cloud.new_bucket(), Seen()
    await box.put("a.txt", "b/c d+é.txt")
    async with working(noting(new_app, box, seen), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == [("created", "a.txt", 1), ("created", "b/c d+é.txt", 1)]
        seen.clear()
        await runtime.drain()
        assert seen == []
        await box.put("a.txt", body=b"other")
        await runtime.drain()
        await box.delete("a.txt")
        await runtime.drain()
        await box.put("a.txt", body=b"other")
        await runtime.drain()
        assert seen == [("changed", "a.txt", 2), ("deleted", "a.txt", 3), ("created", "a.txt", 4)]
        events = (await runtime.reader.events(limit=10))["events"]
        assert {one["source"] for one in events} == {f"s3://{box.name}"}
        assert {one["subject"] for one in events} == {"a.txt", "b/c d+é.txt"}
        assert {one["type"] for one in events} == {"object.created", "object.changed", "object.deleted"}
        found = await find_source(runtime.store.database, "app", f"s3://{box.name}")
        assert found is not None
        assert (found.kind, found.state, found.taken, found.repeated) == ("bucket", "reading", 5, 0)


async def test_what_an_object_event_says(new_app: NewApp, cloud: Cloud):
    box, told = await cloud.new_bucket(), list[dict[str, Any]]()
    await box.put("a.txt", body=b"hello")
    app = new_app()

    @app.agent(bucket(f"s3://{box.name}", **cloud.where))
    async def note(run: Run) -> None:
        told.append(run.event.data)
        assert run.event.time is not None

    async with working(app, reading="drained") as runtime:
        await runtime.drain()
    (data,) = told
    assert data.pop("modified").endswith("Z")
    assert data == {
        "bucket": box.name,
        "key": "a.txt",
        "change": "created",
        "version": 1,
        "version_id": None,
        "size": 5,
        "etag": "5d41402abc4b2a76b9719d911017c592",
        "sequencer": None,
    }


async def test_each_trigger_gets_what_it_asks_for(new_app: NewApp, cloud: Cloud):
    box = await cloud.new_bucket()
    tables, beneath, removed, large, everything = Seen(), Seen(), Seen(), Seen(), Seen()
    app = new_app()
    also_noting(app, box, tables, "in/*.csv", name="tables")
    also_noting(app, box, beneath, "in/**/*.csv", name="beneath")
    also_noting(app, box, removed, "in/", name="removed", operations="deleted")
    also_noting(app, box, large, "", name="large", where="data.size > 100")
    also_noting(app, box, everything, "", name="everything")
    async with working(app, reading="drained") as runtime:
        await box.put("in/a.csv", "in/deep/b.csv", "in/c.txt", "out/d.csv")
        await box.put("big", body=b"x" * 101)
        await runtime.drain()
        await box.delete("in/a.csv", "out/d.csv")
        await runtime.drain()
    assert tables == [("created", "in/a.csv", 1), ("deleted", "in/a.csv", 2)]
    assert sorted(beneath) == [("created", "in/a.csv", 1), ("created", "in/deep/b.csv", 1), ("deleted", "in/a.csv", 2)]
    assert removed == [("deleted", "in/a.csv", 2)]
    assert large == [("created", "big", 1)]
    assert len(everything) == 7


async def test_data_is_told_in_the_form_that_is_asked_for(new_app: NewApp, cloud: Cloud):
    box, told = await cloud.new_bucket(), list[Any]()
    await box.put("1.txt", "x.txt")
    app = new_app()

    def number(data: Any) -> int:
        return int(data["key"].removesuffix(".txt"))

    @app.agent(bucket(f"s3://{box.name}", **cloud.where, data=number), name="mapped")
    async def mapped(run: Run) -> None:
        told.append(run.event.data)

    plain = Seen()
    also_noting(app, box, plain)
    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        assert told == [1]
        assert len(plain) == 2
        (kept,) = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        assert "x.txt: data= failed" in kept["reason"]
        await runtime.drain()
        found = await find_source(runtime.store.database, "app", f"s3://{box.name}")
        assert found is not None
        assert found.quarantined == 1


async def test_what_was_kept_becomes_its_event_after_a_fix(new_app: NewApp, cloud: Cloud):
    box, told = await cloud.new_bucket(), list[Any]()
    await box.put("x.txt")

    def build(known: dict[str, int]) -> App:
        app = new_app()

        def number(data: Any) -> int:
            return known[data["key"]]

        @app.agent(bucket(f"s3://{box.name}", **cloud.where, data=number), name="mapped")
        async def mapped(run: Run) -> None:
            told.append((run.event.data, run.event.id))

        return app

    async with working(build({}), reading="drained") as runtime:
        await runtime.drain()
    async with working(build({"x.txt": 7}), reading="drained") as runtime:
        await runtime.drain()
        assert told == []
        (kept,) = (await runtime.reader.quarantine(state="kept"))["quarantine"]
        found = await input_of(looking(runtime.reader), kept["key"])
        assert found is not None
        settled = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
        assert settled.state == "released", settled
        await runtime.drain()
        assert told == [(7, "x.txt@1")]


@pytest.mark.slow
async def test_ten_thousand_objects_none_lost_none_doubled(new_app: NewApp, cloud: Cloud):
    box = await cloud.new_bucket()
    keys = [f"in/{number:05}.csv" for number in range(10_000)]
    box.put_at_once(keys)
    seen = Seen()
    async with working(noting(new_app, box, seen, "in/*.csv"), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(key for _, key, _ in seen) == keys
        found = await find_source(runtime.store.database, "app", f"s3://{box.name}")
        assert found is not None
        assert (found.taken, found.repeated, found.cursor) == (10_000, 0, "")


def lay_out(box: Box) -> list[str]:
    keys = [f"{number:03}" for number in range(25)]
    box.put_at_once(keys)
    return keys


async def test_a_death_in_a_listing_goes_on_behind_what_was_stored(
    new_app: NewApp, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listing, "PAGE", 10)
    box, seen = await cloud.new_bucket(), Seen()
    keys = lay_out(box)
    stored = 0

    def die_at_the_second(moment: str, requests: Sequence[Any]) -> None:
        nonlocal stored
        stored += sum(isinstance(one, TakeIn) for one in requests) if moment == "within" else 0
        if stored == 2:
            raise Died

    doomed = Runtime(noting(new_app, box, seen), lease=FOREVER, probe=die_at_the_second)
    await doomed.open(migrate=True)
    await doomed.start()
    async with asyncio.timeout(30):
        while not doomed.store.journal.is_dead():
            await asyncio.sleep(0.01)
    await doomed.die()
    await box.delete("003")
    async with working(noting(new_app, box, seen), reading="drained") as runtime:
        found = await find_source(runtime.store.database, "app", f"s3://{box.name}")
        assert found is not None
        assert found.cursor == "009"
        for process, _, _ in await other_processes(runtime.store.database, runtime.membership.process):
            await runtime.store.do(BuryProcess(process, certain=True))
        await runtime.drain()
        found = await find_source(runtime.store.database, "app", f"s3://{box.name}")
        assert found is not None
        assert (found.cursor, found.taken, found.repeated) == ("", 26, 0)
    assert sorted(key for change, key, _ in seen if change == "created") == keys
    assert [one for one in seen if one[0] == "deleted"] == [("deleted", "003", 2)]


async def test_a_listing_that_breaks_off_tells_of_no_deletions(
    new_app: NewApp, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listing, "PAGE", 10)
    box, seen = await cloud.new_bucket(), Seen()
    lay_out(box)
    async with working(noting(new_app, box, seen), reading="drained") as runtime:
        await runtime.drain()
        assert len(seen) == 25
        real, pages = listing.ListingReader._page, 0

        async def breaks_off(self: Any, under_way: Any) -> Any:
            nonlocal pages
            pages += 1
            if pages == 2:
                cloud.stop()
                try:
                    return await real(self, under_way)
                finally:
                    cloud.start()
            return await real(self, under_way)

        monkeypatch.setattr(listing.ListingReader, "_page", breaks_off)
        await box.delete("020")
        await runtime.sources.drain()
        assert pages == 2
        assert len(seen) == 25
        found = await find_source(runtime.store.database, "app", f"s3://{box.name}")
        assert found is not None
        assert found.state == "failing"
        assert "cannot be reached" in (found.error or "")
        await runtime.drain()
        assert seen[25:] == [("deleted", "020", 2)]


async def test_a_server_that_goes_and_comes_back(new_app: NewApp, cloud: Cloud):
    box, seen = await cloud.new_bucket(), Seen()
    await box.put("a")
    app = also_noting(new_app(clock=None), box, seen, every="1s")
    async with working(app) as runtime:
        await until(lambda: len(seen) == 1)
        cloud.stop()
        try:
            await in_state(runtime, box, "failing")
            (alarm,) = (await runtime.reader.alarms())["alarms"]
            assert "cannot be reached" in alarm["text"]
        finally:
            cloud.start()
        await box.put("b")
        await until(lambda: len(seen) == 2)
        await in_state(runtime, box, "reading")
    assert seen == [("created", "a", 1), ("created", "b", 1)]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"url": "s3://nowhere-at-all"}, "there is no such bucket: create it"),
        ({"endpoint": "http://127.0.0.1:9"}, "cannot be reached"),
    ],
)
async def test_what_is_in_the_way_is_an_alarm_with_the_remedy_and_the_rest_goes_on(
    new_app: NewApp, cloud: Cloud, where: dict[str, Any], words: str
):
    box, seen = await cloud.new_bucket(), Seen()
    await box.put("a")
    app = noting(new_app, box, seen)
    options = {"url": "s3://other", **cloud.where, **where}
    wrong = bucket(**options)

    @app.agent(wrong, name="never")
    async def never(run: Run) -> None: ...

    async with working(app, reading="drained") as runtime:
        await runtime.drain()
        assert seen == [("created", "a", 1)]
        found = await find_source(runtime.store.database, "app", wrong.name)
        assert found is not None
        assert found.state == "failing"
        assert words in (found.error or "")
        (problem,) = await wrong.problems()
        assert words in problem
        assert "\n" not in problem


async def test_without_credentials_one_line_says_where_to_put_them(cloud: Cloud, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    (problem,) = await bucket("s3://box", endpoint=cloud.endpoint).problems()
    assert "there are no credentials: set AWS_ACCESS_KEY_ID" in problem


async def until(is_so: Any) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def in_state(runtime: Runtime, box: Box, state: str) -> None:
    async with asyncio.timeout(60):
        while (
            found := await find_source(runtime.store.database, "app", f"s3://{box.name}")
        ) is None or found.state != state:
            await asyncio.sleep(0.01)
