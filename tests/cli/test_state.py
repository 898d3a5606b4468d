"""`wakeful state`: what an agent keeps from run to run, shown and changed by a person."""

import pytest

APP = """
from pydantic import BaseModel

from wakeful import App, Run, Transient, on

app = App("desk")


class Seen(BaseModel):
    count: int = 0
    names: list[str] = []


@app.agent(on("ticket.created"), state=Seen)
async def counter(run: Run) -> int:
    run.state.count += 1
    run.state.names.append(run.event.id)
    return run.state.count


@app.agent(on("ticket.plain"))
async def plain(run: Run) -> None: ...


@app.agent(on("ticket.later"), state=Seen)
async def later(run: Run) -> None:
    raise Transient("come back", retry_after="2h")
"""


@pytest.fixture
def kept(wakeful, folder) -> None:
    """An agent that has counted one ticket."""
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "ticket.created", "--id", "a")
    wakeful("once", "app.py")


def value_of(wakeful, agent="counter"):
    (state,) = wakeful("state", "show", agent, "--json").json["states"]
    return state["value"]


def test_show(wakeful, kept, monkeypatch):
    (run,) = wakeful("runs", "--json").json["runs"]
    (state,) = wakeful("state", "--json").json["states"]
    assert (state["app"], state["agent"], state["version"], state["changed_by"]) == ("desk", "counter", 1, run["id"])
    assert state["value"] == {"count": 1, "names": ["a"]}
    monkeypatch.setenv("COLUMNS", "80")
    assert f"counter  1        {run['id'][:10]}" in wakeful("state").out
    shown = wakeful("state", "show", "counter").out
    assert "counter (app desk), version 1, changed by" in shown
    assert '"count": 1' in shown


def test_set_and_clear_are_seen_by_the_next_run(wakeful, kept):
    answer = wakeful("state", "set", "counter", '{"count": 41}', "--note", "moved", "--as", "ada").out
    assert answer == "state of counter (app desk): set, version 2\n"
    assert wakeful("state", "show", "counter", "--json").json["states"][0]["changed_by"] == "ada"
    assert "changed by ada now (moved)" in wakeful("state", "show", "counter").out
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("once", "app.py")
    assert value_of(wakeful) == {"count": 42, "names": ["b"]}
    assert wakeful("state", "clear", "counter", "--json").json == {"app": "desk", "agent": "counter", "version": 4}
    assert value_of(wakeful) is None
    assert "no state is stored: the next run starts with the model" in wakeful("state", "show", "counter").out
    wakeful("emit", "app.py", "ticket.created", "--id", "c")
    wakeful("once", "app.py")
    assert value_of(wakeful) == {"count": 1, "names": ["c"]}


def test_from_a_file(wakeful, folder, kept):
    (folder / "state.json").write_text('{"count": 7}')
    wakeful("state", "set", "counter", "@state.json")
    assert value_of(wakeful) == {"count": 7}


def test_with_the_app_what_does_not_fit_is_refused_with_every_field(wakeful, kept):
    refused = wakeful("state", "set", "counter", '{"count": "x", "names": 1}', "--app", "app.py", code=2).err
    assert "that does not fit Seen: count: Input should be a valid integer" in refused
    assert "; names: Input should be a valid" in refused
    assert value_of(wakeful) == {"count": 1, "names": ["a"]}
    wakeful("state", "set", "counter", '{"count": 5}', "--app", "app.py")
    assert value_of(wakeful) == {"count": 5}


def test_an_agent_that_nobody_has_run_is_set_where_the_app_is_named(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("migrate")
    assert 'no agent "later" has run here.' in wakeful("state", "set", "later", "{}", code=1).err
    wakeful("state", "set", "later", '{"count": 3}', "--app", "app.py")
    assert value_of(wakeful, "later") == {"count": 3}


def test_several_apps_have_an_agent_of_that_name(wakeful, folder, kept):
    (folder / "other.py").write_text(APP.replace('"desk"', '"other"'))
    wakeful("emit", "other.py", "ticket.created", "--id", "z")
    wakeful("once", "other.py")
    assert (
        "is in several apps (desk, other): choose one with --of NAME"
        in wakeful("state", "set", "counter", "{}", code=2).err
    )
    wakeful("state", "set", "counter", '{"count": 9}', "--of", "other")
    (state,) = wakeful("state", "show", "counter", "--of", "other", "--json").json["states"]
    assert state["value"] == {"count": 9}
    assert [one["app"] for one in wakeful("state", "show", "counter", "--json").json["states"]] == ["desk", "other"]
    assert "app    agent" in wakeful("state").out
    conflict = wakeful("state", "set", "counter", "{}", "--of", "desk", "--app", "other.py", code=2).err
    assert "--of desk and --app (other) name different apps" in conflict


def test_an_agent_without_a_state_is_doubted_or_refused(wakeful, kept):
    wakeful("emit", "app.py", "ticket.plain", "--id", "p")
    wakeful("once", "app.py")
    refused = wakeful("state", "set", "plain", "{}", "--app", "app.py", code=1).err
    assert "agent plain has no state: declare one with @app.agent(…, state=Model)" in refused
    assert "no run of agent plain has saved a state yet" in wakeful("state", "set", "plain", "{}").err


def test_nothing_yet(wakeful, folder):
    wakeful("migrate")
    assert "no agent keeps a state here yet" in wakeful("state").out


def test_a_run_that_waits_for_its_turn_says_whose_it_is(wakeful, kept):
    for name in ("first", "second"):
        wakeful("emit", "app.py", "ticket.later", "--id", name)
    wakeful("once", "app.py", code=None)
    first, second = (wakeful("runs", "--event", one, "--json").json["runs"][0] for one in ("first", "second"))
    assert (first["state"], second["state"]) == ("waiting", "ready")
    story = wakeful("why", "second").out
    assert (
        f"The run waits for its turn: runs of agent later execute one at a time, and run {first['id']} holds the state."
        in story
    )
    assert "The run waits until" in wakeful("why", "first").out
    assert f"run {first['id']} holds it now" in wakeful("state", "show", "later").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sett", "counter", "1"), 'there is no "state sett". Did you mean "set"?'),
        (("set", "counter"), "state set takes an AGENT and JSON (or @file)"),
        (("clear",), "state clear takes an AGENT"),
        (("show", "a", "b"), "state show takes at most one AGENT"),
        (("show", "conuter"), 'agent "conuter" keeps no state here. Did you mean "counter"?'),
        (("set", "conuter", "1"), 'no agent "conuter" has run here. Did you mean "counter"?'),
        (("set", "conuter", "1", "--app", "app.py"), 'app desk has no agent "conuter". Did you mean "counter"?'),
        (("set", "counter", "{"), "state set: data is not JSON"),
        (("set", "counter", "@gone.json"), "state set @gone.json: No such file"),
        (("show", "--app", "ap.py"), "there is no file ap.py"),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, kept, words, said):
    assert said in wakeful("state", *words, code=None).err
