"""`wakeful release`, and what is told of an output that is held."""

import pytest

APP = """
from pathlib import Path

from wakeful import App, Operation, Run, action, on
from wakeful.channels import file

app = App("desk", channels={"ops": file("ops.jsonl")})


@action(safety="idempotent")
async def book(op: Operation, what: str) -> None:
    with Path("booked").open("a") as out:
        out.write(what + "\\n")


@action
async def charge(op: Operation, amount: int) -> None:
    raise TimeoutError("no answer")


def polite(text):
    return "no exclamation marks" if "!" in text else None


@app.agent(on("ticket.created"), deliver="ops", checks=[polite])
async def review(run: Run) -> str:
    run.stage(book, run.event.id)
    return run.event.data


@app.agent(on("ticket.paid"))
async def pay(run: Run) -> None:
    await run.act(charge, 12)


@app.agent(on("ticket.quiet"), deliver="ops")
async def quiet(run: Run) -> None: ...
"""


@pytest.fixture
def held(wakeful, folder) -> str:
    """A run whose output did not pass; its id."""
    (folder / "app.py").write_text(APP)
    run = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '"HELP!"', "--json").json["events"][0]
    wakeful("once", "app.py", code=None)
    return str(run["runs"][0])


def test_it_lets_out_all_of_it(wakeful, folder, held):
    assert not (folder / "ops.jsonl").exists()
    answer = wakeful("release", held[:8], "--note", "seen", "--as", "ada").out
    assert answer == f"run {held}: released, with 1 delivery and 1 staged effect\n"
    wakeful("once", "app.py")
    run = wakeful("trace", held, "--json").json
    assert (run["state"], run["outcome"]["commit"], run["outcome"]["delivery"]) == ("done", "committed", "delivered")
    assert [(one["verb"], one["operator"], one["note"]) for one in run["remedies"]] == [("release", "ada", "seen")]
    assert (folder / "booked").read_text() == "1\n"
    assert "HELP!" in (folder / "ops.jsonl").read_text()
    assert "ada released its output unchanged" in wakeful("why", held).out


def test_as_json(wakeful, held):
    assert wakeful("release", held, "--json").json == {"run": held, "was": "held", "deliveries": 1, "effects": 1}


def test_a_second_time_it_is_refused(wakeful, held):
    wakeful("release", held)
    assert "only a held output can be released" in wakeful("release", held, code=1).err


def test_a_run_that_is_held_for_an_effect(wakeful, held):
    wakeful("emit", "app.py", "ticket.paid", "--id", "2")
    wakeful("once", "app.py", code=None)
    (run,) = wakeful("runs", "--held", "--agent", "pay", "--json").json["runs"]
    assert "is held for an effect: `wakeful effects list`" in wakeful("release", run["id"], code=1).err


def test_no_such_run(wakeful, held):
    assert 'there is no run "nothing"' in wakeful("release", "nothing", code=1).err


def test_both_kinds_of_hold_are_listed_with_their_reason_and_what_to_do(wakeful, held, monkeypatch):
    wakeful("emit", "app.py", "ticket.paid", "--id", "2")
    wakeful("once", "app.py", code=None)
    monkeypatch.setenv("COLUMNS", "80")
    shown = wakeful("runs", "--held").out
    assert f"output of run {held[:10]}  review\n  check polite: no exclamation marks\n" in shown
    assert "charge(12) of run" in shown
    assert "at most once" in " ".join(shown.split())
    for command in ("effects confirm|repeat|abandon", "release RUN", "replay RUN", "dead discard RUN"):
        assert f"`wakeful {command}" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    only = wakeful("runs", "--held", "--agent", "review").out
    assert "wakeful effects" not in only
    found = {one["what"]: one for one in wakeful("doctor", "--json", code=None).json["findings"]}
    assert (found["held"]["text"], found["held"]["remedy"]) == ("2 runs held for a person", "wakeful runs --held")


def test_its_story_names_the_check_and_the_three_ways_on(wakeful, held):
    story = wakeful("why", held).out
    assert "1 staged effect of the run waits for its release: book." in story
    assert "The run has 1 delivery, which is held together with its output." in story
    assert "The run is held for a person (check polite: no exclamation marks)." in story
    for command in ("release", "replay", "dead discard"):
        assert f"`wakeful {command} {held}`" in story
    (delivery,) = wakeful("deliveries", "--json").json["deliveries"]
    assert "It is held, because the output of its run did not pass its checks." in wakeful("why", delivery["id"]).out
    assert "`wakeful release RUN`" in wakeful("deliveries", "replay", delivery["id"], code=1).err


def test_silent_by_choice(wakeful, held):
    wakeful("emit", "app.py", "ticket.quiet", "--id", "3")
    wakeful("once", "app.py", code=None)
    assert "it is silent by choice" in wakeful("why", "3").out


OUTDATED = """
from pydantic import BaseModel

from wakeful import App, Run, on


class Count(BaseModel):
    count: int = 0


app = App("desk")


@app.agent(on("ticket.created"), state=Count, checks=[lambda text: "too loud"])
async def review(run: Run) -> str:
    run.state = Count(count=run.state.count + 1)
    return "done"
"""


def test_an_output_whose_state_has_moved_on_is_not_offered_for_release(wakeful, folder):
    (folder / "app.py").write_text(OUTDATED)
    (held,) = wakeful("emit", "app.py", "ticket.created", "--json").json["events"][0]["runs"]
    wakeful("once", "app.py", code=None)
    assert f"`wakeful release {held}` releases it unchanged" in wakeful("why", held).out
    assert "`wakeful release RUN`" in wakeful("runs", "--held").out
    assert wakeful("trace", held, "--json").json["outdated"] is False
    wakeful("state", "set", "review", '{"count": 7}')
    story = wakeful("why", held).out
    assert "It cannot be released unchanged: the state of agent review has changed since the run read it." in story
    assert "wakeful release" not in story
    listed = wakeful("runs", "--held").out
    assert "the agent's state has changed since, so this output cannot be released" in listed
    assert "wakeful release" not in listed
    assert wakeful("trace", held, "--json").json["outdated"] is True
    assert "a newer state" in wakeful("release", held, code=1).err
