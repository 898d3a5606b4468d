"""`wakeful apps`: listed, and one retired, with the real command line."""

from __future__ import annotations

import pytest

APP = """
from wakeful import App, Run, every, on

app = App("desk")


@app.agent(every("1h"), on("later"))
async def report(run: Run) -> None:
    await run.sleep("30d")


app.expect("a word", event="word", at_least_every="1d")
"""


@pytest.fixture
def desk(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "later", "--id", "1")
    wakeful("once", "app.py")
    return folder


def test_the_listing(wakeful, desk):
    (one,) = wakeful("apps", "--json").json["apps"]
    assert (one["app"], one["state"], one["workers"], one["schedules"], one["agents"]) == (
        "desk",
        "down",
        0,
        1,
        ["report"],
    )
    assert one["runs"] == {"waiting": 1}
    shown = wakeful("apps").out
    assert "desk" in shown
    assert "1 waiting" in shown


def test_no_apps_yet(wakeful, folder):
    wakeful("migrate")
    assert wakeful("apps").out.startswith("no app has used this store yet")


def test_one_is_retired_after_a_plan(wakeful, desk, monkeypatch):
    plan = wakeful("apps", "retire", "desk", "--plan").out
    assert plan.startswith("would retire app desk\n")
    assert "1 schedule removed: report" in plan
    assert "1 run cancelled: 1 waiting" in plan
    assert "expectation" in plan
    assert wakeful("apps", "--json").json["apps"][0]["state"] == "down"

    told = wakeful("apps", "retire", "desk", "--note", "sold", "--as", "ada").out
    assert told.startswith("app desk is retired\n")
    (run,) = wakeful("runs", "--json").json["runs"]
    assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada: app desk was retired: sold")
    assert "cancelled by ada: app desk was retired: sold" in wakeful("why", run["id"]).out
    assert "by ada: sold" in wakeful("apps").out
    assert {one["state"] for one in wakeful("expectations", "--json").json["expectations"]} == {"excused"}
    assert "it has no open work" in wakeful("apps", "retire", "desk").out

    wakeful("once", "app.py")  # its code is started: it is back
    (one,) = wakeful("apps", "--json").json["apps"]
    assert (one["state"], one["schedules"]) == ("down", 1)


def test_one_that_is_served_is_refused(wakeful, desk, start):
    start("worker", "app.py").wait_for("working for")
    assert "live worker serves it: stop that first, or add --live" in wakeful("apps", "retire", "desk", "--plan").out
    assert "1 live worker serves app desk" in wakeful("apps", "retire", "desk", code=1).err
    assert wakeful("apps", "--json").json["apps"][0]["state"] == "alive"
    wakeful("apps", "retire", "desk", "--live")
    assert wakeful("apps", "--json").json["apps"][0]["state"] == "retired"


def test_what_cannot_be_meant(wakeful, desk):
    assert 'Did you mean "desk"?' in wakeful("apps", "retire", "dsk", code=1).err
    assert 'Did you mean "retire"?' in wakeful("apps", "retir", "desk", code=2).err
    assert "apps takes list, or retire NAME" in wakeful("apps", "retire", code=2).err
