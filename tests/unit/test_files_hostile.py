"""Files that are put there to be misread: links, huge ones, pipes, and names that change between a look and the reading."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from wakeful import ConfigError, files
from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.files.contents import open_file
from wakeful.triggers.files.ledger import FileLedger
from wakeful.triggers.files.looker import Looker
from wakeful.triggers.files.pattern import read_pattern
from wakeful.triggers.files.seen import FilesSeen
from wakeful.triggers.files.watcher import MODIFIED

TERABYTE = 1 << 40
LONG_AGO = 1_000_000_000


class Desk:
    """A folder and one who looks at it. What is seen is kept, as a store would keep it."""

    def __init__(self, folder: Path, pattern: str = "**/*.md", **options: Any) -> None:
        self.folder = folder
        self.pattern = pattern
        self.options = options
        self.now = 1000.0
        self.items: dict[str, Item] = {}
        self.told: list[str] = []
        self.refused: list[str] = []
        self.start()

    def start(self) -> None:
        self.looker = Looker(
            read_pattern(f"{self.folder}/{self.pattern}"),
            FileLedger.of(self.items.values()),
            settle=1.0,
            times=lambda: (self.now, time.time()),
            **self.options,
        )
        self.looker.open()

    def look(self, *changed: str, everything: bool = True) -> FilesSeen:
        self.now += 2.0
        seen = self.looker.look({(MODIFIED, str(self.folder / one)) for one in changed}, everything=everything)
        self.items |= seen.items
        self.told += [f"{change.operation} {change.path}@{change.version}" for change in seen.changes]
        self.refused += [one.reason for one in seen.unreadable]
        return seen

    def settle(self) -> None:
        """Some looks: what is small has been told by then."""
        for _ in range(4):
            self.look()

    def look_until(self, true: Callable[[], object]) -> None:
        """A slice takes a tenth of a second: how many it takes for a file depends on the machine."""
        for _ in range(1_000):
            if true():
                return
            self.look(everything=False)
        raise AssertionError(self.told)

    def write(self, path: str, content: str = "1") -> Path:
        whole = self.folder / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(content)
        return whole

    def huge(self, path: str, size: int = TERABYTE) -> Path:
        """A sparse file, and an old one: it is complete."""
        whole = self.folder / path
        with whole.open("wb") as file:
            file.truncate(size)
        os.utime(whole, (LONG_AGO, LONG_AGO))
        return whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "inbox"
    place.mkdir()
    return place


@pytest.fixture
def shadow(tmp_path: Path) -> Path:
    """A file that is none of the folder's business."""
    secret = tmp_path / "elsewhere" / "shadow.md"
    secret.parent.mkdir()
    secret.write_text("root:$6$…")
    return secret


# links


def test_a_link_is_not_followed_and_said_once(folder: Path, shadow: Path):
    (folder / "link.md").symlink_to(shadow)
    (folder / "sub").symlink_to(shadow.parent)
    desk = Desk(folder)
    desk.write("a.md")
    desk.settle()
    desk.look("link.md", "sub/shadow.md")
    desk.settle()
    assert desk.told == ["created a.md@1"]
    link, behind, sub = sorted(desk.refused, key=lambda words: ("link.md" not in words, "shadow" not in words))
    assert "inbox/link.md is a link, or is behind one, and links are not followed" in link
    assert "inbox/sub/shadow.md is a link, or is behind one" in behind
    assert "inbox/sub is a link to a folder, which is not entered" in sub
    (folder / "link.md").unlink()
    desk.write("link.md", "the file itself")
    desk.settle()
    assert desk.told == ["created a.md@1", "created link.md@1"]


def test_a_file_that_becomes_a_link_is_not_told_as_deleted(folder: Path, shadow: Path):
    desk = Desk(folder)
    path = desk.write("a.md")
    desk.settle()
    path.unlink()
    path.symlink_to(shadow)
    desk.settle()
    desk.look("a.md")
    desk.settle()
    assert desk.told == ["created a.md@1"]
    assert len(desk.refused) == 1
    path.unlink()
    desk.settle()
    assert desk.told == ["created a.md@1", "deleted a.md@2"]


def test_links_are_followed_if_that_is_wanted(folder: Path, shadow: Path):
    (folder / "link.md").symlink_to(shadow)
    (folder / "sub").symlink_to(shadow.parent)
    desk = Desk(folder, follow_links=True)
    desk.settle()
    assert desk.told == ["created link.md@1"]
    shadow.write_text("another")
    desk.settle()
    assert desk.told == ["created link.md@1", "changed link.md@2"]
    (words,) = desk.refused
    assert "inbox/sub is a link to a folder" in words


def test_the_folder_itself_may_be_a_link(tmp_path: Path, folder: Path):
    (tmp_path / "named").symlink_to(folder)
    desk = Desk(tmp_path / "named")
    desk.write("x/a.md")
    desk.settle()
    assert desk.told == ["created x/a.md@1"]


Swap = FunctionType  # of the path, and of what it is swapped for


def file_for_a_link(path: Path, shadow: Path) -> None:
    path.unlink()
    path.symlink_to(shadow)


