from __future__ import annotations

import asyncio

import httpx2
import pytest

from wakeful.loading import load_app
from wakeful.reader import Reader
from wakeful.shell.opening import reading


@pytest.fixture
def worked(wakeful, tickets):
    """Some events, worked on: done, dead, denied, waiting, unmatched, a duplicate."""
    for number, (kind, data) in enumerate(
        [
            ("ticket.created", '{"title": "fire", "severity": 3}'),
            ("ticket.broken", "null"),
            ("ticket.secret", "null"),
            ("ticket.later", "null"),
            ("other", '{"text": "\\u001b[31mred [bold]"}'),
        ],
        start=1,
    ):
        wakeful("emit", "app.py", kind, "--id", f"e{number}", "--data", data)
    wakeful("emit", "app.py", "other", "--id", "e5", "--data", '{"text": "\\u001b[31mred [bold]"}')
    assert wakeful("once", "app.py").out == "wakeful: 1 dead, 1 denied, 2 done now; 1 waiting left for later\n"
    return tickets


def test_runs(wakeful, worked):
    shown = wakeful("runs").out.splitlines()
    assert shown[0].split() == ["run", "agent", "state", "tries", "took", "event", "made", "note"]
    assert len(shown) == 6
    assert any("mend" in line and "dead" in line and "will fail the same way again" in line for line in shown)


def test_runs_as_json_are_those_of_the_reader_and_of_http(wakeful, worked, start):
    page = wakeful("runs", "--limit", "2", "--json").json

    async def ask():
        async with reading("sqlite:///wakeful.db") as reader:
            return await Reader(reader.database).runs(limit=2)

    assert page == asyncio.run(ask())
    server = start("serve", "app.py", "--port", "0")
    url = server.wait_for(r"on (http://\S+)")[1]
    for words, path in (
        (["runs", "--limit", "2"], "/v1/runs?limit=2"),
        (["events", "--state", "unmatched"], "/v1/events?state=unmatched"),
        (["alarms"], "/v1/alarms"),
        (["trace", page["runs"][0]["id"]], f"/v1/runs/{page['runs'][0]['id']}"),
        (["why", "e2"], "/v1/why/e2"),
    ):
        assert wakeful(*words, "--json").json == httpx2.get(url + path, trust_env=False).json()


def test_filters(wakeful, worked):
    def agents(*words):
        return [run["agent"] for run in wakeful("runs", "--json", *words).json["runs"]]

    assert agents("--state", "dead") == ["mend"]
    assert agents("--agent", "peek") == ["peek"]
    assert sorted(agents("--event", "e1")) == ["page", "triage"]
    assert agents("--agent", "nobody") == []
    assert wakeful("runs", "--agent", "nobody").out == "no matching runs\n"
    assert [one["id"] for one in wakeful("events", "--json", "--type", "other").json["events"]] == ["e5"]
    assert [one["id"] for one in wakeful("events", "--json", "--event", "e3").json["events"]] == ["e3"]


def test_runs_by_what_they_touched(wakeful, folder, monkeypatch):
    (folder / "app.py").write_text(
        "from wakeful import App, Operation, Run, action, on\n"
        "app = App('shop')\n"
        "@action(safety='idempotent')\n"
        "async def refund(op: Operation) -> None: ...\n"
        "@app.agent(on('returned'))\n"
        "async def give_back(run: Run) -> None: await run.act(refund)\n"
        "@app.agent(on('*'))\n"
        "async def note(run: Run) -> None: ...\n"
    )
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = f"00-{trace}-00f067aa0ba902b7-01"
    wakeful("emit", "app.py", "returned", "--subject", "8841", "--set", f"traceparent={parent}")
    wakeful("emit", "app.py", "placed", "--subject", "8842")
    wakeful("once", "app.py")

    def agents(*words):
        return sorted(run["agent"] for run in wakeful("runs", "--json", *words).json["runs"])

    assert agents("--subject", "8841") == ["give_back", "note"]
    assert agents("--action", "refund") == ["give_back"]
    assert (
        agents("--trace", trace) == agents("--trace", trace[:8]) == agents("--trace", parent) == ["give_back", "note"]
    )
    assert agents("--since", "1h") == agents("--since", "today") == ["give_back", "note", "note"]
    assert agents("--since", "1h", "--subject", "8842") == ["note"]
    assert agents("--until", "1h") == agents("--until", "yesterday") == []
    assert wakeful("runs", "--subject", "9").out == "no matching runs\n"
    assert 'runs: --since: "sometime" cannot be read as a time' in wakeful("runs", "--since", "sometime", code=2).err


