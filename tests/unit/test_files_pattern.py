"""What a pattern of files means, and which patterns are refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from wakeful.errors import ConfigError
from wakeful.triggers.files import mounts
from wakeful.triggers.files.pattern import read_pattern
from wakeful.triggers.files.trigger import files
from wakeful.triggers.files.walk import walk


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("/in/*.md", ["a.md", "a b.md", "x.y.md", "ü.md"], ["a.txt", ".a.md", "sub/a.md", "a.md.part", ".md"]),
        ("/in/*", ["a", "a.md", "a.md~"], [".a", "sub/a"]),
        ("/in/.*", [".a", ".a.md"], ["a"]),
        ("/in/?.md", ["a.md", "é.md"], ["ab.md", "..md", ".md"]),
        ("/in/[abc].md", ["a.md", "c.md"], ["d.md", "ab.md"]),
        ("/in/[!abc]*.md", ["d.md", "dx.md"], ["a.md", ".d.md"]),
        ("/in/[a-c][]x].md", ["a].md", "bx.md"], ["d].md", "ay.md"]),
        ("/in/[[]a[*].md", ["[a*.md"], ["a.md", "[ab.md"]),
        ("/in/**/*.md", ["a.md", "x/a.md", "x/y/z/a.md"], [".x/a.md", "x/.y/a.md", "x/a.txt"]),
        ("/in/**", ["a", "x/a", "x/y/a"], [".a", "x/.y/a"]),
        ("/in/*/new/**/r-*.csv", ["x/new/r-1.csv", "x/new/y/r-.csv"], ["r-1.csv", "x/r-1.csv", "x/old/r-1.csv"]),
        ("/in/**/a/**/b", ["a/b", "x/a/b", "a/x/b", "a/a/b", "x/a/y/z/b"], ["b", "a", "x/b", "a/b/c"]),
        ("/in/one.md", ["one.md"], ["two.md", "sub/one.md", "one.md~"]),
        ("/in/*a*b*a", ["aba", "xaxbxa", "abababa"], ["ab", "ba", "abab"]),
    ],
)
def test_what_fits(pattern: str, fitting: list[str], others: list[str]):
    read = read_pattern(pattern)
    assert read.root == "/in"
    assert [path for path in fitting if not read.fits(path)] == []
    assert [path for path in others if read.fits(path)] == []


def test_a_pattern_with_many_stars_is_quick():
    assert not read_pattern("/in/" + "*a" * 40 + "b").fits("a" * 255)


def test_relative_to_the_working_directory_and_to_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/of/mine")
    assert read_pattern("inbox/*.md").root == str(tmp_path / "inbox")
    assert read_pattern("*.md").root == str(tmp_path)
    assert read_pattern("./a/../inbox/./*.md").root == str(tmp_path / "inbox")
    assert read_pattern("../*.md").root == str(tmp_path.parent)
    assert read_pattern("~/inbox/*.md").root == "/home/of/mine/inbox"
    assert read_pattern(Path("inbox") / "a.md").whole == str(tmp_path / "inbox" / "a.md")
    assert read_pattern("/*.md").root == "/"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "the pattern must be text"),
        (None, "the pattern must be text"),
        (3, "the pattern must be text"),
        ("inbox/", 'this is a folder: write "inbox/*"'),
        ("..", "this is a folder"),
        ("a\0b", "cannot be printed"),
        ("*.{md,txt}", "one files(…) for each"),
        ("in/*/../x", '".." cannot follow a wildcard'),
        ("in/a**.md", '"**" stands for whole folders'),
        ("in/[abc.md", 'a "[" is not closed'),
        ("in/[z-a].md", "not a range of characters"),
        ("~nobody-of-that-name/x", "there is no user"),
        ("x" * 2000, "over 1,000 bytes"),
    ],
)
def test_what_is_refused(pattern: object, words: str):
    with pytest.raises(ConfigError, match=re.escape(words)):
        read_pattern(pattern)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"settle": "soon"}, "settle: 'soon' is not a duration"),
        ({"settle": -1}, "settle must be between"),
        ({"poll": "0s"}, "poll must be between"),
        ({"operations": ["create"]}, 'unknown operation "create". Did you mean "created"?'),
        ({"operations": []}, "operations is empty"),
        ({"shared": "yes"}, "shared must be True or False"),
        ({"where": "data."}, 'files("in/*")'),
        ({"data": 3}, "data must be a CEL expression"),
    ],
)
def test_options_that_are_refused(options: dict[str, object], words: str):
    with pytest.raises(ConfigError, match=re.escape(words)):
        files("in/*", **options)  # type: ignore[arg-type]


def test_a_walk_finds_what_the_pattern_means_and_enters_nothing_else(tmp_path: Path):
    for path in ("a.md", "x/a.md", "x/y/b.md", "x/.h/c.md", ".h/d.md", "x/a.txt", "z/y/e.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "broken.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "x" / "round").symlink_to(tmp_path)
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")

    def found(pattern: str, *, follow: bool = False) -> list[str]:
        return sorted(walk(read_pattern(f"{tmp_path}/{pattern}"), follow=follow).files)

    assert found("*.md") == ["a.md"]
    assert found("*.md", follow=True) == ["a.md", "link.md"]
    assert found("**/*.md") == ["a.md", "x/a.md", "x/y/b.md", "z/y/e.md"]
    assert found("**/*.md", follow=True) == ["a.md", "link.md", "x/a.md", "x/y/b.md", "z/y/e.md"]
    met = walk(read_pattern(f"{tmp_path}/**/*.md"))
    assert sorted(met.closed) == ["broken.md", "link.md", "x/round"]
    assert found("*/y/*.md") == ["x/y/b.md", "z/y/e.md"]
    assert found("x/*.md") == ["a.md"]
    assert sorted(walk(read_pattern(f"{tmp_path}/**/*.md"), "x").files) == ["x/a.md", "x/y/b.md"]


def test_what_it_says_of_itself():
    trigger = files("/in/*.md", operations="deleted", where="data.size > 3", shared=True)
    assert trigger.describe() == """files("/in/*.md", operations=['deleted'], shared=True, where="data.size > 3")"""
    assert trigger.type == "file.deleted"
    assert trigger.source == "/files/in/*.md"
    assert files("/in/*.md").source == f"/files/{os.uname().nodename}/in/*.md"
    assert files("/in/*.md") == files("/in/*.md")


def test_whose_file_system_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = tmp_path / "mounts"
    monkeypatch.setattr(mounts, "MOUNTS", str(table))
    place = mounts.mount_of(str(tmp_path))
    assert os.path.ismount(place)
    assert mounts.network_of(str(tmp_path)) is None  # nothing is known
    table.write_text(f"server:/share {place} nfs4 rw 0 0\n")
    assert mounts.network_of(str(tmp_path)) == "nfs4"
    table.write_text(f"server:/share {place} nfs4 rw 0 0\n/dev/sda1 {place} ext4 rw 0 0\n")
    assert mounts.network_of(str(tmp_path)) is None
