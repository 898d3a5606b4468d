from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import apsw
import pytest

from support.tokens import TOKEN

SKIPPING = """
from wakeful import App, Run, on

app = App("desk")


@app.agent(on("go"), overlap="skip")
async def nightly(run: Run) -> None: ...
"""


def operations(folder):
    connection = apsw.Connection(str(folder / "wakeful.db"))
    try:
        return list(
            connection.execute("select operator, verb, app, target, detail from wakeful_operation order by seq")
        )
    finally:
        connection.close()


def test_an_event_is_stored_and_answered_as_over_http(wakeful, tickets):
    answer = wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "a"}', "--id", "1", "--json").json
    (event,) = answer["events"]
    assert {**event, "runs": len(event["runs"])} == {"source": "/cli", "id": "1", "status": "accepted", "runs": 1}


def test_in_words(wakeful, tickets):
    result = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "a"}')
    assert result.out.startswith("accepted 1 → run ")
    assert result.err == (
        "wakeful: no worker is alive on this store: run `wakeful once app.py` or `wakeful serve app.py`\n"
    )
    again = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "a"}')
    assert again.out == result.out.replace("accepted", "duplicate")
    other = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", '{"title": "b"}')
    assert "used before with different content" in other.err


def test_an_event_for_nobody(wakeful, tickets):
    result = wakeful("emit", "app.py", "ticket.craeted", "--id", "1")
    assert result.out == "unmatched 1\n"
    assert 'Did you mean "ticket.created"?' in result.err


def test_an_event_that_came_too_soon(wakeful, folder):
    """An earlier run is not over, and the agent wants no second one."""
    (folder / "app.py").write_text(SKIPPING)
    first = wakeful("emit", "app.py", "go", "--id", "1", "--json").json["events"][0]
    assert "skipped" not in first
    result = wakeful("emit", "app.py", "go", "--id", "2")
    assert result.out == "accepted 2\n"
    words = f'overlap="skip": run {first["runs"][0]} was not over'
    assert result.err == f"wakeful: skipped by agent nightly: {words}\n"
    (event,) = wakeful("emit", "app.py", "go", "--id", "3", "--json").json["events"]
    assert event["skipped"] == {"nightly": words}


def test_all_attributes(wakeful, tickets):
    wakeful(
        "emit", "app.py", "ticket.odd", "--id", "1", "--source", "/web", "--subject", "printer", "--set", "severity=high"
    )  # fmt: skip
    story = wakeful("why", "1", "--json").json
    envelope = story["event"]["envelope"]
    assert envelope["source"] == "/web"
    assert envelope["subject"] == "printer"
    assert envelope["severity"] == "high"


def test_an_event_that_has_expired(wakeful, tickets):
    result = wakeful("emit", "app.py", "ticket.created", "--id", "1", "--set", "expirytime=2020-01-01T00:00:00Z")
    assert result.out == "expired 1\n"
    assert "Nothing ran, because its expirytime had passed when it arrived." in wakeful("why", "1").out


@pytest.mark.parametrize("way", ["@", "-"])
def test_data_from_a_file_or_standard_input(wakeful, tickets, monkeypatch, way):
    (tickets / "data.json").write_text('{"title": "from outside"}')
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"title": "from outside"}')))
    wakeful("emit", "app.py", "ticket.created", "--id", "1", "--data", "@data.json" if way == "@" else "-")
    assert wakeful("why", "1", "--json").json["event"]["envelope"]["data"] == {"title": "from outside"}


def test_who_did_it_is_written_down(wakeful, tickets, monkeypatch):
    monkeypatch.setenv("LOGNAME", "grace")
    wakeful("emit", "app.py", "ticket.odd", "--id", "1", "--as", "ada")
    wakeful("emit", "app.py", "ticket.odd", "--id", "2")
    run = wakeful("run", "app.py", "page", "--id", "3", "--as", "ada", "--json").json["id"]
    assert operations(tickets) == [
        ("ada", "emit", "tickets", "1", "ticket.odd from /cli: unmatched"),
        ("grace", "emit", "tickets", "2", "ticket.odd from /cli: unmatched"),
        ("ada", "run", "tickets", run, "agent page: accepted"),
    ]


def test_run_an_agent_and_wait_for_its_output(wakeful, tickets):
    result = wakeful("run", "app.py", "triage", "--data", '{"title": "a"}', "--wait")
    assert result.json == {"contact": "ada"}


def test_run_and_wait_as_json_is_the_run(wakeful, tickets):
    run = wakeful("run", "app.py", "triage", "--data", '{"title": "b"}', "--here", "--json").json
    assert run["state"] == "done"
    assert run["output"] == {"contact": "ada"}
    assert run == wakeful("trace", run["id"], "--json").json