def test_pages(wakeful, worked):
    first = wakeful("runs", "--limit", "4", "--json").json
    second = wakeful("runs", "--limit", "4", "--json", "--after", first["next"]).json
    assert len(first["runs"]) + len(second["runs"]) == 5
    assert second["next"] is None
    assert f"more runs: --after {first['next']}" in wakeful("runs", "--limit", "4").out
    assert "--after: not a cursor" in wakeful("runs", "--after", "x", code=2).err


def test_events(wakeful, worked):
    shown = wakeful("events").out
    assert "arrived 2 times" in shown
    assert "no agent takes type other" in shown


def test_nothing_yet_says_what_to_do(wakeful, tickets):
    assert "there is no store at sqlite:///wakeful.db yet" in wakeful("runs", code=1).err
    assert not (tickets / "wakeful.db").exists()
    wakeful("migrate")
    assert wakeful("runs").out.startswith("no runs yet. Send an event with `wakeful emit APP TYPE`")
    assert wakeful("events").out.startswith("no events yet.")
    assert wakeful("alarms").out == "no alarms\n"
    assert wakeful("runs", "--json").json == {"runs": [], "next": None}


@pytest.mark.parametrize("content", [b"hello, this is not a database, only some text that is long enough" * 20, b""])
def test_a_file_that_is_no_store_stays_as_it_is(wakeful, folder, content):
    (folder / "wakeful.db").write_bytes(content)
    assert "is not a Wakeful store" in wakeful("runs", code=1).err
    assert (folder / "wakeful.db").read_bytes() == content
    assert [one.name for one in folder.iterdir()] == ["wakeful.db"]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("words", [["runs"], ["events"], ["alarms"], ["why", "e1"], ["check", "app.py"], ["doctor"]])
def test_nothing_is_wider_than_the_terminal(wakeful, worked, monkeypatch, columns, words):
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in wakeful(*words, code=None).out.splitlines():
        assert len(line) <= columns


@pytest.mark.parametrize("columns", [40, 60, 80, 99, 120])
def test_runs_keep_their_reason_on_a_narrow_terminal(wakeful, worked, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = " ".join(wakeful("runs").out.split())
    assert "fail the same way again" in shown
    assert "not for you" in shown


def test_alarms(wakeful, worked):
    shown = wakeful("alarms").out
    assert "dead/tickets/mend/" in shown
    assert "\x1b" not in shown
    assert wakeful("alarms", "--state", "resolved").out == "no alarms in state resolved\n"
    assert len(wakeful("alarms", "--json", "--limit", "1").json["alarms"]) == 1


def test_colours_only_on_a_terminal(wakeful, worked, monkeypatch):
    assert "\x1b" not in wakeful("runs").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in wakeful("runs").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in wakeful("runs").out


def test_a_schema_that_is_behind(wakeful, folder, postgres_dsn):
    said = wakeful("runs", "--store", postgres_dsn, code=1).err
    assert "the schema is behind" in said
    assert "wakeful migrate" in said


def test_on_postgresql(wakeful, tickets, postgres_dsn):
    store = ("--store", postgres_dsn)
    wakeful("migrate", *store)
    wakeful("emit", "app.py", "ticket.broken", "--id", "1", *store)
    wakeful("once", "app.py", *store)
    (run,) = wakeful("runs", "--state", "dead", "--json", *store).json["runs"]
    assert wakeful("trace", run["id"][:8], "--json", *store).json["id"] == run["id"]
    assert "The run is dead" in wakeful("why", "1", *store).out
    assert load_app("app.py").store is None


def test_one_run_is_shown_with_what_can_be_done_about_it(wakeful, worked):
    runs = {run["state"]: run["id"] for run in wakeful("runs", "--json").json["runs"]}
    dead = wakeful("runs", "show", runs["dead"][:8]).out
    assert f"run {runs['dead']}  dead" in dead
    assert f"wakeful replay {runs['dead']} " in dead
    done = wakeful("runs", "show", runs["done"]).out
    assert f"`wakeful why {runs['done']}` explains it" in done
    assert "What can be done" not in done
    assert "not over yet" in wakeful("runs", "show", runs["waiting"]).out
    assert wakeful("runs", "show", runs["done"], "--json").json == wakeful("trace", runs["done"], "--json").json


def test_verbs_of_runs_are_also_commands_of_their_own(wakeful, worked):
    (waiting,) = wakeful("runs", "--state", "waiting", "--json").json["runs"]
    (done, *_) = wakeful("runs", "--state", "done", "--json").json["runs"]
    refused = wakeful("runs", "cancel", waiting["id"], done["id"], "--json", code=1)
    assert [one["refused"] is None for one in refused.json["runs"]] == [True, False]
    assert f"run {done['id']} is done" in refused.err
    assert "cancel takes one or more RUNs" in wakeful("runs", "cancel", code=2).err
    assert "release takes one RUN" in wakeful("runs", "release", done["id"], waiting["id"], code=2).err
