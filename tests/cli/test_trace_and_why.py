from __future__ import annotations

import pytest


@pytest.fixture
def run(wakeful, tickets):
    return wakeful("run", "app.py", "triage", "--data", '{"title": "fire", "severity": 4}', "--here", "--json").json


def test_a_run_as_a_tree(wakeful, run):
    shown = wakeful("trace", run["id"][:7]).out
    assert shown.startswith(f"run {run['id']}  triage  done in ")
    assert "event wakeful.run" in shown
    assert 'data {"title":"fire","severity":4}' in shown
    assert 'step look_up("fire", room=2)  done' in shown
    assert ", 2 tries" in shown
    assert '→ {"contact":"ada"}' in shown
    assert 'step emit ticket.urgent({"title":"fire"})  done' in shown
    assert 'output {"contact":"ada"}' in shown


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_values_are_cut_to_the_width(wakeful, tickets, monkeypatch, columns):
    data = '{"title": "' + "x" * 500 + '"}'
    run = wakeful("run", "app.py", "triage", "--data", data, "--here", "--json").json
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = wakeful("trace", run["id"]).out
    assert max(len(line) for line in shown.splitlines()) <= columns
    assert "…" in shown
    assert wakeful("trace", run["id"], "--full").out.count("x") >= 1000


def test_a_dead_run(wakeful, tickets):
    run = wakeful("run", "app.py", "mend", "--here", "--json", code=1).json
    shown = wakeful("trace", run["id"]).out
    assert "dead  will fail the same way again" in shown
    assert "Persistent: it is [bold]broken[/bold] \\x1b[31mfor good\n          second line\n" in shown
    assert "Traceback" not in shown
    full = wakeful("trace", run["id"], "--full").out
    assert "Traceback (most recent call last):" in full
    assert 'raise Persistent("it is' in full
    assert "\x1b" not in full


def test_a_run_that_waits(wakeful, tickets):
    wakeful("emit", "app.py", "ticket.later", "--id", "1")
    wakeful("once", "app.py")
    (run,) = wakeful("runs", "--json").json["runs"]
    shown = wakeful("trace", run["id"]).out
    assert "attempt 1 failed" in shown
    assert "Transient: come back" in shown
    assert "waiting  failed 1 of 3, told when to retry, due in" in shown
    story = wakeful("why", run["id"]).out
    assert "The run failed at " in story
    assert "Transient: come back." in story
    assert "The run waits until " in story
    assert "(failed 1 of 3, told when to retry)" in story
    assert "No worker is alive on this store" in story


def test_the_story_of_an_event(wakeful, tickets):
    wakeful(
        "emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "a", "severity": 1}', "--source", "/web"
    )
    wakeful(
        "emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "a", "severity": 1}', "--source", "/web"
    )
    wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "b"}', "--source", "/web")
    wakeful("once", "app.py")
    story = wakeful("why", "1").out
    assert story.startswith("Event 1 of type ticket.created came from /web at ")
    assert "It was delivered 2 more times, which started nothing" in story
    assert "it arrived again with different content" in story
    assert "Agent page did nothing, because its condition was not met: " in story
    assert "Agent triage took it as run " in story
    assert "The run is done: it finished at " in story


def test_the_story_as_json(wakeful, tickets):
    wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "a"}')
    by_event = wakeful("why", "1", "--json").json
    assert set(by_event) == {"subject", "event", "admissions", "runs", "story"}
    assert by_event["subject"] == {"kind": "event", "id": "1"}
    assert by_event["event"]["id"] == "1"
    assert [one["agent"] for one in by_event["admissions"]] == ["page", "triage"]
    assert [one["agent"] for one in by_event["runs"]] == ["triage"]
    by_run = wakeful("why", by_event["runs"][0]["id"], "--json").json
    assert by_run["subject"]["kind"] == "run"
    assert "Agent page" not in " ".join(by_run["story"])
    assert wakeful("why", by_event["event"]["key"], "--json").json["subject"] == by_event["subject"]


def test_what_is_not_there(wakeful, tickets):
    wakeful("migrate")
    assert wakeful("trace", "abcdefgh", code=1).err == 'wakeful: there is no run "abcdefgh": see `wakeful runs`\n'
    assert (
        'there is no event, run, effect, delivery, approval, alarm, schedule, source, reminder or expectation "x"'
        in wakeful("why", "x", code=1).err
    )


