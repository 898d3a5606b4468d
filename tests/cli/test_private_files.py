"""Whatever the umask, other users of the machine can read nothing of what Wakeful writes."""

from __future__ import annotations

import os
import signal
import stat

import httpx2
import pytest

from support.command_line import wait_for_answer
from wakeful.channels import file
from wakeful.errors import ConfigError

REPORTS = """
from wakeful import App, Run, on
from wakeful.channels import file

app = App(
    "reports",
    store="sqlite:///data/inner/reports.db",
    channels={"out": file("out.jsonl")},
    archive="archive/runs",
    retention="1s",
)


@app.agent(on("report"), deliver="out")
async def report(run: Run) -> str:
    return "four pages"
"""
ROOT_ONLY = {"app.py"}


@pytest.fixture
def reports(folder):
    (folder / "app.py").write_text(REPORTS)
    return folder


@pytest.fixture(params=[0o000, 0o022], ids=lambda mask: f"{mask:03o}")
def umask(request, reports):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder):
    """Everything below a folder that others may read or write."""
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
        if path.name not in ROOT_ONLY and "__pycache__" not in path.parts and path.stat().st_mode & 0o077
    }


def test_nothing_of_a_server_can_be_read_by_others(umask, reports, start):
    server = start("serve", "app.py", "--port", "0")
    url = server.wait_for(r"serving reports on (http://\S+)")[1]
    event = {"id": "1", "source": "/test", "type": "report"}
    run = httpx2.post(f"{url}/v1/events", json=event, trust_env=False).json()["events"][0]["runs"][0]
    wait_for_answer(f"{url}/v1/runs/{run}", 200)
    beside = {path.name for path in (reports / "data/inner").iterdir()}
    assert {"reports.db", "reports.db-wal", "reports.db-shm", "reports.db-processes"} <= beside
    assert modes(reports) == {}
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    assert modes(reports) == {}


def test_archives_can_be_read_by_nobody_else(umask, reports, wakeful):
    wakeful("run", "app.py", "report", "--wait")
    wakeful("archive", "runs.jsonl", "--store", "sqlite:///data/inner/reports.db")
    wakeful("once", "app.py")
    assert (reports / "runs.jsonl").exists()
    assert (reports / "out.jsonl").exists()
    assert modes(reports) == {}


def test_a_store_that_others_share_on_purpose_keeps_its_mode(umask, reports, wakeful):
    wakeful("migrate", "app.py")
    store = reports / "data/inner/reports.db"
    store.chmod(0o660)
    wakeful("run", "app.py", "report", "--wait")
    assert stat.S_IMODE(store.stat().st_mode) == 0o660


def test_a_link_to_a_store_that_is_not_there_yet(umask, reports, wakeful):
    (reports / "data/inner").mkdir(parents=True, mode=0o700)
    (reports / "data").chmod(0o700)
    (reports / "data/inner/reports.db").symlink_to(reports / "data/inner/elsewhere.db")
    wakeful("migrate", "app.py")
    assert stat.S_IMODE((reports / "data/inner/elsewhere.db").stat().st_mode) == 0o600


def test_doctor_names_older_files_and_open_folders(reports, wakeful):
    wakeful("run", "app.py", "report", "--wait")
    store, out = reports / "data/inner/reports.db", reports / "out.jsonl"
    (reports / "archive/runs").mkdir(parents=True, mode=0o755)
    old = reports / "archive/runs/2020-01-01.jsonl"
    old.write_text("{}\n")
    store.chmod(0o644)
    out.chmod(0o666)
    reports.chmod(0o777)
    found = privacy(wakeful)
    assert found["other users can read data/inner/reports.db (mode 0644)"] == "chmod go-rwx data/inner/reports.db"
    assert found["other users can read and change out.jsonl (mode 0666)"] == "chmod go-rwx out.jsonl"
    words = f"other users can add files to, and remove ours from, the folder {reports} (mode 0777)"
    assert found[words] == f"chmod go-rwx {reports}"
    assert any(str(old.relative_to(reports)) in one for one in found)
    for path in (store, out, old, old.parent, reports, store.parent):
        path.chmod(path.stat().st_mode & 0o700)
    assert privacy(wakeful) == {}


def privacy(wakeful):
    findings = wakeful("doctor", "app.py", "--json", code=None).json["findings"]
    return {one["text"]: one["remedy"] for one in findings if one["what"] == "privacy"}


async def test_a_channel_whose_file_others_read(tmp_path):
    before = os.umask(0)
    try:
        channel = file(tmp_path / "shared.jsonl", mode=0o640)
        channel._append(b"{}\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "shared.jsonl").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o777, 0o400, "0640", 0o040])
def test_modes_that_cannot_be(mode):
    with pytest.raises(ConfigError, match="mode must let this user read and write the file"):
        file("out.jsonl", mode=mode)
