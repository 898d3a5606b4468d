"""`wakeful halt`: nothing more is claimed, called or delivered, and what is under way is told."""

import signal

import apsw
import pytest

from support.command_line import wait_until

APP = """
import asyncio
import pathlib

from wakeful import App, Operation, Run, action, on

app = App("desk")


async def take_back(op: Operation, number: int) -> None:
    print("took back", number, flush=True)


@action(safety="idempotent", undo=take_back)
async def refund(op: Operation, number: int) -> None:
    print("refunding", number, flush=True)
    while pathlib.Path("wait").exists():
        await asyncio.sleep(0.01)
    print("refunded", number, flush=True)


@app.agent(on("ticket.created"))
async def triage(run: Run) -> None:
    await run.act(refund, 1)
    await run.act(refund, 2)


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


def test_an_agent(wakeful, desk):
    said = wakeful("halt", "triage", "--note", "wrong prices", "--as", "ada").out
    assert said == (
        "agent triage (app desk) is halted: nothing of it is claimed, called, retried or delivered any more. "
        "Lift with `wakeful halt triage --lift`\nno call is under way\n"
    )
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "ready", "bill": "done"}
    (run,) = wakeful("runs", "--agent", "triage", "--state", "ready", "--json").json["runs"]
    told = wakeful("why", run["id"]).out
    assert "by ada (wrong prices): nothing of it is claimed, called or delivered." in told
    assert "wakeful halt triage --lift" in told
    assert wakeful("halt", "triage", "--lift").out == "agent triage (app desk) is no longer halted\n"
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "done", "bill": "done"}


def test_an_action(wakeful, desk):
    (halt,) = wakeful("halt", "--action", "refund", "--json").json["halts"]
    assert halt == {
        "app": "desk",
        "agent": None,
        "action": "refund",
        "was_halted": False,
        "calls": [],
        "deliveries": [],
        "cancelled": [],
    }
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "parked", "bill": "done"}
    lines = wakeful("halt").out.splitlines()
    assert lines[1].split()[:4] == ["desk", "action", "refund", "1"]
    assert "! halted        action refund (app desk)" in wakeful("doctor", code=1).out
    lifted = wakeful("halts", "lift", "--action", "refund").out
    assert lifted == "action refund (app desk) is no longer halted: 1 run ready again\n"
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "done", "bill": "done"}


def test_all(wakeful, desk):
    assert wakeful("halt", "all", "--plan").out == "all of app desk would be halted\nno call is under way\n"
    assert wakeful("halt").out == "nothing is halted\n"
    assert wakeful("halt", "all").out.startswith("all of app desk is halted: ")
    assert wakeful("halt", "all").out.startswith("all of app desk was already halted\n")
    wakeful("halt", "bill")
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "ready", "bill": "ready"}
    said = wakeful("halt", "all", "--lift").out
    assert said == "all of app desk is no longer halted\nstill halted: agent bill (app desk)\n"
    wakeful("once", "app.py")
    assert states(wakeful) == {"triage": "done", "bill": "ready"}


def test_a_call_under_way_is_told_and_finishes(wakeful, desk, folder, start):
    worker = start("worker", "app.py")
    worker.wait_for("working for desk")
    (folder / "wait").touch()
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    worker.wait_for("refunding 1")
    said = wakeful("halt", "triage", "--as", "ada").out.splitlines()
    (run,) = wakeful("runs", "--agent", "triage", "--state", "running", "--json").json["runs"]
    assert said[1] == "1 call under way:"
    assert said[2].startswith(f"  refund of run {run['id']} (agent triage), since ")
    assert "--cancel cancels the runs" in said[3]
    (folder / "wait").unlink()
    worker.wait_for_all("refunded 1", "parked")
    wait_until(lambda: states(wakeful) == {"triage": "parked", "bill": "done"})
    wakeful("halt", "triage", "--lift")
    worker.wait_for("refunded 2")
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def test_cancel(wakeful, desk, folder, start):
    worker = start("worker", "app.py")
    worker.wait_for("working for desk")
    (folder / "wait").touch()
    wakeful("emit", "app.py", "ticket.created", "--id", "b")
    worker.wait_for("refunding 1")
    said = wakeful("halt", "all", "--cancel", "--note", "wrong prices").out.splitlines()
    assert said[-1] == "1 run to be cancelled: the calls finish, nothing more begins, and the effects are undone"
    (folder / "wait").unlink()
    worker.wait_for("took back 1")  # a person asked for it: the halt does not stop it
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    assert states(wakeful)["triage"] == "cancelled"


def test_who_did_it_is_recorded(wakeful, desk, folder):
    wakeful("halt", "triage", "--as", "ada", "--note", "wrong prices", "--json")
    wakeful("halt", "--action", "refund", "--as", "bob")
    wakeful("halt", "triage", "--lift", "--as", "bob", "--json")
    connection = apsw.Connection(str(folder / "wakeful.db"))
    rows = list(connection.execute("select operator, verb, app, target, detail from wakeful_operation order by seq"))
    connection.close()
    assert rows[-3:] == [
        ("ada", "halt", "desk", "agent triage", "wrong prices"),
        ("bob", "halt", "desk", "action refund", None),
        ("bob", "halt lift", "desk", "agent triage", None),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("halt", "triaje"), 'there is no agent "triaje" that has been loaded or has run here. Did you mean "triage"?'),
        (("halt", "--action", "refnd"), 'no action "refnd" has been used here. Did you mean "refund"?'),
        (("halt", "--action", "refund", "--of", "deks"), 'no action "refund" has been used by app deks.'),
        (("halt", "all", "--of", "deks"), 'no app "deks" has used this store yet. Did you mean "desk"?'),
        (("halt", "wakeful.alarm"), "they are never halted"),
        (("halt", "triage", "--lift"), "agent triage is not halted; nothing is halted"),
    ],
)
def test_what_does_not_exist(wakeful, desk, words, said):
    assert said in wakeful(*words, code=1).err
    assert wakeful("halt").out == "nothing is halted\n"


@pytest.mark.parametrize(
    "words",
    [
        ("halt", "--lift"),
        ("halt", "triage", "--action", "refund"),
        ("halts", "halt"),
        ("halt", "a", "--lift", "--cancel"),
    ],
)
def test_what_is_not_clear(wakeful, desk, words):
    wakeful(*words, code=2)
    assert wakeful("halt").out == "nothing is halted\n"