SHOP = """
from wakeful import App, Operation, Persistent, Run, action, on

app = App("shop")


@action(safety="idempotent")
async def charge(op: Operation, amount: int) -> str:
    return f"charged {amount}"


@app.agent(on("order"), deliver="log")
async def sell(run: Run) -> dict:
    return {"receipt": await run.act(charge, 20)}


@app.agent(on("order"))
async def thank(run: Run) -> None: ...


@app.agent(on("broken"))
async def mend(run: Run) -> None:
    raise Persistent("no")
"""


@pytest.fixture
def shop(wakeful, folder):
    (folder / "app.py").write_text(SHOP)
    wakeful("emit", "app.py", "order", "--id", "o1")
    wakeful("emit", "app.py", "broken", "--id", "b1")
    wakeful("once", "app.py")
    runs = {one["agent"]: one["id"] for one in wakeful("runs", "--json").json["runs"]}
    (effect,) = wakeful("effects", "--json").json["effects"]
    (delivery,) = wakeful("deliveries", "--json").json["deliveries"]
    (alarm,) = wakeful("alarms", "--json").json["alarms"]
    return {**runs, "effect": effect["id"], "delivery": delivery["id"], "alarm": alarm["key"]}


def test_why_takes_every_kind_of_id(wakeful, shop):
    told = wakeful("why", shop["sell"]).out
    assert 'The run returned {"receipt":"charged 20"}.' in told
    for words in (shop["effect"], shop["effect"][:8]):
        told = wakeful("why", words).out
        assert f"Effect {shop['effect']} is charge(20), requested at " in told
        assert f"by run {shop['sell']} of agent sell, which handled event o1" in told
        assert 'after 1 call, and returned "charged 20"' in told
    assert "goes to channel" in wakeful("why", shop["delivery"]).out
    for words in (shop["alarm"], shop["alarm"][:-3]):
        told = wakeful("why", words).out
        assert f"Alarm {shop['alarm']} of app shop is open" in told
        assert f"It is about run {shop['mend']}" in told
    answer = wakeful("why", shop["alarm"], "--json").json
    assert answer["subject"] == {"kind": "alarm", "id": shop["alarm"]}
    assert [one["id"] for one in answer["runs"]] == [shop["mend"]]


def test_trace_takes_every_kind_of_id(wakeful, shop):
    whole = wakeful("trace", shop["sell"]).out
    assert wakeful("trace", shop["effect"]).out == wakeful("trace", shop["delivery"]).out == whole
    of_the_event = wakeful("trace", "o1").out
    assert f"run {shop['sell']}" in of_the_event
    assert f"run {shop['thank']}" in of_the_event
    assert f"run {shop['mend']}" in wakeful("trace", shop["alarm"]).out
    assert wakeful("trace", "b1", "--json").json["id"] == shop["mend"]
    assert len(wakeful("trace", "o1", "--json").json["runs"]) == 2
    wakeful("emit", "app.py", "other", "--id", "u1")
    assert 'no run belongs to "u1": `wakeful why u1`' in wakeful("trace", "u1", code=1).err


def test_a_beginning_of_several_ids_lists_them(wakeful, shop, folder):
    import apsw

    store = apsw.Connection(str(folder / "wakeful.db"))
    first, second = (f"abcdef{digit}" + "0" * 19 for digit in "12")
    for old, new in ((shop["sell"], first), (shop["thank"], second)):
        store.execute("update wakeful_run set id = ?, root = ? where id = ?", (new, new, old))
    store.close()
    for command in ("why", "trace"):
        said = wakeful(command, "abcdef", code=1).err
        assert f"{first} (sell, done)" in said
        assert f"{second} (thank, done)" in said
    store = apsw.Connection(str(folder / "wakeful.db"))
    store.execute("update wakeful_effect set id = ?", ("abcdef1" + "f" * 19,))
    store.close()
    said = wakeful("trace", "abcdef1", code=1).err
    assert f"Run {first} of agent sell, or effect abcdef1ffff" in said


def test_times_are_those_of_the_wall(wakeful, shop, monkeypatch):
    assert " UTC" in wakeful("why", shop["sell"]).out
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "Asia/Kolkata")
    for words in (["why", shop["sell"]], ["why", shop["alarm"]], ["trace", shop["sell"]]):
        shown = wakeful(*words).out
        assert " Asia/Kolkata" in shown
        assert " UTC" not in shown
    monkeypatch.setenv("WAKEFUL_TIME_ZONE", "Asia/Kolkatta")
    assert (
        "no zone 'Asia/Kolkatta' (from WAKEFUL_TIME_ZONE). Did you mean \"Asia/Kolkata\""
        in wakeful("trace", shop["sell"], code=1).err
    )
