"""`wakeful heartbeat`, and what `check` says of a heartbeat."""

from __future__ import annotations

import pytest

APP = """
from wakeful import App, Check, Run

app = App("desk")


async def checklist(run: Run, check: Check) -> str | None:
    if check.name == "mail":
        raise OSError("no mail server")
    return f"about {check.title}"


app.heartbeat("HEARTBEAT.md", every="1h", checklist=checklist, commands=True)
"""
FILE = """
# Desk

## Mail
every: 2h

## Disk space
probe: $ echo 91%
session: machines
"""


@pytest.fixture
def desk(wakeful, folder) -> None:
    """A heartbeat that a worker has read."""
    (folder / "app.py").write_text(APP)
    (folder / "HEARTBEAT.md").write_text(FILE)
    wakeful("once", "app.py")


def test_checks_are_listed_before_they_ever_ran(wakeful, desk):
    disk, mail = wakeful("heartbeat", "--json").json["checks"]
    assert (disk["name"], disk["title"], disk["probe"]) == ("heartbeat/disk-space", "Disk space", "$ echo 91%")
    assert (disk["session"], mail["session"]) == ("machines", "heartbeat")
    assert (mail["last_at"], mail["result"], mail["failures"], mail["run"]) == (None, None, 0, None)
    assert mail["next_at"] is not None
    lines = wakeful("heartbeat").out.splitlines()
    assert lines[0].split() == ["check", "last", "result", "failures", "next", "every", "says"]
    assert lines[2].startswith("heartbeat/mail")
    assert " never " in lines[2]


def test_what_they_say_is_seen_in_a_narrow_terminal(wakeful, desk, monkeypatch):
    wakeful("heartbeat", "run", "disk-space")
    wakeful("once", "app.py")
    monkeypatch.setenv("COLUMNS", "80")
    assert "about Disk space" in wakeful("heartbeat").out


def test_a_check_is_run_now(wakeful, desk):
    said = wakeful("heartbeat", "run", "app.py", "mail", "--as", "ada")
    assert said.out.startswith("check heartbeat/mail → run ")
    assert said.err == "wakeful: no worker is alive on this store: run it here with `wakeful once app.py`\n"
    fired = wakeful("heartbeat", "run", "heartbeat/disk-space", "--json").json
    wakeful("once", "app.py")
    disk, mail = wakeful("heartbeat", "--json").json["checks"]
    assert (mail["result"], mail["failures"], mail["error"]) == ("failed", 1, "OSError: no mail server")
    assert (disk["result"], disk["text"], disk["processed"]) == ("told", "about Disk space", "91%")
    assert disk["run"] == fired["run"]
    shown = wakeful("heartbeat").out
    assert "OSError: no mail server" in shown
    assert "about Disk space" in shown
    assert "Check heartbeat/mail failed with OSError: no mail server." in wakeful("why", mail["run"]).out


def test_a_check_that_there_is_not(wakeful, desk):
    said = wakeful("heartbeat", "run", "mial", code=1).err
    assert said.startswith('wakeful: app desk has no check "mial". Did you mean "mail"?')
    said = wakeful("heartbeat", "run", "backups", code=1).err
    assert said.startswith('wakeful: app desk has no check "backups". Known: heartbeat/disk-space, heartbeat/mail.')


def test_no_checks_at_all(wakeful, folder):
    (folder / "app.py").write_text(APP)
    (folder / "HEARTBEAT.md").write_text("# Nothing yet\n")
    wakeful("once", "app.py")
    assert wakeful("heartbeat").out.startswith("no checks yet. Declare a heartbeat with app.heartbeat(…)")
    assert wakeful("heartbeat", "--json").json == {"checks": []}
    assert "A worker" in wakeful("heartbeat", "run", "mail", code=1).err
    assert "has no checks: it does nothing" in wakeful("check", "app.py").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rn", "mail"], 'there is no "heartbeat rn". Did you mean "run"?'),
        (["list", "mail"], "heartbeat list takes no argument"),
        (["run"], "heartbeat run takes APP and CHECK"),
    ],
)
def test_called_the_wrong_way(wakeful, desk, words, said):
    assert said in wakeful("heartbeat", *words, code=2).err


def test_check_reads_the_file(wakeful, folder):
    (folder / "app.py").write_text(APP)
    (folder / "HEARTBEAT.md").write_text(FILE)
    shown = wakeful("check", "app.py").out
    assert "heartbeat/mail" in shown
    (report,) = wakeful("check", "app.py", "--json").json["heartbeats"]
    assert [one["name"] for one in report["checks"]] == ["heartbeat/mail", "heartbeat/disk-space"]
    (folder / "HEARTBEAT.md").write_text("## Mail\nevry: 1h\n")
    assert 'HEARTBEAT.md:2: unknown option "evry". Did you mean "every"?' in wakeful("check", "app.py", code=1).err
    (folder / "HEARTBEAT.md").unlink()
    assert "HEARTBEAT.md cannot be read: No such file or directory" in wakeful("check", "app.py", code=1).err


def test_a_worker_picks_up_an_edit(wakeful, folder, start):
    (folder / "app.py").write_text(APP)
    file = folder / "HEARTBEAT.md"
    file.write_text(FILE)
    worker = start("worker", "app.py", "--log-format", "json")
    worker.wait_for(r'"added":\s*\["heartbeat/mail","heartbeat/disk-space"\]')
    file.write_text("## Mail\nevry: 2h\n")
    worker.wait_for(r"HEARTBEAT.md:2: unknown option")
    assert len(wakeful("heartbeat", "--json").json["checks"]) == 2
    file.write_text("## Mail\nevery: 3h\n")
    worker.wait_for(r'"removed":\s*\["heartbeat/disk-space"\]')
    (mail,) = wakeful("heartbeat", "--json").json["checks"]
    assert mail["every"] == 'every("3h", tz="UTC")'
    assert wakeful("alarms", "--state", "open", "--json").json["alarms"] == []


def test_its_file_is_beside_the_app(wakeful, folder, monkeypatch):
    """Wherever the app is started from, and whatever lies in that folder."""
    (folder / "desk").mkdir()
    (folder / "desk" / "app.py").write_text(APP)
    (folder / "desk" / "HEARTBEAT.md").write_text(FILE)
    (folder / "HEARTBEAT.md").write_text("## Other\n")
    found = wakeful("check", "desk/app.py", "--json").json["heartbeats"]
    assert [(one["file"], len(one["checks"])) for one in found] == [("desk/HEARTBEAT.md", 2)]
    wakeful("once", "desk/app.py")
    assert {one["name"] for one in wakeful("heartbeat", "--json").json["checks"]} == {
        "heartbeat/mail",
        "heartbeat/disk-space",
    }
    (folder / "desk" / "HEARTBEAT.md").write_text("## Mail\nevery: sometimes\n")
    assert "desk/HEARTBEAT.md:2" in wakeful("check", "desk/app.py", code=1).err
