"""Buckets by their notifications, out of a queue: a message is deleted once its events are stored, and not before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, working
from support.clouds import KEYS, REGION, Box, Cloud, Line
from wakeful import App, Run, bucket
from wakeful.connect.s3 import sqs
from wakeful.connect.s3.aws import Access
from wakeful.runtime import Runtime
from wakeful.stores.journal import Died
from wakeful.stores.verbs.processes import BuryProcess, other_processes
from wakeful.stores.verbs.sources import find_source
from wakeful.stores.verbs.take_in import TakeIn

Seen = list[tuple[str, str]]


def noting(app: App, box: Box, line: Line, seen: Seen, pattern: str = "", *, name: str = "note", **options: Any) -> App:
    @app.agent(bucket(f"s3://{box.name}/{pattern}", queue=line.address, **box.cloud.where, **options), name=name)
    async def note(run: Run) -> None:
        seen.append((run.event.data["change"], run.event.data["key"]))

    return app


def told(box: Box, key: str, name: str = "ObjectCreated:Put", sequencer: str = "0055AED6DCD90281E5") -> dict[str, Any]:
    """A notification as S3 documents it."""
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-west-1",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "eventName": name,
        "s3": {
            "s3SchemaVersion": "1.0",
            "bucket": {"name": box.name, "arn": f"arn:aws:s3:::{box.name}"},
            "object": {"key": key, "size": 5, "eTag": "5d41402abc4b2a76b9719d911017c592", "sequencer": sequencer},
        },
    }


async def test_uploaded_deleted_and_uploaded_again_are_three(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(), Seen()
    await box.tells(line)
    await box.put("in/a b+é.csv", "out/x")
    await box.delete("in/a b+é.csv")
    await box.put("in/a b+é.csv")
    async with working(noting(new_app(), box, line, seen, "in/*.csv"), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == [("created", "in/a b+é.csv"), ("created", "in/a b+é.csv"), ("deleted", "in/a b+é.csv")]
        assert await line.left() == (0, 0)
        found = await find_source(runtime.store.database, "app", line.address)
        assert found is not None
        assert (found.kind, found.taken, found.repeated) == ("bucket", 3, 0)


async def test_a_message_that_comes_again_is_the_same_event(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(), Seen()
    one, other = told(box, "a"), told(box, "b")
    by_event_bridge = {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "time": "2026-01-01T00:00:09Z",
        "detail": {
            "version": "0",
            "bucket": {"name": box.name},
            "object": {
                "key": "a",
                "size": 5,
                "etag": "5d41402abc4b2a76b9719d911017c592",
                "sequencer": one["s3"]["object"]["sequencer"],
            },
            "reason": "PutObject",
        },
    }
    by_sns = {"Type": "Notification", "MessageId": "1", "Message": json.dumps({"Records": [one]})}
    test_event = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": box.name}
    await line.send({"Records": [one, other]}, {"Records": [one]}, by_event_bridge, by_sns, test_event)
    async with working(noting(new_app(), box, line, seen), reading="drained") as runtime:
        await runtime.drain()
        await line.send({"Records": [other]})
        await runtime.drain()
        assert sorted(seen) == [("created", "a"), ("created", "b")]
        assert await line.left() == (0, 0)
        found = await find_source(runtime.store.database, "app", line.address)
        assert found is not None
        assert (found.taken, found.repeated, found.quarantined) == (6, 4, 0)


async def test_what_is_no_notification_is_kept_and_taken_off_the_queue(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(), Seen()
    other = await cloud.new_bucket()
    broken = told(box, "broken")
    del broken["s3"]["object"]["key"]
    await line.send(
        "{not json", {"hello": 1}, {"Records": [broken, told(box, "good")]}, {"Records": [told(other, "c")]}
    )
    async with working(noting(new_app(), box, line, seen), reading="drained") as runtime:
        await runtime.drain()
        assert seen == [("created", "good")]
        assert await line.left() == (0, 0)
        kept = (await runtime.reader.events(state="quarantined", limit=10))["events"]
        reasons = " | ".join(sorted(one["reason"] for one in kept))
        assert len(kept) == 4
        assert "not an S3 notification" in reasons
        assert "record 0 cannot be read: key is missing" in reasons
        assert f"it is about bucket {other.name}, and no trigger with this queue names that bucket" in reasons
        reader = runtime.sources.reader(line.address)
        assert reader is not None
        again = reader.read_again(json.dumps({"Records": [told(box, "mended")]}).encode(), {})
        assert [one.subject for one in again] == ["mended"]


async def test_a_death_before_the_commit_leaves_the_messages_to_others(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(), Seen()
    await line.send(*({"Records": [told(box, f"{number:02}")]} for number in range(25)))

    def die(moment: str, requests: Sequence[Any]) -> None:
        if moment == "within" and any(isinstance(one, TakeIn) for one in requests):
            raise Died

    doomed = Runtime(noting(new_app(), box, line, seen), lease=FOREVER, probe=die)
    await doomed.open(migrate=True)
    await doomed.start()
    await until(doomed.store.journal.is_dead)
    assert await line.left() != (0, 0)
    await doomed.die()
    assert seen == []
    async with working(noting(new_app(), box, line, seen), reading="drained") as runtime:
        for process, _, _ in await other_processes(runtime.store.database, runtime.membership.process):
            await runtime.store.do(BuryProcess(process, certain=True))
        await runtime.drain()
        assert sorted(seen) == [("created", f"{number:02}") for number in range(25)]
        assert await line.left() == (0, 0)


async def test_a_death_after_the_commit_doubles_nothing(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(), Seen()
    await line.send({"Records": [told(box, "a")]})

    def die(moment: str, requests: Sequence[Any]) -> None:
        if moment == "after" and any(isinstance(one, TakeIn) for one in requests):
            raise Died

    doomed = Runtime(noting(new_app(), box, line, seen), lease=FOREVER, probe=die)
    await doomed.open(migrate=True)
    await doomed.start()
    await until(doomed.store.journal.is_dead)
    await doomed.die()
    async with working(noting(new_app(), box, line, seen), reading="drained") as runtime:
        for process, _, _ in await other_processes(runtime.store.database, runtime.membership.process):
            await runtime.store.do(BuryProcess(process, certain=True))
        await runtime.drain()
        assert seen == [("created", "a")]
        found = await find_source(runtime.store.database, "app", line.address)
        assert found is not None
        assert (found.taken, found.repeated) == (2, 1)
        assert await line.left() == (0, 0)


async def test_messages_that_wait_for_the_store_are_kept_from_others(cloud: Cloud):
    line = await cloud.new_queue(visibility=1)
    await line.send("a")
    queue = sqs.SqsQueue(sqs.read_queue_address(line.address, access(cloud), where="test"))
    extended = asyncio.Event()
    await queue.open()
    try:
        (message,) = await queue.receive(1)
        hide = queue._hide

        async def tell(messages: Any, span: int) -> None:
            await hide(messages, span)
            extended.set()

        queue._hide = tell  # type: ignore[method-assign]
        for _ in range(5):  # longer than the queue hides it by itself
            extended.clear()
            async with asyncio.timeout(60):
                await extended.wait()
        assert await line.left() == (0, 1)
        await queue.delete([message])
        assert await line.left() == (0, 0)
    finally:
        await queue.close()


async def test_what_was_not_stored_is_given_back_at_once(cloud: Cloud):
    line = await cloud.new_queue(visibility=600)
    await line.send("a")
    queue = sqs.SqsQueue(sqs.read_queue_address(line.url, access(cloud), where="test"))
    await queue.open()
    assert [one.body for one in await queue.receive(1)] == ["a"]
    assert await line.left() == (0, 1)
    await queue.close()
    assert await line.left() == (1, 0)


async def test_several_processes_share_a_queue(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(), Seen()
    async with (
        working(noting(new_app(clock=None), box, line, seen)) as first,
        working(noting(new_app(clock=None), box, line, seen)) as second,
    ):
        await line.send(*({"Records": [told(box, f"{number:03}")]} for number in range(300)))
        await until(lambda: len(seen) >= 300)
        assert sorted(seen) == [("created", f"{number:03}") for number in range(300)]
        found = await find_source(first.store.database, "app", line.address)
        assert found is not None
        assert found.holder is None
        assert second.sources.readings[line.address].state == "reading"


async def test_a_server_that_goes_and_comes_back(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(visibility=2), Seen()
    await line.send({"Records": [told(box, "a")]})
    async with working(noting(new_app(clock=None), box, line, seen)) as runtime:
        await until(lambda: len(seen) == 1)
        cloud.stop()
        try:
            async with asyncio.timeout(60):
                while (
                    found := await find_source(runtime.store.database, "app", line.address)
                ) is None or found.state != "failing":
                    await asyncio.sleep(0.01)
            assert "cannot be reached" in (found.error or "")
        finally:
            cloud.start()
        await line.send({"Records": [told(box, "b")]})
        await until(lambda: len(seen) == 2)
    assert seen == [("created", "a"), ("created", "b")]


@pytest.mark.slow
async def test_ten_thousand_notifications_none_lost_none_doubled(new_app: NewApp, cloud: Cloud):
    box, line, seen = await cloud.new_bucket(), await cloud.new_queue(visibility=600), Seen()
    names = [f"{number:05}" for number in range(10_000)]
    # S3 puts one record into a message; a hundred of them are as good, and the emulator takes long over messages.
    await line.send(
        *({"Records": [told(box, name) for name in names[at : at + 100]]} for at in range(0, 10_000, 100)),
        *({"Records": [told(box, name) for name in names[at : at + 100]]} for at in range(0, 1_000, 100)),
    )
    async with working(noting(new_app(), box, line, seen), reading="drained") as runtime:
        await runtime.drain()
        assert sorted(seen) == [("created", name) for name in names]
        found = await find_source(runtime.store.database, "app", line.address)
        assert found is not None
        assert found.repeated >= 1_000  # a queue may give out a message twice by itself
        assert found.taken - found.repeated == 10_000
        assert await line.left() == (0, 0)


async def test_a_queue_that_is_not_there(cloud: Cloud):
    (problem,) = await bucket("s3://box", queue="sqs://eu-west-1/nowhere", **cloud.where).problems()
    assert problem == (
        "queue sqs://eu-west-1/nowhere: there is no such queue: create it, or correct its name and region"
    )


def access(cloud: Cloud) -> Any:
    return Access(REGION, cloud.endpoint, **KEYS)


async def until(is_so: Any) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)