def test_run_without_waiting(wakeful, tickets):
    result = wakeful("run", "app.py", "page", "--id", "1")
    assert result.out.startswith("accepted 1 → run ")
    assert "no worker is alive" in result.err
    identifier = result.out.split()[-1]
    assert wakeful("trace", identifier, "--json").json["state"] == "ready"


def test_an_agent_that_takes_no_second_run_says_so(wakeful, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(
        'from wakeful import App, Run\n\napp = App("one")\n\n\n@app.agent(overlap="skip")\nasync def work(run: Run) -> None: ...\n'
    )
    first = wakeful("run", "work", "--json").json["id"]
    for number, more in enumerate(((), ("--wait",))):
        result = wakeful("run", "work", "--id", f"second-{number}", *more, code=1)
        assert f"second-{number}, but agent work started no run: " in result.err
        assert first[:10] in result.err
    answer = wakeful("run", "work", "--id", "third", "--json", code=1).json
    assert (answer["id"], answer["runs"]) == ("third", [])


def test_a_run_that_dies(wakeful, tickets):
    result = wakeful("run", "app.py", "mend", "--wait", code=1)
    assert (
        "wakeful: dead: Persistent: it is [bold]broken[/bold] \\x1b[31mfor good\n  second line\nwakeful: see `wakeful trace "
        in result.err
    )


def test_data_that_does_not_fit_is_a_dead_letter(wakeful, tickets):
    assert "title: Field required" in wakeful("run", "app.py", "triage", "--data", "{}", "--wait", code=1).err


def test_a_wait_that_is_too_long(wakeful, tickets):
    result = wakeful("run", "app.py", "later", "--wait", "--timeout", "1s", code=1)
    assert "waiting, failed 1 of 3, told when to retry: Transient: come back" in result.err
    assert "not finished after 1 s; the run continues" in result.err


def test_an_agent_that_is_not_there(wakeful, tickets):
    result = wakeful("run", "app.py", "triag", code=1)
    assert result.err == 'wakeful: app tickets has no agent "triag". Did you mean "triage"?\n'
    assert not (tickets / "wakeful.db").exists()


def test_a_running_worker_is_left_to_do_it(wakeful, tickets, start):
    worker = start("worker", "app.py")
    worker.wait_for("working for tickets")
    result = wakeful("run", "app.py", "page", "--wait")
    assert json.loads(result.out) == "paged"
    assert "workers alive: 1" in result.err


def test_to_a_server(wakeful, tickets, start):
    server = start("serve", "app.py", "--port", "0", env={"WAKEFUL_TOKEN": TOKEN})
    url = server.wait_for(r"on (http://\S+)")[1]
    refused = wakeful("emit", "ticket.odd", "--url", url, code=1)
    assert "answered 401" in refused.err
    assert "Set WAKEFUL_TOKEN" in refused.err


def test_to_a_server_with_its_token(wakeful, tickets, start, monkeypatch):
    server = start("serve", "app.py", "--port", "0", env={"WAKEFUL_TOKEN": TOKEN})
    url = server.wait_for(r"on (http://\S+)")[1]
    monkeypatch.setenv("WAKEFUL_TOKEN", TOKEN)
    assert wakeful("emit", "ticket.odd", "--url", url, "--id", "1").out == "unmatched 1\n"
    answer = wakeful("emit", "ticket.odd", "--url", url, "--id", "1", "--json").json
    assert answer["events"][0]["status"] == "duplicate"


def test_to_a_server_that_is_not_there(wakeful):
    said = wakeful("emit", "ticket.odd", "--url", "http://127.0.0.1:9", "--id", "1", code=1).err
    assert "cannot reach http://127.0.0.1:9/v1/events" in said
    assert "Retry safely with --id 1" in said


def test_without_app_the_one_of_this_folder_or_of_the_environment_is_used(tmp_path, monkeypatch, capsys):
    from wakeful.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WAKEFUL_APP", raising=False)
    assert main(["emit", "go"]) == 2
    assert "WAKEFUL_APP or ./app.py is used" in capsys.readouterr().err
    source = 'from wakeful import App, Run, on\n\napp = App("here")\n\n\n@app.agent(on("go"))\nasync def work(run: Run) -> str:\n    return "done"\n'
    (tmp_path / "app.py").write_text(source)
    assert main(["emit", "go", "--json"]) == 0
    assert '"accepted"' in capsys.readouterr().out
    (tmp_path / "app.py").rename(tmp_path / "other.py")
    monkeypatch.setenv("WAKEFUL_APP", "other.py")
    assert main(["run", "work", "--wait"]) == 0
    assert "done" in capsys.readouterr().out
