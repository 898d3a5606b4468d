"""Files as events, on both stores: watched while the app runs, compared when it starts, and none lost or told twice."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from support.apps import FOREVER, NewApp, working
from support.stores import query
from wakeful import App, ConfigError, Run, files
from wakeful.intake.quarantine import raw_of
from wakeful.runtime import Runtime
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.sources import StoredSource, find_source
from wakeful.triggers.files.reader import FilesReader
from wakeful.triggers.files.watcher import FolderWatcher, Hints
from wakeful.triggers.source import SourceTrouble
from wakeful.why import why

LONG_AGO = 1_000_000_000.0


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


class Desk:
    """An app with an agent that notes which files it was told of."""

    def __init__(self, new_app: NewApp, pattern: str, **options: Any) -> None:
        self.app: App = new_app(clock=None)
        self.told: list[str] = []
        self.data: list[dict[str, Any]] = []
        options.setdefault("settle", "0s")

        @self.app.agent(files(pattern, **options), name="note")
        async def note(run: Run) -> None:
            self.told.append(f"{run.event.type} {run.event.id}")
            self.data.append(run.event.data)

    async def tells(self, *words: str) -> None:
        """Wait until just this has been told, in whatever order."""
        await until(lambda: len(self.told) >= len(words))
        assert sorted(self.told) == sorted(words)


async def until(true: Callable[[], object], within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while not true():
            await asyncio.sleep(0.01)


async def the_source(runtime: Runtime) -> StoredSource:
    (name,) = runtime.sources.readings
    found = await find_source(runtime.store.database, "app", name)
    assert found is not None
    return found


async def in_state(runtime: Runtime, state: str) -> StoredSource:
    async with asyncio.timeout(30):
        while (found := await the_source(runtime)).state != state:
            await asyncio.sleep(0.01)
    return found


async def quarantined(runtime: Runtime) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await runtime.reader.events(state="quarantined", limit=100))["events"]
    return listed


def put(path: Path, text: str = "text") -> None:
    """A file that was complete long ago, moved into its place."""
    elsewhere = path.with_name(f".{path.name}.being-written")
    elsewhere.write_text(text)
    os.utime(elsewhere, (LONG_AGO, LONG_AGO))
    elsewhere.rename(path)


async def test_what_an_agent_is_told(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md")
    (inbox / "a.txt").write_text("not meant")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        put(inbox / "a.md", "first")
        await desk.tells("file.created a.md@1")
        assert desk.data[0] == {
            "path": f"{inbox}/a.md",
            "folder": str(inbox),
            "name": "a.md",
            "relative": "a.md",
            "change": "created",
            "version": 1,
            "size": 5,
            "modified": "2001-09-09T01:46:40Z",
            "digest": "sha256:a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e",
        }
        put(inbox / "a.md", "second")
        await desk.tells("file.created a.md@1", "file.changed a.md@2")
        (inbox / "a.md").unlink()
        await desk.tells("file.created a.md@1", "file.changed a.md@2", "file.deleted a.md@3")
        put(inbox / "a.md", "first")
        await until(lambda: len(desk.told) == 4)
        assert desk.told[-1] == "file.created a.md@4"
        found = await the_source(runtime)
        assert (found.kind, found.taken, found.repeated) == ("files", 4, 0)
        (event,) = (await runtime.reader.events(limit=1))["events"]
        assert event["source"] == f"/files/{os.uname().nodename}{inbox}/*.md"
        assert event["subject"] == f"{inbox}/a.md"


async def test_a_file_that_grows_is_one_event_when_it_is_complete(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md", settle="1h")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        (reading,) = runtime.sources.readings.values()
        reader = reading.reader
        assert isinstance(reader, FilesReader)
        with (inbox / "a.md").open("w") as file:
            for _ in range(20):
                file.write("a piece\n")
                file.flush()
                await until(lambda: reader.waiting)
        assert desk.told == []
        os.utime(inbox / "a.md", (LONG_AGO, LONG_AGO))  # as if it had been so for an hour
        await desk.tells("file.created a.md@1")
        assert desk.data[0]["size"] == 160


async def test_a_file_that_is_renamed_into_place_is_told_at_once(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md", settle="1h")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        put(inbox / "a.md")
        await desk.tells("file.created a.md@1")


async def test_a_new_time_is_no_news(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md")
    async with working(desk.app, reading="drained") as runtime:
        put(inbox / "a.md")
        await runtime.drain()
        os.utime(inbox / "a.md", (LONG_AGO + 1, LONG_AGO + 1))
        (inbox / "a.md").chmod(0o600)
        await runtime.drain()
        put(inbox / "a.md")  # another file with the same in it
        await runtime.drain()
        assert desk.told == ["file.created a.md@1"]


async def test_what_happened_while_nobody_looked_is_found_at_the_start(new_app: NewApp, inbox: Path):
    for name in ("stays.md", "changes.md", "goes.md"):
        put(inbox / name)
    first = Desk(new_app, f"{inbox}/*.md")
    async with working(first.app, reading="drained") as runtime:
        await runtime.drain()
        await first.tells(*(f"file.created {name}.md@1" for name in ("stays", "changes", "goes")))
    put(inbox / "changes.md", "other text")
    put(inbox / "comes.md")
    (inbox / "goes.md").unlink()
    again = Desk(new_app, f"{inbox}/*.md")
    async with working(again.app) as runtime:
        await in_state(runtime, "reading")
        await again.tells("file.changed changes.md@2", "file.created comes.md@1", "file.deleted goes.md@2")
        put(inbox / "goes.md")
        await until(lambda: "file.created goes.md@3" in again.told)


async def test_a_folder_that_is_not_there_is_an_alarm_and_recovers(new_app: NewApp, tmp_path: Path):
    inbox = tmp_path / "inbox"
    desk = Desk(new_app, f"{inbox}/*.md")
    async with working(desk.app) as runtime:
        failing = await in_state(runtime, "failing")
        assert failing.error is not None
        assert f"folder {inbox} is missing: create it, mount it or correct the pattern" in failing.error
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert alarm["text"] == failing.error
        inbox.mkdir()
        put(inbox / "a.md")
        await in_state(runtime, "reading")
        await desk.tells("file.created a.md@1")

        inbox.rename(tmp_path / "unmounted")
        await in_state(runtime, "failing")
        (tmp_path / "unmounted").rename(inbox)
        put(inbox / "b.md")
        await in_state(runtime, "reading")
        await desk.tells("file.created a.md@1", "file.created b.md@1")
        put(inbox / "c.md")
        await desk.tells(*(f"file.created {name}.md@1" for name in "abc"))
        assert not [one for one in (await runtime.reader.alarms())["alarms"] if one["state"] != "resolved"]


async def test_what_cannot_be_read_is_quarantined_and_the_rest_goes_on(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md")
    (inbox / "loop.md").symlink_to(inbox / "loop.md")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        put(inbox / "a.md")
        await until(lambda: desk.told)
        odd = inbox / os.fsdecode(b"\xff.md")
        put(odd)  # its name breaks the watch off, which must be taken up again
        put(inbox / "b.md")
        await until(lambda: len(desk.told) == 2)
        async with asyncio.timeout(30):
            while len(found := await quarantined(runtime)) < 2:
                await asyncio.sleep(0.01)
        reasons = sorted(one["reason"] for one in found)
        assert "loop.md is a link, or is behind one, and links are not followed" in reasons[1]
        assert r"\xff.md has a name that is not UTF-8: rename it" in reasons[0]
        await asyncio.to_thread(odd.rename, inbox / "c.md")
        (inbox / "loop.md").unlink()
        put(inbox / "loop.md")
        await desk.tells(*(f"file.created {name}.md@1" for name in ("a", "b", "c", "loop")))


async def settled(runtime: Runtime, **expected: str) -> None:
    """Until what is in quarantine is in these states, by the names of the files."""

    async def states() -> dict[str, str]:
        listed = (await runtime.reader.quarantine(limit=100))["quarantine"]
        return {one["reason"].split(".md ", 1)[0].rpartition("/")[2]: one["state"] for one in listed}

    async with asyncio.timeout(30):
        while await states() != expected:
            await asyncio.sleep(0.01)


async def test_a_file_that_was_told_or_is_gone_waits_for_nobody(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md", max_size=10)
    put(inbox / "big.md", "x" * 11)
    put(inbox / "large.md", "x" * 11)
    (inbox / "link.md").symlink_to("elsewhere")
    async with working(desk.app) as runtime:
        await settled(runtime, big="kept", large="kept", link="kept")
        (inbox / "link.md").unlink()
        await settled(runtime, big="kept", large="kept", link="discarded")
        put(inbox / "large.md", "small")
        await settled(runtime, big="kept", large="discarded", link="discarded")
    put(inbox / "big.md", "small")  # while no process looks
    desk = Desk(new_app, f"{inbox}/*.md", max_size=10)
    async with working(desk.app) as runtime:
        await settled(runtime, big="discarded", large="discarded", link="discarded")
        put(inbox / "big.md", "x" * 12)
        await settled(runtime, big="kept", large="discarded", link="discarded")
        (one,) = (await runtime.reader.quarantine(state="kept"))["quarantine"]
        assert (one["size"], one["settled_by"], one["came"]) == (0, None, 2)
        told = await why(runtime.reader, one["key"])
        assert told is not None
        assert "quarantine release" not in (story := " ".join(told["story"]))
        assert f"`wakeful quarantine discard {one['key']}` discards it now" in story


async def test_files_in_new_folders(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/**/*.md")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        (inbox / "x" / "y").mkdir(parents=True)
        put(inbox / "x" / "y" / "a.md")
        put(inbox / "x" / "b.md")
        await desk.tells("file.created x/y/a.md@1", "file.created x/b.md@1")
        (inbox / "x").rename(inbox / ".hidden")
        await until(lambda: len(desk.told) == 4)
        assert sorted(desk.told[2:]) == ["file.deleted x/b.md@2", "file.deleted x/y/a.md@2"]


async def test_looking_from_time_to_time(new_app: NewApp, inbox: Path):
    put(inbox / "a.md")
    desk = Desk(new_app, f"{inbox}/*.md", poll="100ms")
    async with working(desk.app):
        await desk.tells("file.created a.md@1")
        put(inbox / "b.md")
        (inbox / "a.md").unlink()
        await desk.tells("file.created a.md@1", "file.created b.md@1", "file.deleted a.md@2")


async def test_what_was_there_before_the_first_start_can_be_no_news(new_app: NewApp, inbox: Path):
    for name in ("a.md", "b.md"):
        put(inbox / name)
    desk = Desk(new_app, f"{inbox}/*.md", existing=False)
    async with working(desk.app, reading="drained") as runtime:
        await runtime.drain()
        assert desk.told == []
    put(inbox / "c.md")
    (inbox / "a.md").unlink()
    again = Desk(new_app, f"{inbox}/*.md", existing=False)
    async with working(again.app, reading="drained") as runtime:
        await runtime.drain()
        await again.tells("file.created c.md@1", "file.deleted a.md@2")


async def test_agents_share_a_pattern_or_have_their_own(new_app: NewApp, inbox: Path):
    app, told = new_app(), Counter[str]()

    def noting(name: str) -> Callable[[Run], Any]:
        async def note(run: Run) -> None:
            told[f"{name} {run.event.type} {run.event.data}"] += 1

        return note

    pattern = f"{inbox}/*.md"
    app.agent(files(pattern, settle=0, data="data.name"), name="all")(noting("all"))
    app.agent(files(pattern, settle=0, data="data.name", operations=["created", "deleted"]), name="some")(
        noting("some")
    )
    app.agent(files(pattern, settle=0, data="data.size", where="data > 3"), name="large")(noting("large"))
    app.agent(files(f"{inbox}/a.*", settle=0, data="data.name"), name="wide")(noting("wide"))
    async with working(app, reading="drained") as runtime:
        assert len(runtime.sources.readings) == 2
        put(inbox / "a.md", "123")
        await runtime.drain()
        put(inbox / "a.md", "1234")
        put(inbox / "a.txt")
        await runtime.drain()
        (inbox / "a.md").unlink()
        await runtime.drain()
    words = [
        *(f"{name} file.{what} a.md" for name in ("all", "wide") for what in ("created", "changed", "deleted")),
        *(f"some file.{what} a.md" for what in ("created", "deleted")),
        *(f"large file.{what} 4" for what in ("changed", "deleted")),
        "wide file.created a.txt",
    ]
    assert told == Counter(words)


async def test_what_data_cannot_make_sense_of_is_kept_and_can_be_read_again(new_app: NewApp, inbox: Path):
    fixed = False

    def month(data: dict[str, Any]) -> str:
        found = re.search(r"-(\d\d)\.md$" if not fixed else r"-(\d+)\.md$", data["name"])
        if found is None:
            message = "there is no month in its name"
            raise ValueError(message)
        return found[1]

    desk = Desk(new_app, f"{inbox}/*.md", data=month)
    async with working(desk.app, reading="drained") as runtime:
        put(inbox / "report-07.md")
        put(inbox / "report-8.md")
        await runtime.drain()
        assert desk.data == ["07"]
        (kept,) = await quarantined(runtime)
        assert "there is no month in its name" in kept["reason"]
        fixed = True
        (reading,) = runtime.sources.readings.values()
        assert isinstance(reading.reader, FilesReader)
        ((envelope, headers),) = await query(
            runtime.url, "select envelope, headers from wakeful_quarantine join wakeful_event on seq = event_seq"
        )
        (event,) = reading.reader.read_again(raw_of(envelope), from_json(headers))
        assert (event.id, event.type, event.data) == ("report-8.md@1", "file.created", "8")
        with pytest.raises(SourceTrouble, match="reported by itself"):
            reading.reader.read_again(b"/x", {})


async def test_triggers_of_one_pattern_must_agree_on_how_it_is_read(new_app: NewApp, inbox: Path):
    app = new_app()
    app.agent(files(f"{inbox}/*.md", settle="1s"), name="a")(lambda run: None)
    app.agent(files(f"{inbox}/*.md", settle="2s"), name="b")(lambda run: None)
    with pytest.raises(ConfigError, match="must agree on settle, poll, existing, follow_links and max_size"):
        Runtime(app)


async def test_functions_that_go_by_one_name_are_refused(new_app: NewApp, inbox: Path):
    app = new_app()
    app.agent(files(f"{inbox}/*.md", data=lambda data: data["path"]), name="a")(lambda run: None)
    app.agent(files(f"{inbox}/*.md", data=lambda data: data["name"]), name="b")(lambda run: None)
    with pytest.raises(ConfigError, match="give each a name of its own"):
        Runtime(app)


async def test_what_is_in_the_way_is_said_when_asked(inbox: Path):
    assert await files(f"{inbox}/*.md").problems() == []
    (problem,) = await files(f"{inbox}/nowhere/*.md").problems()
    assert f"folder {inbox}/nowhere is missing: create it" in problem
    (inbox / "folder").mkdir()
    (problem,) = await files(inbox / "folder").problems()
    assert f'this is a folder: write "{inbox}/folder/*"' in problem


async def test_a_burst_that_is_watched_is_told_to_the_last_file(new_app: NewApp, inbox: Path):
    desk = Desk(new_app, f"{inbox}/*.md")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        for number in range(2_000):
            put(inbox / f"{number}.md", str(number))
            if not number % 100:
                await asyncio.sleep(0)
        await until(lambda: len(desk.told) >= 2_000, within=60)
        assert len(set(desk.told)) == len(desk.told) == 2_000


@pytest.mark.slow
async def test_ten_thousand_files_with_a_death_in_the_middle(new_app: NewApp, inbox: Path):
    many = 10_000
    for number in range(many):
        path = inbox / f"{number}.md"
        path.write_text(str(number))
        os.utime(path, (LONG_AGO, LONG_AGO))
    first = Desk(new_app, f"{inbox}/*.md")
    doomed = Runtime(first.app, lease=FOREVER, reading="drained")
    await doomed.open(migrate=True)
    await doomed.start()
    (reading,) = doomed.sources.readings.values()
    for _ in range(4):
        assert await reading.take(0.0) == 0.0
    assert await reading.reader.read(0.0) is not None  # and dies before that is stored
    dead = doomed.membership.process
    await doomed.die()
    again = Desk(new_app, f"{inbox}/*.md")
    async with working(again.app, reading="drained") as runtime:
        await runtime.store.do(BuryProcess(dead, certain=True))
        for number in range(0, many, 10):  # meanwhile
            (inbox / f"{number}.md").unlink()
        await runtime.drain()
        found = await the_source(runtime)
    told = Counter(first.told + again.told)
    created = [word for word in told if word.startswith("file.created")]
    deleted = {word.split()[1].removesuffix("@2") for word in told if word.startswith("file.deleted")}
    assert found.repeated == 0
    assert found.taken == len(created) + len(deleted)
    # What was gone before it was ever stored was never there.
    never = {f"{number}.md" for number in range(0, many, 10)} - deleted
    assert {word.split()[1] for word in created} == {f"{n}.md@1" for n in range(many) if f"{n}.md" not in never}
    assert len(never) <= many // 10
    rows = await query(
        runtime.url, "select count(*), count(distinct id) from wakeful_event where source like '/files%'"
    )
    assert tuple(rows[0]) == (found.taken, found.taken)
    states = await query(runtime.url, "select state, count(*) from wakeful_run group by state")
    assert [tuple(row) for row in states] == [("done", found.taken)]


def test_an_async_function_for_data_is_refused(inbox: Path):
    async def ask(data: Any) -> Any:
        return data

    with pytest.raises(ConfigError, match="data is an async function"):
        files(f"{inbox}/*.md", data=ask)


async def test_a_link_to_a_folder_is_not_even_watched(tmp_path: Path, inbox: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (inbox / "sub").mkdir()
    (inbox / "link").symlink_to(outside)
    heard: Hints = set()
    missed: list[None] = []

    def hear(hints: Hints | None) -> None:
        heard.update(hints or ())
        missed.extend([None] if hints is None else [])

    watcher = FolderWatcher(str(inbox), deep=True, heard=hear)
    await watcher.start()
    try:
        (outside / "a.md").write_text("1")
        (inbox / "sub" / "a.md").write_text("1")
        await until(lambda: str(inbox / "sub" / "a.md") in {path for _, path in heard})
        (inbox / "new").mkdir()
        await until(lambda: missed)  # a folder that has to be watched, too
        (outside / "b.md").write_text("1")
        (inbox / "new" / "b.md").write_text("1")
        await until(lambda: str(inbox / "new" / "b.md") in {path for _, path in heard})
    finally:
        await watcher.stop()
    assert not [path for _, path in heard if "/link/" in path or "outside" in path]


async def test_files_in_new_folders_beside_a_link_to_everything(new_app: NewApp, inbox: Path):
    (inbox / "all").symlink_to("/")
    desk = Desk(new_app, f"{inbox}/**/*.md")
    async with working(desk.app) as runtime:
        await in_state(runtime, "reading")
        (inbox / "x" / "y").mkdir(parents=True)
        put(inbox / "x" / "y" / "a.md")
        await until(lambda: desk.told)
        put(inbox / "x" / "y" / "b.md")
        await desk.tells("file.created x/y/a.md@1", "file.created x/y/b.md@1")
        (kept,) = await quarantined(runtime)
        assert "is a link to a folder, which is not entered" in kept["reason"]