def folder_for_a_link(path: Path, shadow: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(shadow.parent)


def file_for_a_pipe(path: Path, shadow: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("swap", [file_for_a_link, folder_for_a_link, file_for_a_pipe])
@pytest.mark.parametrize("size", [1, 20 << 20])
def test_what_is_swapped_between_the_look_and_the_opening_is_not_read(
    folder: Path, shadow: Path, monkeypatch: pytest.MonkeyPatch, swap: Swap, size: int
):
    (folder / "sub" / "x").mkdir(parents=True)
    desk = Desk(folder, "sub/**/*.md")
    path = desk.huge("sub/x/shadow.md", size)
    swapped: list[str] = []

    def swap_and_open(root: str, name: str, *, follow: bool) -> int:
        if not swapped:
            swapped.append(name)
            swap(path, shadow)
        return open_file(root, name, follow=follow)

    monkeypatch.setattr("wakeful.triggers.files.looker.open_file", swap_and_open)
    desk.settle()
    desk.settle()
    desk.look_until(lambda: not desk.looker.waiting)
    assert swapped == ["x/shadow.md"]
    assert desk.told == ([] if swap is not folder_for_a_link else ["created moved/shadow.md@1"])
    assert len(desk.refused) == {"file_for_a_link": 1, "folder_for_a_link": 2, "file_for_a_pipe": 0}[swap.__name__]


# sizes


def test_a_file_that_is_too_large_is_not_opened_and_listed_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch):
    desk = Desk(folder, max_size=50_000_000)
    path = desk.huge("a.md")
    opened: list[str] = []

    def note_and_open(root: str, name: str, *, follow: bool) -> int:
        opened.append(name)
        return open_file(root, name, follow=follow)

    monkeypatch.setattr("wakeful.triggers.files.looker.open_file", note_and_open)
    desk.settle()
    desk.settle()
    assert (desk.told, opened) == ([], [])
    (words,) = desk.refused
    assert "inbox/a.md is larger than max_size (50 MB) and is not read. Raise max_size, or remove it" in words
    os.truncate(path, 3)
    os.utime(path, (LONG_AGO, LONG_AGO))
    desk.settle()
    assert (desk.told, opened) == (["created a.md@1"], ["a.md"])


def test_a_known_file_that_grows_too_large_is_neither_changed_nor_deleted(folder: Path):
    desk = Desk(folder, max_size=100)
    path = desk.write("a.md")
    desk.settle()
    os.truncate(path, 101)
    desk.settle()
    assert desk.told == ["created a.md@1"]
    assert len(desk.refused) == 1
    os.truncate(path, 100)
    desk.settle()
    assert desk.told == ["created a.md@1", "changed a.md@2"]


def test_a_huge_file_holds_nobody_up(folder: Path):
    desk = Desk(folder)
    desk.huge("huge.md")
    desk.look()
    wanted: set[str] = set()
    tracemalloc.start()
    for number in range(3):
        desk.write(f"small-{number}.md")
        desk.huge(f"large-{number}.md", 20 << 20)
        desk.look()
        wanted.update({f"created {kind}-{number}.md@1" for kind in ("large", "small")})
        desk.look_until(lambda: set(desk.told) == wanted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(desk.told) == len(wanted)
    assert peak < 16 << 20
    assert (desk.looker.waiting, desk.looker.busy, desk.looker.next_at) == (1, True, 0.0)
    desk.looker.close()
    assert desk.looker.waiting == 0


def test_many_huge_files_get_their_turns_and_few_of_them_are_open(folder: Path):
    desk = Desk(folder)
    for number in range(30):
        desk.huge(f"{number}.md", TERABYTE - number)
    before = descriptors()
    for _ in range(40):
        desk.look(everything=False)
    assert descriptors() - before <= 9
    desk.huge("medium.md", 60 << 20)
    desk.look("medium.md", everything=False)
    desk.look_until(lambda: desk.told)
    assert desk.told == ["created medium.md@1"]
    desk.looker.close()
    assert descriptors() == before


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize("size", [TERABYTE + 1, TERABYTE - 1, 5])
def test_a_huge_file_that_changes_while_it_is_read_is_read_anew(folder: Path, size: int):
    desk = Desk(folder)
    path = desk.huge("a.md")
    desk.look()
    desk.look(everything=False)
    (large,) = desk.looker._large._files.values()
    assert large.contents is not None
    os.truncate(path, size)
    os.utime(path, (LONG_AGO, LONG_AGO))
    for _ in range(6):
        desk.look(everything=False)
    if size == 5:
        assert desk.told == ["created a.md@1"]
    else:
        (again,) = desk.looker._large._files.values()
        assert again.sight.size == size
        path.unlink()
        desk.settle()
        assert (desk.told, desk.looker.waiting) == ([], 0)
    desk.looker.close()


def test_a_large_file_that_was_there_at_first_is_no_news_and_known_once_it_is_read(folder: Path):
    desk = Desk(folder, known_already=True, max_size=TERABYTE)
    path = desk.huge("a.md", 100 << 20)
    desk.huge("too-large.md", TERABYTE + 1)
    desk.look()
    del desk.options["known_already"]
    desk.looker.close()
    desk.start()  # as after a crash, before it was read
    desk.look()
    desk.look_until(lambda: not desk.looker.waiting)
    path.touch()
    desk.look()
    desk.look_until(lambda: not desk.looker.waiting)
    assert (desk.told, desk.refused) == ([], [])
    os.truncate(path, 7)
    desk.settle()
    assert desk.told == ["changed a.md@2"]
    (folder / "too-large.md").touch()
    desk.settle()
    assert len(desk.refused) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_size": "big"}, "max_size: 'big' is not a size"),
        ({"max_size": 0}, "max_size: 0 is not a size"),
        ({"max_size": True}, "max_size: True is not a size"),
        ({"follow_links": "yes"}, "follow_links must be True or False, not 'yes'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        files("inbox/*.md", **options)
    assert files("inbox/*.md").max_size == 50_000_000
    assert files("inbox/*.md", max_size=None).max_size is None


async def test_a_single_file_that_is_a_link_is_told_by_check(folder: Path, shadow: Path):
    (folder / "current.md").symlink_to(shadow)
    (words,) = await files(f"{folder}/current.md").problems()
    assert "this is a link, and links are not followed: name the file itself, or add follow_links=True" in words
    assert await files(f"{folder}/current.md", follow_links=True).problems() == []
