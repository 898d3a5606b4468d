"""`wakeful remind` and `wakeful reminders`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.conftest import Wakeful

APP = """
from wakeful import App
from wakeful.channels import log

app = App("desk", channels={"ops": log(), "reminders": log()})
"""


@pytest.fixture
def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WAKEFUL_APP", raising=False)
    monkeypatch.delenv("WAKEFUL_TIME_ZONE", raising=False)
    (folder / "app.py").write_text(APP)
    return folder


def made(wakeful: Wakeful, *words: str) -> str:
    return str(wakeful("remind", *words, "--json").json["id"])


def test_making_one_says_what_was_understood(desk: Path, wakeful: Wakeful):
    result = wakeful("remind", "in 20 minutes", "call the bank", "--tz", "Europe/London", "--as", "ada")
    words = r"reminder r-\w{6}: call the bank, on \w{3} \d+ \w{3} \d{4} \d\d:\d\d(:\d\d)? Europe/London \(in (20|19) m \d+ s\)\n"
    assert re.fullmatch(words, result.out), result.out
    assert "no worker is alive on this store" in result.err
    (shown,) = wakeful("reminders", "--json").json["reminders"]
    assert (shown["text"], shown["to"], shown["zone"]) == ("call the bank", "reminders", "Europe/London")
    assert (shown["made_by"], shown["state"], shown["app"]) == ("ada", "pending", "desk")


def test_one_that_may_be_needless(desk: Path, wakeful: Wakeful):
    result = wakeful(
        *("remind", "tomorrow 3pm", "CI has not passed", "--to", "ops"),
        *("--unless-event", "ci.passed", "--where", 'data.branch == "main"'),
    )
    assert result.out.endswith(", unless ci.passed has come by then\n")
    (shown,) = wakeful("reminders", "--json").json["reminders"]
    assert (shown["unless"], shown["where"], shown["to"]) == ("ci.passed", 'data.branch == "main"', "ops")


def test_the_zone_of_the_settings_counts(desk: Path, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "America/New_York")
    assert "09:00 America/New_York (in" in wakeful("remind", "tomorrow 9am", "tea").out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("at 3", "x"), '"at 3" has "3": 3 am or 3 pm? Write "at 3am" or "at 3pm"'),
        (("2020-01-01 09:00", "x"), "(2020-01-01 09:00 UTC) is past"),
        (("03/04 9:00", "x"), "the day first, or the month?"),
        (("tomorrow 9am", "x", "--to", "oops"), 'app desk has no channel "oops". Did you mean "ops"?'),
        (("tomorrow 9am", "x", "--tz", "London"), "there is no zone 'London'"),
        (("tomorrow 9am", "x", "--where", "data.x"), "name its type with unless="),
        (("tomorrow 9am", "x", "--unless-event", "a", "--where", "data.x =="), 'reminder: "data.x =="'),
        (("tomorrow 9am", "  "), "its text must have 1 to"),
    ],
)
def test_what_cannot_be_meant_is_refused(desk: Path, wakeful: Wakeful, words: tuple[str, ...], complaint: str):
    assert complaint in wakeful("remind", *words, code=1).err
    assert "no reminders yet" in wakeful("reminders").out


def test_without_an_app_it_is_refused(folder: Path, wakeful: Wakeful, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WAKEFUL_APP", raising=False)
    assert "which app? Give --app app.py" in wakeful("remind", "tomorrow 9am", "tea", code=2).err
    assert "TEXT is missing" in wakeful("remind", "tomorrow 9am", code=2).err


def test_the_one_app_of_a_store_needs_no_code(desk: Path, wakeful: Wakeful):
    wakeful("once", "app.py")
    (desk / "app.py").rename(desk / "desk.py")
    said = wakeful("remind", "in 20 minutes", "call the bank")
    assert said.out.startswith("reminder r-")
    assert "start `wakeful serve APP`; if it starts after" in said.err
    (shown,) = wakeful("reminders", "--json").json["reminders"]
    assert (shown["app"], shown["to"], shown["text"]) == ("desk", "reminders", "call the bank")
    (desk / "other.py").write_text(APP.replace('"desk"', '"other"'))
    wakeful("once", "other.py")
    assert "This store has several apps: desk, other." in wakeful("remind", "in 20 minutes", "x", code=2).err


def test_making_one_as_a_word_of_the_noun(desk: Path, wakeful: Wakeful):
    shown = wakeful("reminders", "make", "in 20 minutes", "tea", "--id", "tea-1", "--app", "app.py", "--json").json
    assert (shown["id"], shown["to"], shown["state"]) == ("tea-1", "reminders", "pending")
    wakeful("once", "app.py")
    again = wakeful("reminders", "make", "in 20 minutes", "tea", "--id", "tea-1").out
    assert again.startswith("reminder tea-1: tea, on ")
    (desk / "other.py").write_text(APP.replace('"desk"', '"other"'))
    wakeful("once", "other.py")
    refused = wakeful("reminders", "make", "in 20 minutes", "x", code=2).err
    assert "this store has several apps (desk, other): choose one with --app NAME" in refused


def test_moving_and_cancelling(desk: Path, wakeful: Wakeful):
    first, second = made(wakeful, "tomorrow 9am", "first"), made(wakeful, "tomorrow 9am", "second", "--app", "app.py")
    moved = wakeful("reminders", "move", first, "in 2 hours", "--note", "busy", "--as", "ben")
    assert moved.out.startswith(f"reminder {first}: first, on ")
    assert "UTC (in 2 h 0 m)" in moved.out or "UTC (in 1 h 59 m)" in moved.out
    assert wakeful("reminders", "cancel", second[:6]).out == f"reminder {second} is cancelled: second\n"
    story = wakeful("reminders", "show", first).out
    assert "ben moved it to" in story
    assert "(busy)" in story
    assert f"`wakeful reminders cancel {first}` cancels it" in story
    assert wakeful("why", first).out == story
    assert [one["verb"] for one in wakeful("reminders", "show", first, "--json").json["history"]] == ["add", "move"]
    listed = wakeful("reminders", "--state", "cancelled").out
    assert second in listed
    assert "(cancelled by " in listed
    assert first not in listed
    assert f"reminder {second} cannot be moved" in wakeful("reminders", "move", second, "in 2 hours", code=1).err
    assert "is past" in wakeful("reminders", "move", first, "2020-01-01 09:00", code=1).err


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("lst",), 2, 'there is no "reminders lst". Did you mean "list"?'),
        (("move", "r-abc"), 2, "reminders takes list, show ID, move ID WHEN or cancel ID"),
        (("cancel", "r-nothing"), 1, 'there is no reminder "r-nothing"'),
        (("--state", "asleep"), 2, 'no state "asleep"'),
        (("--after", "x"), 2, "not a cursor"),
    ],
)
def test_called_the_wrong_way(desk: Path, wakeful: Wakeful, words: tuple[str, ...], code: int, complaint: str):
    made(wakeful, "tomorrow 9am", "tea")
    assert complaint in wakeful("reminders", *words, code=code).err


def test_those_of_one_app_page_by_page(desk: Path, wakeful: Wakeful):
    ids = [made(wakeful, "tomorrow 9am", f"tea {number}") for number in range(3)]
    page = wakeful("reminders", "--of", "desk", "--limit", "2", "--json").json
    assert [one["id"] for one in page["reminders"]] == [ids[2], ids[1]]
    assert ids[0] in wakeful("reminders", "--limit", "2", "--after", page["next"]).out
    assert wakeful("reminders", "--of", "other").out == "no matching reminders\n"
