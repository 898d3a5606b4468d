"""`wakeful cancel`: runs that stop, and what is told of them."""

import pytest

APP = """
from pathlib import Path

from wakeful import App, Operation, Persistent, Run, action, on

app = App("desk")


def unbook(op: Operation, what: str) -> None:
    with Path("log").open("a") as out:
        out.write(f"unbook {what}\\n")


@action(safety="idempotent", undo=unbook)
async def book(op: Operation, what: str) -> None:
    with Path("log").open("a") as out:
        out.write(f"book {what}\\n")


@action
async def charge(op: Operation) -> None:
    raise TimeoutError("no answer")


@app.agent(on("ticket.created"))
async def review(run: Run) -> None:
    await run.act(book, "room")
    await run.act(charge)
"""


@pytest.fixture
def ready(wakeful, folder) -> str:
    """A run that nobody has taken yet; its id."""
    (folder / "app.py").write_text(APP)
    answer = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--json").json
    return str(answer["events"][0]["runs"][0])


def test_one_that_did_nothing_is_over_at_once(wakeful, ready):
    answer = wakeful("cancel", ready[:8], "--note", "not wanted", "--as", "ada").out
    assert answer == f"run {ready}: cancelled; was ready\n"
    run = wakeful("trace", ready, "--json").json
    assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada: not wanted")
    assert "cancelled by ada: not wanted" in wakeful("trace", ready).out
    assert "The run was cancelled at" in wakeful("why", ready).out
    assert "cancelled" in wakeful("runs").out


def test_what_it_did_is_undone_once_it_is_known_what_that_is(wakeful, ready, folder):
    wakeful("once", "app.py", code=None)
    run = wakeful("trace", ready, "--json").json
    assert run["state"] == "held"
    answer = wakeful("cancel", ready, "--as", "ada").out
    assert answer == f"run {ready}: to be cancelled: a worker undoes its effects first; was held\n"
    assert "The run is being cancelled: ada requested it at" in wakeful("why", ready).out
    wakeful("once", "app.py", code=None)
    (held,) = [one["id"] for one in wakeful("effects", "--state", "held", "--json").json["effects"]]
    assert f"wakeful effects confirm {held}" in wakeful("why", ready).out
    wakeful("effects", "repeat", held, "--note", "it was not done")
    wakeful("once", "app.py")
    assert (folder / "log").read_text() == "book room\nunbook room\n"
    run = wakeful("trace", ready, "--json").json
    assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada; undone: book")
    assert "was undone: book" in wakeful("why", ready).out
    assert "undo book" in wakeful("trace", ready).out


def test_each_is_cancelled_or_refused_by_itself(wakeful, ready):
    other = wakeful("emit", "app.py", "ticket.created", "--id", "2", "--json").json["events"][0]["runs"][0]
    wakeful("cancel", other)
    answer = wakeful("cancel", ready, other, code=1)
    assert answer.out == f"run {ready}: cancelled; was ready\n"
    assert answer.err == f"wakeful: run {other} is cancelled: only a run that has not ended can be cancelled\n"


def test_nothing_is_done_if_one_of_them_is_not_there(wakeful, ready):
    assert 'there is no run "nothing"' in wakeful("cancel", ready, "nothing", code=1).err
    assert wakeful("trace", ready, "--json").json["state"] == "ready"


def test_as_json(wakeful, ready):
    assert wakeful("cancel", ready, "--json").json == {
        "runs": [{"run": ready, "was": "ready", "state": "cancelled", "refused": None}]
    }


def test_a_dead_letter_is_cancelled_and_what_it_did_undone(wakeful, folder):
    (folder / "app.py").write_text(APP.replace("    await run.act(charge)\n", '    raise Persistent("broken")\n'))
    (run,) = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--json").json["events"][0]["runs"]
    wakeful("once", "app.py", code=None)
    assert f"`wakeful cancel {run}` also undoes its effects" in wakeful("why", run).out
    assert f"run {run}: to be cancelled: a worker undoes its effects first; was dead" in wakeful("cancel", run).out
    wakeful("once", "app.py", code=None)
    assert (folder / "log").read_text() == "book room\nunbook room\n"
    assert wakeful("runs", "--json").json["runs"][0]["state"] == "cancelled"
    assert "no dead letters" in wakeful("dead").out


def test_a_run_that_undoes_what_it_did_because_it_failed_says_so(wakeful, folder):
    source = APP.replace("    await run.act(charge)\n", '    raise Persistent("broken")\n')
    source = source.replace('@app.agent(on("ticket.created"))', '@app.agent(on("ticket.created"), on_failure="undo")')
    refusal = 'None:\n    if not Path("open").exists():\n        raise Persistent("closed")\n'
    (folder / "app.py").write_text(source.replace("None:\n", refusal, 1))
    (run,) = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--json").json["events"][0]["runs"]
    wakeful("once", "app.py", code=None)
    assert "The run failed: Persistent: broken, at " in wakeful("why", run).out
    assert "failed: Persistent: broken; its effects are undone first" in wakeful("trace", run).out
    assert "failed, and its effects are already being undone" in wakeful("cancel", run, code=1).err
    (folder / "open").touch()
    (undo,) = wakeful("effects", "--state", "held", "--json").json["effects"]
    wakeful("effects", "repeat", undo["id"])
    wakeful("once", "app.py", code=None)
    assert (folder / "log").read_text() == "book room\nunbook room\n"
    shown = wakeful("trace", run).out
    assert "dead  will fail the same way again; undone: book" in shown
    assert "1 effect of the run was undone: book." in wakeful("why", run).out
