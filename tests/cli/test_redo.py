"""`wakeful dead` and `wakeful replay`: everything that failed can be redone, after a look at what that would mean."""

import json
import signal
import threading
import time

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
    assert (plan["count"], plan["confirmed_effects"], plan["confirmed_actions"]) == (3, 3, {"charge": 3})
    shown = wakeful("replay", "--all", "--plan", "--rate", "max").out
    assert (
        shown
        == "would replay 3 dead letters as fast as the store allows; 3 confirmed effects (charge 3) would be reused, "
        "not repeated\n"
    )
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
        (("replay",), "no dead letter is selected"),
        (("replay", "nothing"), 'there is no run "nothing"'),
        (("replay", "--agent", "nobody"), 'no agent "nobody" has ever handled an event here. Known: deliver.'),
        (("replay", "--error", "nothing"), "no dead letter matches"),
        (("replay", "--all", "--data", "1"), "--data is for one RUN"),
        (("replay", "--all", "--rate", "fast"), "is not a rate"),
        (("replay", "--events", "order.paid"), "--events needs --agent NAME, like: wakeful replay --events"),
        (("replay", "--events", "order.paid", "--agent", "count"), "--events needs --from TIME"),
        (("replay", "--all", "--from", "2h"), "--from and --to are for --events TYPE"),
        (("replay", "--events", "order.paid", "--agent", "a", "--from", "2h", "--all"), "--events takes no --all"),
        (
            ("replay", "--events", "order.paid", "--agent", "a", "--from", "whenever"),
            '"whenever" cannot be read as a time',
        ),
        (("replay", "--events", "order.paid", "--agent", "a", "--from", "1h", "--to", "2h"), "is not before"),
        (("replay", "--events", "ordre.paid", "--agent", "a", "--from", "2h"), "no stored event matches: ordre.paid"),
        (
            ("replay", "--events", "order.paid", "--agent", "delivre", "--from", "2h", "--app", "app.py"),
            'has no agent "delivre". Did you mean "deliver"?',
        ),
        (("replay", "--all", "--app", "ap.py"), "there is no file ap.py"),
        (
            ("replay", "--agent", "delivre"),
            'no agent "delivre" has ever handled an event here. Did you mean "deliver"?',
        ),
        (("dead", "replya"), 'Did you mean "replay"?'),
        (("dead", "show"), "dead show takes one ID"),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, dead, words, said):
    assert said in wakeful(*words, code=None).err


def test_every_error_and_remedy_is_kept_after_two_replays(wakeful, folder, dead):
    wakeful("replay", dead[0], "--note", "first try", "--as", "ada", "--data", '{"amount": 0, "where": "the moon"}')
    wakeful("once", "app.py", code=None)
    wakeful("replay", dead[0], "--note", "the right place", "--as", "bob", "--data", '{"amount": 0, "where": "here"}')
    wakeful("once", "app.py", code=None)
    shown = wakeful("trace", dead[0]).out
    for words in (
        'data {"amount":0,"where":"nowhere 0"}',
        "attempt 1 dead",
        "no such place: nowhere 0",
        "replayed by ada: first try",
        'data {"amount":0,"where":"the moon"}',
        "attempt 2 dead",
        "no such place: the moon",
        "replayed by bob: the right place",
        "step ship had failed",
        'output "sent to here"',
    ):
        assert words in shown, words
    first, second = shown.index("by ada"), shown.index("by bob")
    assert shown.index("attempt 1") < first < shown.index("attempt 2") < second
    story = wakeful("why", dead[0]).out
    assert "The run was given up at" in story
    assert "ada replayed it with edited data at" in story
    assert "bob replayed it with edited data at" in story
    assert "1 effect of the run is confirmed and will not be repeated: charge." in story
    kept = wakeful("dead", "show", dead[0], "--json").json
    assert kept["event"]["data"] == {"amount": 0, "where": "nowhere 0"}
    assert [one["error"]["steps"][0]["error"]["message"] for one in kept["remedies"]] == [
        "no such place: nowhere 0",
        "no such place: the moon",
    ]
    assert [one["operator"] for one in kept["remedies"]] == ["ada", "bob"]
    assert len(charges(folder)) == 3


