"""`wakeful pause`, `wakeful resume` and `wakeful serve --paused`."""

import asyncio
import signal
from argparse import Namespace

import apsw
import pytest

from wakeful.cli.http_server import HttpServer
from wakeful.cli.listening import bind
from wakeful.cli.serve import _serve, declare_serve
from wakeful.loading import load_app
from wakeful.shell.arguments import Parser
from wakeful.shell.life import Stopping

APP = """
from wakeful import App, Run, on

app = App("desk")


@app.agent(on("ticket.created"))
async def triage(run: Run) -> None:
    print("triaged", run.event.id, flush=True)


@app.agent(on("ticket.created"))
async def bill(run: Run) -> None: ...
"""


@pytest.fixture
def desk(wakeful, folder) -> None:
    """An app that has worked once."""
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "ticket.created", "--id", "a")
    wakeful("once", "app.py")


def states(wakeful) -> dict[str, str]:
    return {run["agent"]: run["state"] for run in wakeful("runs", "--limit", "2", "--json").json["runs"]}


def test_pausing_an_agent(wakeful, desk):
    said = wakeful("pause", "triage", "--note", "wrong prices", "--as", "ada").out
    assert said == (
        "agent triage (app desk) is paused: runs in flight finish, no more are claimed. "
        "Resume with `wakeful resume triage`\n"
    )
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "ready", "bill": "done"}
    (run,) = wakeful("runs", "--agent", "triage", "--state", "ready", "--json").json["runs"]
    told = wakeful("why", run["id"]).out
    assert "by ada (wrong prices): no run of it is claimed." in told
    assert "wakeful resume triage" in told
    assert wakeful("resume", "triage").out == "agent triage (app desk) is resumed\n"
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "done", "bill": "done"}


def test_pausing_all(wakeful, desk):
    assert wakeful("pause", "all").out.startswith("all of app desk is paused: ")
    assert wakeful("pause", "all").out == "all of app desk was already paused\n"
    wakeful("pause", "bill")
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "ready", "bill": "ready"}
    said = wakeful("resume", "all", "--rate", "10/s").out
    assert (
        said
        == "all of app desk is resumed, at most 10 in 1 s until the backlog is done\nstill paused: agent bill (app desk)\n"
    )
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "done", "bill": "ready"}


def test_the_listing(wakeful, desk):
    assert wakeful("pause").out == "nothing is paused\n"
    wakeful("pause", "triage", "--note", "wrong prices", "--as", "ada")
    wakeful("pause", "all", "--as", "bob")
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("resume", "all", "--rate", "1/h")
    pauses = wakeful("pause", "--json").json["pauses"]
    shown = [(one["app"], one["agent"], one["paused"], one["rate"], one["by"], one["note"]) for one in pauses]
    assert shown[0][:4] == ("desk", None, False, "1/h")
    assert shown[1] == ("desk", "triage", True, None, "ada", "wrong prices")
    lines = wakeful("pause").out.splitlines()
    assert "resuming at 1/h" in lines[1]
    assert "wrong prices" in lines[2]


def test_who_did_it_is_recorded(wakeful, desk, folder):
    wakeful("pause", "triage", "--as", "ada", "--json")
    wakeful("resume", "triage", "--as", "bob", "--rate", "5/s", "--json")
    connection = apsw.Connection(str(folder / "wakeful.db"))
    rows = list(connection.execute("select operator, verb, app, target, detail from wakeful_operation order by seq"))
    connection.close()
    assert rows[-2:] == [("ada", "pause", "desk", "triage", None), ("bob", "resume", "desk", "triage", "at 5/s")]


def test_an_unknown_agent(wakeful, desk):
    said = wakeful("pause", "triaje", code=1).err
    assert 'there is no agent "triaje" that has been loaded or has run here. Did you mean "triage"?' in said
    assert wakeful("pause").out == "nothing is paused\n"


def test_resuming_what_is_not_paused(wakeful, desk):
    assert "agent triage is not paused" in wakeful("resume", "triage", code=1).err
    wakeful("pause", "all")
    assert "but its whole app is: use `wakeful resume all`" in wakeful("resume", "triage", code=1).err
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("resume", "all", "--rate", "1/h")
    assert wakeful("resume", "triage", code=1).err == "wakeful: agent triage is not paused\n"


def test_an_app_that_nobody_knows(wakeful, desk):
    said = wakeful("pause", "all", "--of", "deks", code=1).err
    assert 'no app "deks" has used this store yet. Did you mean "desk"?' in said
    assert wakeful("pause").out == "nothing is paused\n"


def test_resuming_all_when_only_one_is_paused(wakeful, desk):
    assert "no app is paused as a whole\n" in wakeful("resume", "all", code=1).err
    wakeful("pause", "triage")
    assert "no app is paused as a whole; triage by name" in wakeful("resume", "all", code=1).err


def test_doctor_sees_a_pause(wakeful, desk):
    wakeful("pause", "all")
    assert "! paused        all of app desk" in wakeful("doctor", code=1).out


def test_a_rate_that_is_none(wakeful, desk):
    assert "is not a rate" in wakeful("resume", "all", "--rate", "fast", code=2).err


def test_of_several_apps(wakeful, desk, folder):
    (folder / "other.py").write_text(APP.replace('"desk"', '"shop"'))
    wakeful("emit", "other.py", "ticket.created", "--id", "a")
    wakeful("once", "other.py")
    assert "is in several apps (desk, shop): choose one with --of NAME" in wakeful("pause", "triage", code=1).err
    wakeful("pause", "triage", "--of", "shop")
    wakeful("pause", "all")
    shown = [(one["app"], one["agent"]) for one in wakeful("pause", "--json").json["pauses"]]
    assert shown == [("desk", None), ("shop", None), ("shop", "triage")]
    assert [one["app"] for one in wakeful("pause", "--of", "desk", "--json").json["pauses"]] == ["desk"]


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_beginning_paused(wakeful, desk, start, command):
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    words = ["--port", "0"] if command == "serve" else []
    server = start(command, "app.py", "--paused", *words)
    server.wait_for("paused: start with `wakeful resume all`")
    server.wait_for("wakeful: (serving|working for) desk")
    assert states(wakeful) == {"triage": "ready", "bill": "ready"}
    wakeful("resume", "all")
    server.wait_for("triaged b")
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def test_it_is_paused_before_it_answers(wakeful, desk, folder, monkeypatch):
    """Whoever finds it ready may resume it: what were paused only after that would stay so."""
    seen: list[object] = []
    startup = HttpServer.startup

    async def looking(server: HttpServer, sockets: object = None) -> None:
        connection = apsw.Connection(str(folder / "wakeful.db"))
        seen.extend(connection.execute("select agent, paused from wakeful_pause"))
        connection.close()
        await startup(server, sockets=sockets)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpServer, "startup", looking)
    parser = Parser()
    declare_serve(parser)
    arguments: Namespace = parser.read(["app.py", "--paused", "--port", "0"])

    async def serve_and_stop() -> None:
        stopping = Stopping()
        stopping.asked.set()
        with bind(arguments.host, arguments.port) as listener:
            await _serve(load_app("app.py"), arguments, listener, None, stopping)

    asyncio.run(serve_and_stop())
    assert seen == [("", 1)]
