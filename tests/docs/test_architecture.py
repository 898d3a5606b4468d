"""The map of the code names rooms, files and functions that are there."""

from __future__ import annotations

import ast
import re

import pytest

from docs.pages import ROOT, page

MAP = page("docs/architecture.md")
SOURCE = ROOT / "src" / "wakeful"
LIFE = MAP.table("The life of one event")


def functions_of(path: str) -> set[str]:
    tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
    found = {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    for one in tree.body:
        if isinstance(one, ast.ClassDef):
            found |= {
                f"{one.name}.{each.name}"
                for each in one.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


@pytest.mark.parametrize(("file", "function"), [(row[1].strip("`"), row[2].strip("`")) for row in LIFE])
def test_the_life_of_an_event_names_functions_that_are_there(file: str, function: str):
    assert function in functions_of(file)


def test_every_room_is_on_the_map():
    rooms = {one.name for one in SOURCE.iterdir() if (one / "__init__.py").exists()}
    shown = set(re.findall(r"\b([a-z]+)/(?=\s)", MAP.section("Rooms")))
    assert rooms == shown - {"wakeful"}


def test_files_that_are_named_are_there():
    for name in re.findall(r"`((?:\w+/)+\w+\.py|(?:\w+/)+)`", MAP.text):
        assert (SOURCE / name).exists(), name
