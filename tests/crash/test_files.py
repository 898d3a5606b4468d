"""Killed around every batch of files: whoever comes next tells what was not told, under the same identity, and nothing twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from crash.harness import KILLED, TESTS, Place
from wakeful.testing.children import Nursery
from wakeful.testing.waiting import until

MANY = 1_200  # more than one batch
LONG_AGO = 1_000_000_000.0


@pytest.fixture(scope="module")
def readers() -> Iterator[Nursery]:
    with Nursery("crash.children.files:main", path=[str(TESTS)]) as nursery:
        yield nursery


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (LONG_AGO, LONG_AGO))


def digests_in(inbox: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in inbox.iterdir()}


async def is_told(place: Place, inbox: Path) -> bool:
    """Is everything known as it is on disk, and all of it handled?"""
    items = await place.query("select item, mark from wakeful_source_item where gone = 0")
    known = {item: mark.split("sha256:")[1].split()[0] for item, mark in items}
    return known == digests_in(inbox) and set(await place.states()) == {"done"}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("point", ["before", "within", "after"])
async def test_a_kill_around_a_batch_loses_nothing_and_tells_nothing_twice(
    readers: Nursery, place: Place, point: str, number: int
):
    inbox = place.folder / "inbox"
    inbox.mkdir()
    for one in range(MANY):
        write(inbox / f"{one}.md", str(one))
    plan = {"store": place.url, "pattern": f"{inbox}/*.md"}
    async with readers.bear({**plan, "point": point, "number": number}, place.folder) as doomed:
        assert await doomed.ends() == KILLED
    stored = await place.query("select item from wakeful_source_item", after_a_crash=True)
    assert len(stored) == {("after", 1): 1000, ("before", 2): 1000, ("within", 2): 1000, ("after", 2): MANY}.get(
        (point, number), 0
    )
    for one in range(0, MANY, 100):
        write(inbox / f"{one}.md", "something else")
        (inbox / f"{one + 1}.md").unlink()
        write(inbox / f"{one}-more.md", "new")
    async with readers.bear(plan, place.folder):
        await until(lambda: is_told(place, inbox))
        write(place.folder / "last.md", "while it reads")
        (place.folder / "last.md").rename(inbox / "last.md")
        await until(lambda: is_told(place, inbox))
    items = await place.query("select item, version from wakeful_source_item")
    events = await place.query("select id, duplicates from wakeful_event")
    assert sorted(events) == sorted((f"{item}@{v}", 0) for item, version in items for v in range(1, version + 1))
    assert sorted(run.output for run in await place.runs()) == sorted(identity for identity, _ in events)
    touched = {f"{one + more}.md" for one in range(0, MANY, 100) for more in (0, 1)}
    assert {item for item, version in items if version > 1} == touched & {item for (item,) in stored}


async def test_whoever_waits_goes_on_where_a_killed_reader_stood(readers: Nursery, place: Place):
    inbox = place.folder / "inbox"
    inbox.mkdir()
    write(inbox / "first.md", "one")
    plan = {"store": place.url, "pattern": f"{inbox}/*.md"}
    async with readers.bear(plan, place.folder) as killed:
        await until(lambda: is_told(place, inbox))
        async with readers.bear(plan, place.folder):
            await until(lambda: are_alive(place, 2))
            killed.kill()
            assert await killed.ends() == KILLED
            write(inbox / "second.md", "two")
            await until(lambda: is_told(place, inbox))
    assert sorted(await place.query("select id, duplicates from wakeful_event")) == [
        ("first.md@1", 0),
        ("second.md@1", 0),
    ]


async def are_alive(place: Place, count: int) -> bool:
    return len(await place.query("select 1 from wakeful_process where state = 'alive'")) == count
