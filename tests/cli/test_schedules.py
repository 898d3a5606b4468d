"""`wakeful schedules`: what wakes when, on the command line."""

from __future__ import annotations

import json
import re

import pytest

from wakeful.operations.scheduling import OPTIONS
from wakeful.resources.schedule_views import ScheduleCadence
from wakeful.resources.schedule_words import really

APP = """
from wakeful import App, Run
from wakeful.triggers.cron import cron
from wakeful.triggers.every import every

app = App("desk")


@app.agent(cron("0 8 * * 1-5", tz="Europe/London"), owner="ops")
async def digest(run: Run) -> str:
    return str(run.event.data)


@app.agent()
async def triage(run: Run) -> None: ...
"""


@pytest.fixture
def desk(wakeful, folder) -> None:
    """An app that has worked once."""
    (folder / "app.py").write_text(APP)
    wakeful("once", "app.py")


def one(wakeful, name: str) -> dict:
    return wakeful("schedules", "show", name, "--json").json


def test_before_there_is_any(wakeful, folder):
    (folder / "app.py").write_text(APP.replace('cron("0 8 * * 1-5", tz="Europe/London"), ', ""))
    wakeful("once", "app.py")
    assert "no schedules yet. An agent wakes by" in wakeful("schedules").out


def test_the_listing(wakeful, desk):
    header, row = wakeful("schedules").out.splitlines()
    assert header.split("  ")[0] == "schedule"
    assert 'digest    digest  cron("0 8 * * 1-5", tz="Europe/London")  live' in row
    assert ", in " in row
    shown = wakeful("schedules", "--json").json
    assert [found["name"] for found in shown["schedules"]] == ["digest"]
    assert shown["next"] is None
    assert wakeful("schedules", "--agent", "triage").out == "no matching schedules\n"


@pytest.mark.parametrize(
    ("real", "drift", "shown"),
    [
        (None, None, "–"),
        (60.4, 0.01, "every 1 m 0 s"),
        (90.0, 0.5, "every 1 m 30 s, not 1 m 0 s"),
        (59.6, -0.06, "every 1 m 0 s"),
        (0.0, -1.0, "every less than 1 s, not 1 m 0 s"),
    ],
)
def test_the_interval_that_is_kept(real, drift, shown):
    cadence = ScheduleCadence(firings=2, late=None, typically_late=None, configured=60.0, real=real, drift=drift)
    assert really(cadence) == shown


