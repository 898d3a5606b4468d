"""`wakeful circuits` and `wakeful locks`: what is down, a person's word that it works again, and who has what."""

import re

import pytest

APP = """
from pathlib import Path

from wakeful import App, Circuit, Run, on, step

app = App("shop", circuits={"stripe": Circuit(failures=1, rest="1h")})


@step(dependency="stripe", attempts=1)
async def charge() -> str:
    if Path("down").exists():
        raise ConnectionError("refused")
    return "charged"


@app.agent(on("order.placed"))
async def pay(run: Run) -> str:
    async with run.lock("till"):
        return await run.step(charge)
"""


@pytest.fixture
def down(wakeful, folder) -> None:
    """One order, parked."""
    (folder / "app.py").write_text(APP)
    (folder / "down").touch()
    wakeful("emit", "app.py", "order.placed", "--id", "a")
    wakeful("once", "app.py")


def test_nothing_is_down_at_first(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("once", "app.py")
    assert "no dependency and no channel has failed here" in wakeful("circuits").out
    assert wakeful("circuits", "--json").json == {"circuits": []}
    assert "no run holds a lock now" in wakeful("locks").out
    assert wakeful("locks", "--json").json == {"locks": []}


def test_what_is_down_is_listed(wakeful, down, monkeypatch):
    (circuit,) = wakeful("circuits", "--json").json["circuits"]
    assert (circuit["app"], circuit["name"], circuit["state"], circuit["parked"]) == ("shop", "stripe", "open", 1)
    assert circuit["error"] == "ConnectionError: refused"
    monkeypatch.setenv("COLUMNS", "80")
    shown = wakeful("circuits").out
    assert "stripe" in shown
    assert re.search(r" in (\d+ m|1 h) ", shown)  # half an hour to an hour from now
    assert "ConnectionError: refused" in shown
    assert wakeful("circuits", "--of", "other", "--json").json == {"circuits": []}


def test_why_tells_a_parked_run(wakeful, down):
    (run,) = wakeful("runs", "--json").json["runs"]
    assert run["state"] == "parked"
    story = wakeful("why", run["id"]).out
    assert "circuit stripe is open: ConnectionError: refused" in story
    assert "wakeful circuits close stripe" in story


def test_a_person_closes_it_and_the_run_comes_back(wakeful, down, folder):
    (folder / "down").unlink()
    assert "recovers" in wakeful("circuits", "close", "stripe", "--note", "it is back").out
    wakeful("once", "app.py")
    (run,) = wakeful("runs", "--json").json["runs"]
    assert run["state"] == "done"
    wakeful("once", "app.py")
    (circuit,) = wakeful("circuits", "--json").json["circuits"]
    assert circuit["state"] == "closed"
    assert wakeful("circuits", "close", "stripe", "--json").json == {"app": "shop", "name": "stripe", "state": "closed"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("closes", "stripe"), 2, 'there is no "circuits closes". Did you mean "close"?'),
        (("close",), 2, "circuits takes list, or close and a NAME"),
        (("list", "stripe"), 2, "circuits takes list, or close and a NAME"),
        (("close", "strip"), 1, 'there is no circuit "strip" here. Did you mean "stripe"?'),
        (("close", "stripe", "--of", "other"), 1, 'there is no circuit "stripe" here.'),
    ],
)
def test_what_is_not_there_is_refused(wakeful, down, words, code, said):
    assert said in wakeful("circuits", *words, code=code).err