def test_edited_data_is_checked_at_once_where_the_app_is_known(wakeful, folder, dead):
    text = (folder / "app.py").read_text().replace("data: dict)", "data: dict[str, int | str])")
    (folder / "app.py").write_text(text)
    refused = wakeful("replay", dead[0], "--data", '{"where": [1]}', "--app", "app.py", code=1)
    assert "the edited data does not fit agent deliver: where" in refused.err
    assert wakeful("trace", dead[0], "--json").json["state"] == "dead"
    said = wakeful("replay", dead[0], "--data", '{"where": [1]}').err
    assert "when the run starts; --app APP checks it now" in said


def test_ctrl_c_stops_it_and_the_same_command_goes_on(wakeful, start, dead):
    words = ("replay", "--all", "--rate", "1/m")
    replaying = start(*words)
    deadline = time.monotonic() + 60
    while not wakeful("runs", "--state", "ready", "--json").json["runs"]:
        assert time.monotonic() < deadline, replaying.output
        threading.Event().wait(0.02)  # between two questions, not instead of one
    replaying.signal(signal.SIGINT)
    assert replaying.end() == 130
    assert "1 of 3 dead letters is ready again" in replaying.output
    assert "stopped; run the same command again to continue" in replaying.output
    assert wakeful("replay", "--all", "--rate", "max").out == "2 of 2 dead letters are ready again\n"


def test_ctrl_c_when_the_last_batch_is_done_stops_nothing(wakeful, dead, monkeypatch):
    monkeypatch.setattr("wakeful.shell.carrying.ProgressLine.show", lambda *_: signal.raise_signal(signal.SIGINT))
    done = wakeful("replay", "--all", "--rate", "max")
    assert done.out == "3 of 3 dead letters are ready again\n"
    assert "stopped" not in done.err


def test_over_ten_thousand_need_a_yes(wakeful, dead, monkeypatch):
    monkeypatch.setattr("wakeful.shell.carrying.MANY", 2)
    assert "3 dead letters are more than 2: add --yes" in wakeful("replay", "--all", code=2).err
    assert "3 of 3" in wakeful("replay", "--all", "--yes", "--rate", "max").out


# stored events

COUNTER = """

@app.agent(on("order.counted"))
async def count(run: Run) -> str:
    return "counted"


@app.agent(on("order.*", where="data.amount > 1"))
async def large(run: Run) -> str:
    return "large"
"""


@pytest.fixture
def grown(folder, dead) -> None:
    """An agent is new, after the events came."""
    (folder / "app.py").write_text(APP + COUNTER)


FEED = ("replay", "--events", "order.*", "--from", "1h ago", "--agent", "count")


def test_a_new_agent_gets_the_events_that_were_there_before_it(wakeful, dead, grown):
    plan = wakeful(*FEED, "--plan", "--json", "--app", "app.py").json
    assert (plan["events"], plan["new"], plan["already_had"]) == (3, 3, 0)
    assert "would hand over 3 at 50/s: 3 events (order.* from " in wakeful(*FEED, "--plan").out
    assert (
        "3 of 3 are ready for agent count"
        in wakeful(*FEED, "--as", "ada", "--note", "new here", "--rate", "max", "--yes").out
    )
    wakeful("once", "app.py", code=None)
    runs = wakeful("runs", "--agent", "count", "--json").json["runs"]
    assert [run["state"] for run in runs] == ["done"] * 3
    again = wakeful(*FEED, "--json").json
    assert (again["redone"], again["of"], again["already_had"]) == (0, 0, 3)
    story = wakeful("why", "1").out
    assert "Agent count took it as run" in story
    assert "(replayed by ada: new here)" in story
    emitted = wakeful(
        "emit", "app.py", "order.paid", "--id", "1", "--data", '{"amount": 1, "where": "nowhere 1"}', "--json"
    )
    assert emitted.json["events"][0]["status"] == "duplicate"