def test_the_listing_fits_a_terminal(wakeful, desk, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    header, row = wakeful("schedules").out.splitlines()
    assert header.split() == ["schedule", "rule", "state", "last", "next"]
    assert 'cron("0 8 * * 1-5", tz="Europe/London")' in row
    assert re.search(r" in \d+ [smhd]$", row)
    assert 'cron("0 8 * * 1-5", tz=' in wakeful("check", "app.py").out.split("next\n")[1]


def test_no_column_of_the_listing_is_cut_to_nothing(wakeful, desk, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    header, *_ = wakeful("schedules").out.splitlines()
    assert "…" not in header
    assert header.split() == ["schedule", "agent", "rule", "state", "last", "next", "not", "fired"]


def test_adding_and_what_comes_next(wakeful, desk):
    words = ("--cron", "0 7 * * *", "--tz", "America/New_York", "--data", '{"n": 1}', "--as", "ada", "--note", "early")
    said = wakeful("schedules", "add", "morning", "triage", *words).out.splitlines()
    assert said[0] == 'schedule morning: cron("0 7 * * *", tz="America/New_York") wakes agent triage of app desk'
    assert said[1].startswith("next: ")
    assert " 07:00 America/New_York, in " in said[1]
    found = one(wakeful, "morning")
    assert (found["origin"], found["data"], found["state"]) == ("runtime", {"n": 1}, "live")
    (change,) = found["changes"]
    assert (change["verb"], change["operator"], change["note"]) == ("add", "ada", "early")
    lines = wakeful("schedules", "next", "morning", "-n", "3").out.splitlines()
    assert len(lines) == 5
    assert all(" 07:00 America/New_York" in line and ":00:00Z" in line for line in lines[2:])
    assert len(wakeful("schedules", "next", "digest", "--json").json["next"]) == 5


def test_an_edit_changes_only_what_is_given(wakeful, desk):
    wakeful("schedules", "add", "morning", "triage", "--every", "30m", "--jitter", "10s", "--data", "[1]")
    said = wakeful("schedules", "edit", "morning", "--every", "1h", "--as", "bob").out
    assert said.startswith("schedule morning (revision 2): every(")
    assert ", was every(" in said
    found = one(wakeful, "morning")
    assert (found["options"]["jitter"], found["data"], found["agent"]) == (10.0, [1], "triage")
    wakeful("schedules", "edit", "morning", "--jitter", "none", "--data", "null", "--agent", "digest")
    found = one(wakeful, "morning")
    assert (found["options"]["jitter"], found["data"], found["agent"], found["revision"]) == (0.0, None, "digest", 3)
    assert [change["operator"] for change in found["changes"]][1] == "bob"


def test_none_is_a_way_to_catch_up(wakeful, desk):
    """What takes every other option away is a word of its own for this one."""
    wakeful("schedules", "add", "morning", "triage", "--every", "30m", "--catch-up", "none")
    options = one(wakeful, "morning")["options"]
    assert (options["catch_up"], options["grace"]) == ("none", 60.0)
    wakeful("schedules", "edit", "morning", "--catch-up", "latest")
    wakeful("schedules", "edit", "morning", "--catch-up", "none")
    assert one(wakeful, "morning")["options"]["catch_up"] == "none"


def test_pausing_resuming_and_removing(wakeful, desk):
    wakeful("schedules", "pause", "digest", "--as", "ada")
    assert "paused by ada" in wakeful("schedules").out
    assert "paused: none of these fires" in wakeful("schedules", "next", "digest").out
    assert "is paused" in wakeful("schedules", "pause", "digest", code=1).err
    assert wakeful("schedules", "resume", "digest").out.startswith("schedule digest is resumed\nnext: ")
    wakeful("schedules", "add", "extra", "triage", "--at", "2099-01-01T12:00")
    assert "its history is kept" in wakeful("schedules", "remove", "extra").out
    assert "extra" not in wakeful("schedules").out
    assert "extra" in wakeful("schedules", "--all").out
    assert "no next occurrence: the schedule is removed" in wakeful("schedules", "next", "extra").out
    assert 'there is no schedule "extra"' in wakeful("schedules", "resume", "extra", code=1).err


def test_whatever_a_schedule_takes_can_be_said_here(wakeful, desk):
    options = {"starts_within": "5m", "ends_within": "2h", "grace": "20m", "jitter": "3s", "expires": "1h"}
    words = [word for name, span in options.items() for word in (f"--{name.replace('_', '-')}", span)]
    wakeful("schedules", "add", "morning", "triage", "--every", "12h", *words)
    found = one(wakeful, "morning")["options"]
    assert {name: found[name] for name in options} == {
        "starts_within": 300.0,
        "ends_within": 7200.0,
        "grace": 1200.0,
        "jitter": 3.0,
        "expires": 3600.0,
    }
    for verb in ("add", "edit"):
        shown = wakeful("schedules", verb, "--help").out
        assert all(f"--{option.replace('_', '-')} " in shown for option in OPTIONS)


def test_firing_and_the_story_of_its_run(wakeful, desk):
    wakeful("schedules", "add", "morning", "digest", "--every", "12h", "--data", '"hello"')
    said = wakeful("schedules", "fire", "morning", "app.py", "--as", "ada", "--note", "now")
    assert said.out.startswith("fired morning → run ")
    assert "no worker is alive on this store" in said.err
    run = said.out.split()[-1]
    wakeful("once", "app.py")
    assert wakeful("trace", run, "--json").json["output"] == "hello"
    head = wakeful("trace", run).out.splitlines()[0]
    assert "scheduled for " in head
    assert " by morning, started " in head
    assert "was fired by hand, by ada." in wakeful("why", run).out
    found = one(wakeful, "morning")
    assert [row["state"] for row in found["occurrences"]] == ["fired"]
    assert found["changes"][0]["note"] == "now"
    assert "by hand, by ada" in wakeful("schedules", "show", "morning").out
    again = wakeful("schedules", "fire", "morning", "--json").json  # app.py is here
    assert (again["status"], len(again["runs"])) == ("accepted", 1)


def test_why_of_a_schedule(wakeful, desk):
    wakeful("schedules", "pause", "digest", "--as", "ada")
    told = wakeful("why", "digest").out
    assert told.startswith('Schedule digest wakes agent digest of app desk by cron("0 8 * * 1-5", tz="Europe/London").')
    assert "by ada: occurrences that come due are skipped." in told
    assert wakeful("why", "digest", "--json").json["subject"] == {"kind": "schedule", "id": "digest"}
    wakeful("schedules", "resume", "digest")
    assert "No worker is alive on this store" in wakeful("why", "digest").out


def test_of_code_is_changed_in_code(wakeful, desk, folder):
    for verb, *more in (("edit", "--every", "1h"), ("remove",)):
        said = wakeful("schedules", verb, "digest", *more, code=1).err
        assert "schedule digest is declared with agent digest (in the code of app desk" in said
        assert "`wakeful schedules pause digest` stops it until then" in said
    (folder / "app.py").write_text(APP.replace("digest", "summary"))
    wakeful("once", "app.py")
    wakeful("schedules", "remove", "digest")  # the code has no such agent any more
    assert [found["name"] for found in wakeful("schedules", "--json").json["schedules"]] == ["summary"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("shwo", "x"), 2, 'there is no "schedules shwo". Did you mean "show"?'),
        (("show",), 2, "schedules takes list, or show"),
        (("pause", "digest", "--cron", "@daily"), 2, "--cron is for add and edit, not for pause"),
        (("show", "digset"), 1, 'there is no schedule "digset". Did you mean "digest"?'),
        (("next", "digset"), 1, 'Did you mean "digest"?'),
        (("add", "x", "trige", "--every", "1h"), 1, 'app desk has no agent "trige". Did you mean "triage"?'),
        (("add", "x", "triage", "--every", "1h", "--of", "deks"), 1, 'no app "deks" has used this store yet.'),
        (("add", "digest", "triage", "--every", "1h"), 1, "already has a schedule digest"),
        (("add", "a/b", "triage", "--every", "1h"), 1, "without /"),
        (("add", "x", "triage"), 1, "a schedule needs a rule: give cron"),
        (("add", "x", "triage", "--cron", "0 8 * *"), 1, "cron('0 8 * *'): "),
        (("add", "x", "triage", "--cron", "0 0 30 2 *"), 1, "cron('0 0 30 2 *'): "),
        (("add", "x", "triage", "--every", "1h", "--tz", "Europe/Lundon"), 1, 'Did you mean "Europe/London"?'),
        (("add", "x", "triage", "--at", "2020-01-01"), 1, "is in the past: it would never fire"),
        (("add", "x", "triage", "--every", "1h", "--overlap", "skipp"), 2, 'Did you mean "skip"?'),
        (("add", "x", "triage", "--every", "1h", "--data", "{"), 2, "--data"),
        (("resume", "digest"), 1, "is not paused"),
        (("next", "digest", "-n", "0"), 2, "from 1 to 1000"),
        (("--after", "x"), 2, "--after"),
    ],
)
def test_what_is_refused(wakeful, desk, words, code, said):
    assert said in wakeful("schedules", *words, code=code).err
    assert [found["name"] for found in wakeful("schedules", "--json").json["schedules"]] == ["digest"]


