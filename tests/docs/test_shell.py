"""The examples are only as good as what compares them."""

from __future__ import annotations

import pytest

from docs.pages import Page
from docs.shell import commands, matches


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        (["accepted T-1 → run …"], ["accepted T-1 → run 0f9e11ba70"]),
        (["run  agent   state"], ["run         agent  state"]),
        (["a … z"], ["a z"]),
        (["first", "…"], ["first"]),
        (["first", "…", "last"], ["first", "something", "else", "last"]),
        (["done in …", "└── output 1"], ["done in 3 ms", "└── output 1"]),
    ],
)
def test_what_matches(expected: list[str], lines: list[str]):
    assert matches(expected, lines)


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        (["accepted T-1"], ["duplicate T-1"]),
        (["accepted T-1"], ["accepted T-1", "and more"]),
        (["first", "second"], ["first"]),
        (["a … z"], ["a", "z"]),
        (["a.c"], ["abc"]),
        (["…", "last"], ["last", "but one"]),
        (["first"], []),
    ],
)
def test_what_does_not_match(expected: list[str], lines: list[str]):
    assert not matches(expected, lines)


def test_commands_are_told_from_what_they_print():
    block = "$ wakeful emit app.py \\\n    done\naccepted\n\n…\n$ cd there\n"
    assert list(commands(block)) == [("wakeful emit app.py done", ["accepted", "…"]), ("cd there", [])]


def test_a_page_is_taken_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("docs.pages.ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(
        "# Title\n\n```python no-run\n# app.py\nx = 1\n```\n\n```text\n1\n```\n\n## Next: one\n\n[a](b.md#c) `[d](e)`\n\n"
        "| head | two |\n|---|---|\n| `a\\|b` | c |\n\n| other |\n|---|\n| d |\n"
    )
    page = Page(path)
    first, second = page.blocks
    assert (first.language, first.flags, first.file_name, first.line) == ("python", frozenset({"no-run"}), "app.py", 4)
    assert second.adjoins
    assert page.headings == ["Title", "Next: one"]
    assert page.anchors == {"title", "next-one"}
    assert page.links == ["b.md#c"]
    assert page.table("Next: one") == [["`a|b`", "c"]]
