"""What a real process says while its database is away, and when everything that it says is to be JSON."""

from __future__ import annotations

import json
import signal

import pytest

from wakeful.testing.postgres_server import PostgresServer

BEGIN = "the store is unavailable; all parts try again until it is back"


def lines(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.postgres
@pytest.mark.parametrize("command", [("worker",), ("serve", "--port", "0")], ids=["worker", "serve"])
def test_an_outage_of_the_database_is_two_lines(tickets, start, wakeful, command):
    with PostgresServer(fsync=False) as database:
        dsn = database.dsn()
        wakeful("migrate", "--store", dsn)
        name, *options = command
        process = start(name, "app.py", *options, "--log-format", "json", env={"WAKEFUL_STORE": dsn})
        process.wait_for('"message":"working"')
        database.stop()
        process.wait_for(BEGIN)
        database.start()
        process.wait_for('"message":"the store is back"')
        process.signal(signal.SIGINT)
        assert process.end() == 0
    said = lines(process.output)
    about = [line["message"] for line in said if "store" in str(line["message"])]
    assert about == [BEGIN, "the store is back"]
    assert not [line for line in said if "trying again" in str(line["message"])]


def test_with_json_logs_nothing_but_json_is_printed(tickets, start):
    process = start("serve", "app.py", "--port", "0", "--log-format", "json", "--paused")
    process.wait_for('"message":"serving tickets on http')
    process.signal(signal.SIGINT)
    assert process.end() == 0
    messages = [line["message"] for line in lines(process.output)]
    assert "paused: start with `wakeful resume all`" in messages
    assert messages[-1] == "stopped"


def test_with_json_logs_the_last_error_is_json_too(tickets, start):
    process = start("serve", "nowhere.py", "--port", "0", "--log-format", "json")
    assert process.end() == 1
    (last,) = lines(process.output)
    assert last["level"] == "error"
    assert "nowhere.py" in str(last["message"])


def test_with_json_logs_warnings_and_dying_threads_are_json(folder, start):
    (folder / "loud.py").write_text(
        "import threading, warnings\n"
        "from wakeful import App\n"
        "app = App('loud')\n"
        "warnings.warn('old thing')\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='doomed')\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    process = start("once", "loud.py", "--log-format", "json")
    assert process.end() == 0
    said = lines(process.output)
    assert any("old thing" in str(line["message"]) for line in said)
    assert any("doomed" in str(line["message"]) and "ZeroDivisionError" in str(line.get("exception")) for line in said)
