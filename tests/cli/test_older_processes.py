"""Processes of an older version that work on the store know no halts and no policy: a person who relies on these is told."""

from __future__ import annotations

import apsw
import pytest

APP = """
from wakeful import App, on

app = App("desk")


@app.agent(on("ticket.created"))
async def triage(run) -> None: ...
"""


@pytest.fixture
def older(wakeful, folder) -> None:
    """A store on which a process lives that knows no migration after 0020."""
    (folder / "app.py").write_text(APP)
    (folder / "policy.yaml").write_text("policy: 1\nrules:\n  - {id: fine, answer: allow}\n")
    wakeful("emit", "app.py", "ticket.created", "--id", "a")
    wakeful("once", "app.py")
    connection = apsw.Connection(str(folder / "wakeful.db"))
    connection.execute(
        "update wakeful_process set state = 'alive', lease_until = 9000000000000000, knows = 20, host = 'attic', pid = 7"
    )
    connection.close()


def test_a_halt_names_them(wakeful, older):
    assert "a process of an older version of Wakeful does not know halts: " in (told := wakeful("halt", "triage").err)
    assert "on attic (pid 7). It goes on as before until you stop it" in told


def test_a_policy_names_them(wakeful, older):
    told = wakeful("policy", "apply", "policy.yaml").err
    assert "a process of an older version of Wakeful does not know policies and approvals: " in told


def test_doctor_names_them(wakeful, older):
    told = wakeful("doctor", "app.py", code=None).out
    assert "! versions" in told
    assert "stop them: they call what is halted, denied or not approved" in told


def test_nobody_is_named_where_all_know(wakeful, folder):
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "ticket.created", "--id", "a")
    wakeful("once", "app.py")
    assert "older version" not in wakeful("halt", "triage").err
