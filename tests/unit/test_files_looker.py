"""Looking at files, with time in the test's hand: whatever happens to them, the events are those of a simple model."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.files.ledger import FileChange, FileLedger, known_of
from wakeful.triggers.files.looker import Looker
from wakeful.triggers.files.pattern import read_pattern
from wakeful.triggers.files.seen import FilesSeen
from wakeful.triggers.files.watcher import ADDED, DELETED, MODIFIED, Hints
from wakeful.triggers.source import SourceTrouble


@dataclass
class Desk:
    """A folder, someone who looks at it, and what was stored of that."""

    folder: Path
    pattern: str = "**/*.md"
    settle: float = 10.0
    now: float = 1000.0
    items: dict[str, Item] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.looker = Looker(
            read_pattern(f"{self.folder}/{self.pattern}"),
            FileLedger.of(self.items.values()),
            settle=self.settle,
            times=lambda: (self.now, time.time()),
            **self.options,
        )
        self.looker.open()

    def look(self, *hints: tuple[int, str], everything: bool = False) -> FilesSeen:
        """What is seen is stored."""
        whole: Hints = {(what, str(self.folder / path)) for what, path in hints}
        seen = self.looker.look(whole, everything=everything)
        self.items |= seen.items
        self.told += [said(change) for change in seen.changes]
        return seen

    def wait(self) -> None:
        """As long as it takes until everything is complete."""
        self.look(everything=True)
        while self.looker.waiting:
            self.now += self.settle + 0.1
            self.look()

    def write(self, path: str, content: str) -> None:
        whole = self.folder / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(content)


def said(change: FileChange) -> str:
    return f"{change.operation} {change.path}@{change.version}"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_file_is_told_when_it_has_stayed_as_it_is(desk: Desk):
    desk.look()
    desk.write("a.md", "1")
    desk.look((ADDED, "a.md"))
    desk.now += 6
    desk.write("a.md", "12")
    desk.look((MODIFIED, "a.md"))
    desk.now += 6
    desk.look()
    assert desk.told == []
    desk.now += 6
    desk.look()
    assert desk.told == ["created a.md@1"]


def test_a_file_that_was_complete_elsewhere_is_told_at_once(desk: Desk):
    desk.look()
    desk.write("a.part", "1")
    long_ago = time.time() - 60
    os.utime(desk.folder / "a.part", (long_ago, long_ago))
    (desk.folder / "a.part").rename(desk.folder / "a.md")
    desk.look((ADDED, "a.md"))
    assert desk.told == ["created a.md@1"]


def test_a_file_that_was_just_written_and_then_renamed_is_told_at_once(desk: Desk):
    desk.look()
    for name in ("a", "b"):
        desk.write(f"{name}.part", "1")
        just_now = time.time() - 1
        os.utime(desk.folder / f"{name}.part", (just_now, just_now))
        (desk.folder / f"{name}.part").rename(desk.folder / f"{name}.md")
    desk.look((DELETED, "a.part"), (ADDED, "a.md"))
    assert desk.told == ["created a.md@1"]
    desk.look((ADDED, "b.md"))  # perhaps it is still being written: nobody has heard of another name
    assert desk.told == ["created a.md@1"]
    desk.wait()
    assert desk.told == ["created a.md@1", "created b.md@1"]


def test_on_a_network_its_time_is_not_believed(tmp_path: Path):
    desk = Desk(tmp_path, options={"walk_every": 5.0})
    desk.write("a.md", "1")
    ago = time.time() - 60
    os.utime(tmp_path / "a.md", (ago, ago))
    desk.look(everything=True)
    assert desk.told == []
    desk.now += 11
    desk.look()
    assert desk.told == ["created a.md@1"]


def test_a_file_that_is_away_for_a_moment_has_changed_and_if_it_is_the_same_it_was_put_there_again(desk: Desk):
    desk.write("a.md", "1")
    desk.wait()
    (desk.folder / "a.md").unlink()
    desk.write("a.md", "2")
    desk.look((DELETED, "a.md"), (ADDED, "a.md"))
    desk.wait()
    (desk.folder / "a.md").unlink()
    desk.write("a.md", "2")
    desk.look((DELETED, "a.md"), (ADDED, "a.md"))
    desk.wait()
    assert desk.told == ["created a.md@1", "changed a.md@2", "deleted a.md@3", "created a.md@4"]


def test_a_change_within_the_same_tick_of_the_clock_is_found(tmp_path: Path):
    desk = Desk(tmp_path, settle=0.0)
    desk.write("a.md", "1")
    times = (tmp_path / "a.md").stat()
    desk.wait()
    desk.write("a.md", "2")
    os.utime(tmp_path / "a.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    desk.wait()
    assert desk.told == ["created a.md@1", "changed a.md@2"]


def test_a_folder_that_goes_takes_its_files_along_and_one_that_comes_brings_them(desk: Desk):
    desk.write("in/x/a.md", "1")
    desk.write("in/x/b.md", "1")
    desk.wait()
    (desk.folder / "in").rename(desk.folder / "out")
    desk.look((DELETED, "in"), (ADDED, "out"))
    desk.now += 11
    desk.look()
    assert sorted(desk.told[2:]) == [
        "created out/x/a.md@1",
        "created out/x/b.md@1",
        "deleted in/x/a.md@2",
        "deleted in/x/b.md@2",
    ]


def test_a_vanished_folder_is_no_removal(desk: Desk):
    desk.write("a.md", "1")
    desk.wait()
    away = desk.folder.with_name("away")
    desk.folder.rename(away)
    with pytest.raises(SourceTrouble, match="is missing: create it, mount it or correct the pattern"):
        desk.look()
    with pytest.raises(SourceTrouble, match="do not count as deleted"):
        desk.start()
    desk.folder.mkdir()
    with pytest.raises(SourceTrouble, match="was replaced by another"):
        desk.looker.look(set())
    desk.folder.rmdir()
    away.rename(desk.folder)
    desk.write("b.md", "1")
    desk.start()
    desk.wait()
    assert desk.told == ["created a.md@1", "created b.md@1"]


def test_a_disk_that_is_not_mounted_has_not_lost_its_files(desk: Desk):
    desk.options = {"mount": str(desk.folder)}
    with pytest.raises(SourceTrouble, match="nothing is mounted at"):
        desk.start()
    (desk.folder / "any").write_text("")
    desk.start()
    assert desk.look().mount is not None


def test_what_cannot_be_read_is_said_once_and_the_rest_goes_on(desk: Desk):
    (desk.folder / "loop.md").symlink_to(desk.folder / "loop.md")
    desk.write("a.md", "1")
    odd = os.fsencode(desk.folder) + b"/\xff.md"
    Path(os.fsdecode(odd)).write_text("1")
    refused = []
    for _ in range(3):
        seen = desk.look(everything=True)
        refused += seen.unreadable
        desk.now += 11
    assert desk.told == ["created a.md@1"]
    assert sorted(one.raw for one in refused) == sorted([odd, os.fsencode(desk.folder / "loop.md")])
    words = " ".join(one.reason for one in refused)
    assert r"\xff.md has a name that is not UTF-8: rename it" in words
    assert "loop.md is a link" in words
    Path(os.fsdecode(odd)).rename(desk.folder / "b.md")
    desk.wait()
    assert desk.told == ["created a.md@1", "created b.md@1"]


def test_what_is_there_at_first_can_be_taken_as_known(tmp_path: Path):
    desk = Desk(tmp_path, options={"known_already": True})
    for name in ("a.md", "b.md"):
        desk.write(name, "1")
        os.utime(tmp_path / name, (1, 1))
    desk.write("c.md", "is written right now")
    desk.look()
    assert desk.told == []
    desk.write("a.md", "2")
    desk.wait()
    assert sorted(desk.told) == ["changed a.md@2", "created c.md@1"]


def test_an_item_says_all_that_is_known():
    for text in ("1 2 3 4 sha256:00", "1 2 3 4 sha256:00 ?"):
        item = Item("a.md", 7, text, gone=True)
        assert known_of(item).item("a.md") == item


NAMES = ("a.md", "b.md", "x/a.md", "x/y/b.md")
names = some.sampled_from(NAMES)
deeds = some.one_of(
    some.tuples(some.just("write"), names, some.sampled_from("12")),
    some.tuples(some.just("touch"), names),
    some.tuples(some.just("delete"), names),
    some.tuples(some.just("rename"), names, names),
    some.tuples(some.sampled_from(["look", "restart", "die"])),
)


@dataclass
class Model:
    """What is there, and what was told of it."""

    there: dict[str, str] = field(default_factory=dict)
    known: dict[str, tuple[int, str | None]] = field(default_factory=dict)

    def look(self) -> list[str]:
        told = []
        for path in NAMES:
            version, before = self.known.get(path, (0, None))
            now = self.there.get(path)
            if now != before:
                what = "created" if before is None else "deleted" if now is None else "changed"
                told.append(f"{what} {path}@{version + 1}")
                self.known[path] = (version + 1, now)
        return told


@pytest.fixture(scope="module")
def folders() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@given(some.lists(deeds, max_size=30), some.sampled_from([0.0, 10.0]))
@settings(max_examples=150, deadline=None)
def test_events_are_those_of_the_model(folders: Path, done: list[tuple[str, ...]], settle: float):
    with tempfile.TemporaryDirectory(dir=folders) as folder:
        desk, model = Desk(Path(folder), settle=settle), Model()
        for what, *which in [*done, ("look",)]:
            path = desk.folder / which[0] if which else desk.folder
            if what == "write":
                desk.write(*which)
                model.there[which[0]] = which[1]
            elif what == "look":
                desk.told.clear()
                desk.wait()
                assert sorted(desk.told) == sorted(model.look())
            elif what == "restart":
                desk.start()
            elif what == "die":  # after looking, before anything of it is stored
                desk.looker.look(set(), everything=True)
                desk.now += settle + 1
                desk.looker.look(set())
                desk.start()
            elif which[0] in model.there:
                if what == "touch":
                    os.utime(path)
                elif what == "delete":
                    path.unlink()
                    del model.there[which[0]]
                elif what == "rename":
                    (desk.folder / which[1]).parent.mkdir(parents=True, exist_ok=True)
                    path.rename(desk.folder / which[1])
                    model.there[which[1]] = model.there.pop(which[0])