def test_an_agent_that_nobody_heard_of_is_refused_without_the_app(wakeful, dead, grown):
    refused = wakeful(*FEED[:-1], "delivre", code=1).err
    assert (
        'Did you mean "deliver"? If it is new, check its name with --app APP, or skip the check with --yes' in refused
    )
    said = wakeful(*FEED[:-1], "delivre", "--plan").err
    assert 'no agent "delivre" has ever handled an event here. Did you mean "deliver"?' in said
    assert "check its name with --app APP" in said
    assert wakeful(*FEED[:-1], "deliver", "--plan").err == ""


def test_what_an_agent_had_is_not_fed_to_it(wakeful, dead):
    answer = wakeful("replay", "--events", "order.paid", "--from", "1h", "--to", "now", "--agent", "deliver").out
    assert "0 of 0 are ready for agent deliver: 3 events" in answer
    assert "agent deliver already had 3 of them" in answer


def test_policy_is_asked_where_the_app_is_known(wakeful, folder, dead):
    rule = """
from wakeful.model import Decision

def no_twos(facts):
    return Decision("deny", "no_twos", "two is too many") if facts.event.id == "2" else None
"""
    text = (APP + COUNTER).replace('app = App("shop")', f'{rule}\napp = App("shop", rules=(no_twos, *DEFAULT_RULES))')
    (folder / "app.py").write_text("from wakeful.policy.decide import DEFAULT_RULES\n" + text)
    assert wakeful(*FEED, "--app", "app.py", "--json").json["redone"] == 2
    assert "Agent count did nothing, because policy denied it: no_twos: two is too many" in wakeful("why", "2").out
    assert json.loads(wakeful(*FEED, "--json").out)["denied"] == 1


def test_a_group_shows_what_the_newest_says_in_full(wakeful, dead):
    assert "no such place: nowhere … (newest: no such place: nowhere 2)" in wakeful("dead").out
    (group,) = wakeful("dead", "--json").json["groups"]
    assert group["newest_error"] == "no such place: nowhere 2"


def test_dead_does_not_advise_what_it_does_not_take(wakeful, folder, dead):
    (folder / "mended").touch()
    assert "1 of 1 dead letter is ready again" in wakeful("replay", "--error", "nowhere 0").out
    wakeful("once", "app.py", code=None)
    assert f"`wakeful replay {dead[0]} --again` runs it once more" in wakeful("dead", "replay", dead[0], code=1).err


def test_a_dead_letter_is_shown_for_people(wakeful, dead):
    shown = wakeful("dead", "show", dead[0]).out
    for words in (
        f"run {dead[0]}  dead",
        "agent ",
        "over since",
        "error: ",
        "no such place: nowhere 0",
        'data: {"amount":0,"where":"nowhere 0"}',
        "effect charge ",
        f"wakeful replay {dead[0]} ",
        "reusing 1 confirmed effect",
        f"wakeful replay {dead[0]} --data JSON",
        f"wakeful cancel {dead[0]} ",
        f"wakeful dead discard {dead[0]} ",
        f"`wakeful why {dead[0]}`",
    ):
        assert words in shown, words
    wakeful("dead", "discard", dead[0])
    assert "It is not a dead letter" in wakeful("dead", "show", dead[0]).out


def test_the_traceback_of_a_dead_letter_begins_with_a_place(wakeful, dead):
    shown = wakeful("dead", "show", dead[0]).out.splitlines()
    error = next(place for place, line in enumerate(shown) if line.startswith("error: "))
    assert shown[error + 1].startswith('  File "')
