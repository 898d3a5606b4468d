"""Runs that were had again: each is known by its number, and what it did is told apart from what its family did."""

import pytest

APP = """
from wakeful import App, Operation, Run, action, on
from wakeful.channels import file

app = App("shop", channels={"out": file("out.jsonl")})


@action
async def charge(op: Operation, amount: int) -> str:
    return "charged"


@app.agent(on("order.paid"))
async def deliver(run: Run, data: int) -> str:
    await run.act(charge, data)
    run.send("out", data)
    return "sent"
"""


@pytest.fixture
def family(wakeful, folder) -> str:
    """A run that went well and was had again; the id of the first."""
    (folder / "app.py").write_text(APP)
    answer = wakeful("emit", "app.py", "order.paid", "--id", "1", "--data", "5", "--json").json
    (root,) = answer["events"][0]["runs"]
    wakeful("once", "app.py")
    assert wakeful("replay", root, "--again", "--json").json["run"] == f"{root}.1"
    return str(root)


def test_a_terminal_shows_which_one_it_is(wakeful, family, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = wakeful("runs").out
    assert f"{family[:10]}.1  deliver" in shown
    assert f"{family[:10]}    deliver" in shown


@pytest.mark.parametrize("length", [6, 10, 26])
def test_a_beginning_is_the_first_of_them_and_with_a_number_another(wakeful, family, length):
    assert wakeful("trace", family[:length], "--json").json["id"] == family
    assert wakeful("trace", f"{family[:length]}.1", "--json").json["id"] == f"{family}.1"
    assert "there is no run" in wakeful("trace", f"{family[:length]}.2", code=1).err


def test_what_another_one_did_is_told_apart(wakeful, family):
    waiting = wakeful("trace", f"{family}.1").out
    assert f"effect charge(5)  confirmed  by run {family}\n" in waiting
    assert f"delivery to out 5  delivered  by run {family}\n" in waiting
    story = wakeful("why", f"{family}.1").out
    assert f"1 effect is confirmed by run {family} of the same event and reused instead of repeated: charge." in story
    assert "message" not in story
    wakeful("once", "app.py")
    assert "The run has 1 delivery" in wakeful("why", family).out
    again = wakeful("trace", f"{family}.1", "--json").json
    assert [one["run"] for one in again["deliveries"]] == [family]
    assert again["outcome"]["delivery"] == "none"


@pytest.mark.parametrize("asked", ["1", ""])
def test_why_of_the_first_tells_of_the_others(wakeful, family, asked):
    story = wakeful("why", asked or family).out
    assert f"as run {family}.1, which is ready: see `wakeful why {family}.1`" in story
    assert "The run was repeated at" in story
    assert "The run was repeated" not in wakeful("why", f"{family}.1").out
