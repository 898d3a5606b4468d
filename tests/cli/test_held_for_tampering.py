"""A run that is held for tampering: the commands say so, and what they advise works."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path

import apsw
import pytest

pytest.importorskip("cryptography")

FORGED = '{"specversion":"1.0","id":"first","source":"/x","type":"ticket.created","data":{"title":"forged"}}'


@pytest.fixture
def held(wakeful, tickets: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, apsw.Connection, str]:
    """The id of the run, the database, and the ciphertext that stood in the place of the forged event."""
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", urlsafe_b64encode(bytes([1]) * 32).decode())
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")
    wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "mine"}')
    database = apsw.Connection(str(tickets / "wakeful.db"))
    ((genuine,),) = database.execute("select envelope from wakeful_event")
    database.execute("update wakeful_event set envelope = ?", (FORGED,))
    wakeful("once", "app.py", code=None)
    (run,) = wakeful("runs", "--held", "--json").json["runs"]
    return run["id"], database, str(genuine)


def alarms(wakeful, state: str) -> list[str]:
    return [one["key"] for one in wakeful("alarms", "--json").json["alarms"] if one["state"] == state]


def test_it_is_told_apart_from_an_output_and_from_an_effect(wakeful, held):
    run, _, _ = held
    shown = wakeful("runs", "--held").out
    assert "tampering, run" in shown
    assert "Restore the row from a backup, then resume the run: `wakeful replay RUN`" in shown
    assert "`wakeful cancel RUN`" in shown
    assert "output" not in shown
    assert "release" not in shown
    refused = wakeful("release", run, code=1).err
    assert f"run {run} is held for tampering" in refused
    assert f"`wakeful cancel {run}`" in refused
    assert "held for an effect" not in refused
    assert "wakeful effects" not in refused
    told = wakeful("why", run).out
    assert f"Restore the row from a backup, then resume the run: `wakeful replay {run}`" in told
    keys = sorted(alarms(wakeful, "open"))
    assert keys == ["held/tickets/triage/tampering", "tampering/tickets/wakeful_event.envelope"]
    assert "wakeful effects" not in wakeful("alarms").out


def test_it_goes_on_once_the_row_is_restored(wakeful, held):
    run, database, genuine = held
    database.execute("update wakeful_event set envelope = ?", (genuine,))
    wakeful("replay", run)
    wakeful("once", "app.py")
    assert [one["state"] for one in wakeful("runs", "--json").json["runs"]] == ["done"]


def test_it_can_be_cancelled(wakeful, held):
    run, _, _ = held
    wakeful("cancel", run)
    assert [one["state"] for one in wakeful("runs", "--json").json["runs"]] == ["cancelled"]
    assert alarms(wakeful, "resolved") == ["held/tickets/triage/tampering"]


def test_a_run_that_is_held_for_neither_output_nor_effect_is_not_offered_for_release(wakeful, held):
    """As when its code changed."""
    run, database, _ = held
    database.execute("update wakeful_run set reason = null")
    shown = wakeful("runs", "--held").out
    assert "`wakeful why RUN`" in shown
    assert "release" not in shown
    assert f"`wakeful why {run}`" in wakeful("release", run, code=1).err


PAYING = """
from wakeful import App, Operation, Run, action, on

app = App("bank")

def is_fine(amount: int) -> bool:
    return False

@action(safety="at_most_once", checks=[is_fine])
async def pay(operation: Operation, amount: int) -> None:
    pass

@app.agent(on("due"))
async def settle(run: Run) -> None:
    await run.act(pay, 7)
"""


def test_an_effect_that_an_older_version_settled_is_settled_again(
    wakeful, tickets: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", urlsafe_b64encode(bytes([1]) * 32).decode())
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")
    (tickets / "app.py").write_text(PAYING)
    wakeful("emit", "app.py", "due")
    wakeful("once", "app.py", code=None)
    (effect,) = wakeful("effects", "--json").json["effects"]
    wakeful("effects", "confirm", effect["id"])
    apsw.Connection(str(tickets / "wakeful.db")).execute("update wakeful_effect set settlement = null")
    wakeful("once", "app.py", code=None)
    (run,) = wakeful("runs", "--held", "--json").json["runs"]
    for told in (wakeful("why", run["id"]).out, wakeful("release", run["id"], code=1).err):
        assert (
            f"settle it again with this version, and the run resumes: `wakeful effects confirm {effect['id']}`" in told
        )
    assert (
        "settle it again with this version, and the run resumes: `wakeful effects confirm EFFECT`"
        in wakeful("runs", "--held").out
    )
    assert "Run " + run["id"] + " resumes" in wakeful("effects", "confirm", effect["id"]).out
    wakeful("once", "app.py")
    assert [one["state"] for one in wakeful("runs", "--json").json["runs"]] == ["done"]