def test_an_edit_of_nothing(wakeful, desk):
    wakeful("schedules", "add", "x", "triage", "--every", "1h")
    assert "no change is given" in wakeful("schedules", "edit", "x", code=2).err
    assert "a schedule needs one" in wakeful("schedules", "edit", "x", "--tz", "none", code=2).err


def test_firing_needs_the_code(wakeful, desk, folder):
    (folder / "app.py").rename(folder / "desk.py")
    assert "fire needs the app's code" in wakeful("schedules", "fire", "digest", code=2).err
    assert (
        'app desk has no schedule "digset". Did you mean "digest"?'
        in wakeful("schedules", "fire", "digset", "desk.py", code=1).err
    )


def test_of_several_apps(wakeful, desk, folder):
    (folder / "other.py").write_text(APP.replace('"desk"', '"shop"'))
    wakeful("once", "other.py")
    assert wakeful("schedules").out.split()[0] == "app"
    said = "is in several apps (desk, shop): choose one with --of NAME"
    assert said in wakeful("schedules", "show", "digest", code=1).err
    assert said in wakeful("schedules", "add", "x", "triage", "--every", "1h", code=1).err
    wakeful("schedules", "pause", "digest", "--of", "shop")
    states = {found["app"]: found["state"] for found in wakeful("schedules", "--json").json["schedules"]}
    assert states == {"desk": "live", "shop": "paused"}
    wakeful("schedules", "add", "x", "triage", "--every", "1h", "--of", "shop")
    assert json.loads(wakeful("schedules", "--of", "shop", "--json").out)["schedules"][1]["name"] == "x"


def test_an_app_that_nobody_has_loaded_yet(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("migrate")
    assert "no app has used this store yet" in wakeful("schedules", "add", "x", "triage", "--every", "1h", code=1).err
    said = wakeful("schedules", "add", "x", "triage", "--every", "1h", "--of", "desk")
    assert "no process has loaded app desk here yet" in said.err
    wakeful("once", "app.py")
    assert one(wakeful, "x")["state"] == "live"


def test_check_lists_them(wakeful, folder):
    (folder / "app.py").write_text(APP.replace("@app.agent()", '@app.agent(at("2020-01-01"), every("1h"))'))
    text = (folder / "app.py").read_text()
    (folder / "app.py").write_text(
        text.replace("from wakeful.triggers.cron", "from wakeful.triggers.at import at\nfrom wakeful.triggers.cron")
    )
    said = wakeful("check", "app.py").out
    assert "08:00 Europe/London (2" in said
    assert "note: schedule triage of agent triage: at(" in said
    found = wakeful("check", "app.py", "--json").json["schedules"]
    assert [(one["name"], one["next"] is None) for one in found] == [
        ("digest", False),
        ("triage", True),
        ("triage-2", False),
    ]
    assert found[0]["zone"] == "Europe/London"
    (folder / "app.py").write_text(
        text.replace("at(", 'every("2h", name="digest"), every(').replace('"2020-01-01"', '"3h"')
    )
    assert "agent digest already has a schedule digest: give it another name=" in wakeful("check", "app.py", code=1).err


def test_the_doctor_counts_them(wakeful, desk):
    assert "1 schedule of app desk, the next in " in wakeful("doctor", code=1).out
