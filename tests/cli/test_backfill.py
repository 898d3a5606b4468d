"""`wakeful backfill`, and `wakeful once` with schedules: by what they print, and what is there afterwards."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

APP = """
import os
from datetime import datetime

from wakeful import App, Run, VirtualClock, every, on

app = App("desk", clock=VirtualClock(datetime.fromisoformat(os.environ.get("NOW", "2026-01-02T12:00:30+00:00"))))


@app.agent(every("1h"), name="report")
async def report(run: Run) -> str:
    return run.scheduled_for.isoformat()


@app.agent(every("1h"), every("2h", name="slow"), name="two")
async def two(run: Run) -> None: ...


@app.agent(on("x"), name="none")
async def none(run: Run) -> None: ...
"""
DAY = ("--from", "2026-01-01", "--to", "2026-01-02")


@pytest.fixture
def desk(folder: Path) -> Path:
    (folder / "app.py").write_text(APP)
    return folder


def test_days_are_said_as_people_say_them(wakeful, desk, monkeypatch):
    told = wakeful("backfill", "report", "--from", "yesterday", "--to", "today", "--plan", "--json").json
    assert (told["instants"], told["first"]) == (24, "2026-01-01T00:00:00Z")
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "Asia/Kolkata")
    told = wakeful("backfill", "report", "--from", "yesterday", "--to", "today", "--plan", "--json").json
    assert (told["instants"], told["first"]) == (24, "2025-12-31T19:00:00Z")


def test_a_plan_counts_and_does_nothing(wakeful, desk):
    told = wakeful("backfill", "app.py", "report", *DAY, "--plan").out
    assert told.startswith(
        "would run 24 occurrences as fast as workers finish them, from 2026-01-01T00:00:00Z to 2026-01-01T23:00:00Z; 0 of 24 are already done\n"
        "  schedule report from 2026-01-01T00:00:00Z until 2026-01-02T00:00:00Z: every("
    )
    assert wakeful("backfill", "app.py", "report", *DAY, "--plan", "--json").json == {
        "agent": "report",
        "schedule": "report",
        "instants": 24,
        "done": 0,
        "new": 24,
        "first": "2026-01-01T00:00:00Z",
        "last": "2026-01-01T23:00:00Z",
        "to_come": 0,
    }
    assert wakeful("runs", "--json").json["runs"] == []


def test_what_is_done_is_passed_over(wakeful, desk):
    first = wakeful("backfill", "app.py", "report", "--from", "2026-01-01T20:00Z", *DAY[2:], "--as", "ada")
    assert first.out == (
        "4 of 4 occurrences became runs of agent report, 0 were already done: "
        "schedule report from 2026-01-01T20:00:00Z until 2026-01-02T00:00:00Z\n"
    )
    assert "no worker is alive" in first.err
    again = wakeful("backfill", "app.py", "report", *DAY, "--json", "--note", "the rest").json
    assert again == {
        "agent": "report",
        "schedule": "report",
        "made": 20,
        "of": 20,
        "done": 4,
        "denied": 0,
        "stopped": False,
    }
    assert wakeful("once", "app.py").out == "wakeful: 24 done now\n"
    assert "0 of 0 occurrences" in wakeful("backfill", "app.py", "report", *DAY).out
    run = wakeful("runs", "--json").json["runs"][-1]
    assert "backfill by ada" in wakeful("why", run["id"]).out


def test_what_is_still_to_come_is_left_to_the_schedule(wakeful, desk):
    told = wakeful("backfill", "report", "--from", "2026-01-02T10:00Z", "--to", "2026-01-02T15:00Z", "--plan").out
    assert "would run 3 occurrences" in told
    assert "2 more occurrences in that span: not decided yet, left to the schedule itself" in told


def test_many_need_another_word(wakeful, desk):
    year = ("--from", "2025-01-01", "--to", "2026-01-01")
    refused = wakeful("backfill", "app.py", "report", *year, code=2)
    assert "8,760 occurrences are more than 1,000: check with --plan, then add --yes to run all of them" in refused.err
    assert wakeful("runs", "--json").json["runs"] == []
    assert "would run 8,760 occurrences" in wakeful("backfill", "app.py", "report", *year, "--plan").out


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (("reprot", *DAY), 'app desk has no agent "reprot". Did you mean "report"?', 1),
        (("none", *DAY), "agent none has no schedule", 1),
        (("two", *DAY), "agent two has several schedules, slow, two: choose one with --schedule NAME", 1),
        (("two", *DAY, "--schedule", "slo"), 'Did you mean "slow"?', 1),
        (("report", "--from", "soon"), '"soon" cannot be read as a time', 2),
        (
            ("report", "--from", "2026-01-02", "--to", "2026-01-01"),
            "--from 2026-01-02 (2026-01-02T00:00:00Z) is not",
            2,
        ),
        (("report", *DAY, "--rate", "fast"), "'fast' is not a rate", 2),
        (("report",), "--from is missing", 2),
    ],
)
def test_what_cannot_be_meant_is_refused(wakeful, desk, words, told, code):
    assert told in wakeful("backfill", "app.py", *words, code=code).err


def test_of_several_schedules_one_is_chosen(wakeful, desk):
    told = wakeful("backfill", "app.py", "two", *DAY, "--schedule", "slow", "--plan", "--json").json
    assert (told["schedule"], told["instants"]) == ("slow", 12)


def test_ctrl_c_says_how_far_it_came(wakeful, desk, start):
    wakeful("backfill", "app.py", "report", *DAY, "--plan")
    filling = start("backfill", "app.py", "report", *DAY, "--rate", "1/h")
    deadline = time.monotonic() + 60
    while not wakeful("runs", "--json").json["runs"]:
        assert time.monotonic() < deadline, filling.output
        threading.Event().wait(0.02)  # between two questions, not instead of one
    filling.signal(signal.SIGINT)
    assert filling.end() == 130
    assert "1 of 24 occurrences became runs of agent report" in filling.output
    assert "stopped; run the same command again to continue" in filling.output
    assert wakeful("backfill", "app.py", "report", *DAY, "--json").json["made"] == 23


def test_once_fires_what_is_due_and_catches_up(wakeful, desk, monkeypatch):
    """As a crontab would start it: the first time stores the schedules, and each later one does what came due meanwhile."""
    assert wakeful("once", "app.py").out == "wakeful: nothing was due\n"
    monkeypatch.setenv("NOW", "2026-01-02T13:10:00+00:00")
    assert wakeful("once", "app.py").out == "wakeful: 2 done now\n"
    assert wakeful("once", "app.py").out == "wakeful: nothing was due\n"
    monkeypatch.setenv("NOW", "2026-01-02T16:10:00+00:00")
    wakeful("once", "app.py")
    runs = wakeful("runs", "--agent", "report", "--json").json["runs"]
    assert [one["event"]["id"] for one in runs] == ["2026-01-02T16:00:00Z", "2026-01-02T13:00:00Z"]
