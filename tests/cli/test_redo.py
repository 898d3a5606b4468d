"""`wakeful dead` and `wakeful replay`: everything that failed can be redone, after a look at what that would mean."""

import pytest

APP = """
from pathlib import Path

from wakeful import App, Operation, Persistent, Run, action, on

app = App("shop")


@action
async def charge(op: Operation, amount: int) -> str:
    with Path("charges").open("a") as file:
        file.write(op.id + "\\n")
    return "charged"


async def ship(where: str) -> str:
    if not Path("mended").exists() and where != "here":
        raise Persistent(f"no such place: {where}")
    return f"sent to {where}"


@app.agent(on("order.paid"), attempts=1)
async def deliver(run: Run, data: dict) -> str:
    await run.act(charge, data["amount"])
    return await run.step(ship, data["where"])
"""


@pytest.fixture
def dead(wakeful, folder) -> list[str]:
    """Three dead letters, oldest first; their ids."""
    (folder / "app.py").write_text(APP)
    ids = []
    for number in range(3):
        data = f'{{"amount": {number}, "where": "nowhere {number}"}}'
        ids += wakeful("emit", "app.py", "order.paid", "--id", str(number), "--data", data, "--json").json["events"][0][
            "runs"
        ]
    wakeful("once", "app.py", code=None)
    return ids


def charges(folder) -> list[str]:
    return (folder / "charges").read_text().splitlines()


def test_they_are_grouped_by_agent_and_error(wakeful, dead):
    (group,) = wakeful("dead", "list", "--json").json["groups"]
    assert (group["agent"], group["count"], group["confirmed_effects"]) == ("deliver", 3, 3)
    shown = wakeful("dead").out
    assert "deliver" in shown
    assert "3" in shown


def test_a_replay_goes_on_where_it_failed_and_repeats_no_effect(wakeful, folder, dead):
    (folder / "mended").touch()
    answer = wakeful("replay", dead[0], "--note", "mended the map", "--as", "ada")
    assert "ready again, was dead; 1 confirmed effect (charge 1) will not be repeated" in answer.out
    wakeful("once", "app.py", code=None)
    run = wakeful("trace", dead[0], "--json").json
    assert (run["state"], run["output"]) == ("done", "sent to nowhere 0")
    assert len(charges(folder)) == 3
    (remedy,) = run["remedies"]
    assert (remedy["verb"], remedy["operator"], remedy["note"]) == ("replay", "ada", "mended the map")
    assert "no such place" in remedy["error"]["message"]


def test_a_replay_with_edited_data(wakeful, folder, dead):
    wakeful("dead", "replay", dead[1], "--data", '{"amount": 1, "where": "here"}')
    wakeful("once", "app.py", code=None)
    run = wakeful("trace", dead[1], "--json").json
    assert (run["state"], run["output"]) == ("done", "sent to here")
    assert run["event"]["data"]["where"] == "nowhere 1"
    assert run["remedies"][0]["data"]["where"] == "here"
    assert len(charges(folder)) == 3


def test_edited_data_that_does_not_fit_is_a_dead_letter_again(wakeful, dead):
    wakeful("replay", dead[0], "--data", "[1]")
    wakeful("once", "app.py", code=None)
    run = wakeful("trace", dead[0], "--json").json
    assert run["state"] == "dead"
    assert "does not fit" in run["error"]["message"]


def test_many_are_planned_first_and_then_done(wakeful, folder, dead):
    (folder / "mended").touch()
    plan = wakeful("replay", "--agent", "deliver", "--plan", "--json").json
    assert plan["confirmed_effects"] == 3
    assert plan["groups"][0]["count"] == 3
    assert {run["state"] for run in wakeful("runs", "--json").json["runs"]} == {"dead"}
    assert (
        "3 of 3 dead letters are ready again" in wakeful("dead", "replay", "--error", "no such", "--rate", "1000/s").out
    )
    wakeful("once", "app.py")
    assert {run["state"] for run in wakeful("runs", "--json").json["runs"]} == {"done"}
    assert len(charges(folder)) == 3


def test_a_run_that_went_well_needs_again_and_finds_its_effects(wakeful, folder, dead):
    (folder / "mended").touch()
    wakeful("replay", dead[0])
    wakeful("once", "app.py", code=None)
    assert "is done: --again" in wakeful("replay", dead[0], code=1).err
    again = wakeful("replay", dead[0], "--again", "--json").json["run"]
    assert again == f"{dead[0]}.1"
    wakeful("once", "app.py", code=None)
    run = wakeful("trace", again, "--json").json
    assert (run["state"], run["root"]) == ("done", dead[0])
    assert len(charges(folder)) == 3, "found in the ledger, and not done again"


def test_discard_ends_it_for_good(wakeful, dead):
    wakeful("dead", "discard", dead[2], "--note", "of no use")
    run = wakeful("trace", dead[2], "--json").json
    assert run["state"] == "cancelled"
    assert "of no use" in run["reason"]
    assert "only a dead letter can be discarded" in wakeful("dead", "discard", dead[2], code=1).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replay",), "which ones?"),
        (("replay", "nothing"), 'there is no run "nothing"'),
        (("replay", "--agent", "nobody"), "no dead letter is like that"),
        (("replay", "--all", "--data", "1"), "--data is for one RUN"),
        (("replay", "--all", "--rate", "fast"), "is no rate"),
        (("dead", "replya"), 'Did you mean "replay"?'),
        (("dead", "show"), "dead show takes one RUN"),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, dead, words, said):
    assert said in wakeful(*words, code=None).err
