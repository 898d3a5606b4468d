"""A process that is stopped in the middle of a write to a SQLite store: a server says so soon, with the process, and goes on afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from support.command_line import wait_for_answer
from wakeful.api.readiness import READY_WITHIN
from wakeful.stores.lock_holder import WriteLockHolder, holder_of, locked_by
from wakeful.stores.sqlite import LOOK_FOR_A_LOCK_MILLISECONDS
from wakeful.stores.sqlite_connecting import BUSY_TIMEOUT_MILLISECONDS
from wakeful.testing.children import state_of

APP = """
from wakeful import App, Run, on

app = App("desk")


@app.agent(on("note"))
async def note(run: Run) -> str:
    return "noted"
"""
HOLDS = """
import os, signal, sys
import apsw

connection = apsw.Connection(sys.argv[1])
connection.execute("begin immediate")
print("holding", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
connection.execute("rollback")
"""
PATIENCE = 60.0


@pytest.fixture
def stopped(folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that were stopped, gone after the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for one in started:
        one.kill()
        one.communicate()


def stop_in_a_write(database: Path, stopped: list[subprocess.Popen[bytes]]) -> int:
    child = subprocess.Popen([sys.executable, "-c", HOLDS, str(database)], stdout=subprocess.PIPE)
    stopped.append(child)
    assert child.stdout is not None
    assert child.stdout.readline() == b"holding\n"
    while state_of(child.pid) != "T":
        os.sched_yield()
    return child.pid


def send(url: str, identifier: str) -> httpx2.Response:
    event = {"id": identifier, "source": "/test", "type": "note"}
    return httpx2.post(f"{url}/v1/events", json=event, timeout=PATIENCE, trust_env=False)


def ready(url: str) -> httpx2.Response:
    return httpx2.get(f"{url}/readyz", timeout=PATIENCE, trust_env=False)


def test_a_server_says_which_process_keeps_it_from_writing(folder, start, stopped):
    (folder / "app.py").write_text(APP)
    server = start("serve", "app.py", "--port", "0")
    url = server.wait_for(r"serving desk on (http://127\.0\.0\.1:\d+)")[1]
    assert send(url, "before").status_code == 202

    pid = stop_in_a_write(folder / "wakeful.db", stopped)
    refused = send(url, "meanwhile")
    assert refused.status_code == 503, refused.text
    told = refused.json()["detail"]
    assert f"process {pid} (" in told
    assert "which is stopped" in told
    assert f"kill -CONT {pid}" in told
    assert "Nothing was stored; sending it again is safe" in told
    unready = ready(url)
    assert unready.status_code == 503, unready.text
    assert f"process {pid} (" in unready.json()["parts"]["store"]["detail"]
    assert httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200

    os.kill(pid, signal.SIGCONT)
    assert stopped[0].wait(PATIENCE) == 0
    again = send(url, "meanwhile")
    assert again.status_code == 202, again.text
    assert again.json()["events"][0]["status"] == "accepted", "it was stored, although it was said that it was not"
    wait_for_answer(f"{url}/readyz", 200)  # what it told before is told for a second
    server.signal(signal.SIGTERM)
    assert server.end() == 0
    assert "Traceback" not in server.output


def test_both_come_within_five_seconds():
    assert BUSY_TIMEOUT_MILLISECONDS < 5_000
    assert LOOK_FOR_A_LOCK_MILLISECONDS / 1000 < READY_WITHIN <= 5


class TestTheHolder:
    def test_is_found_and_let_go(self, folder: Path, stopped: list[subprocess.Popen[bytes]]):
        database = folder / "some.db"
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import apsw,sys; apsw.Connection(sys.argv[1]).execute('pragma journal_mode=wal')",
                database,
            ],
            check=True,
        )
        pid = stop_in_a_write(database, stopped)
        holder = holder_of(database)
        assert holder is not None
        assert (holder.pid, holder.stopped) == (pid, True)
        (folder / "link.db").symlink_to(database)
        assert holder_of(folder / "link.db") == holder
        os.kill(pid, signal.SIGCONT)
        stopped[0].wait(PATIENCE)
        assert holder_of(database) is None

    def test_is_not_known_everywhere(self, folder: Path):
        assert holder_of(folder / "none.db") is None
        assert (
            locked_by(folder / "none.db") == "another process holds the write lock of the store and does not release it"
        )

    def test_says_what_to_do(self):
        assert str(WriteLockHolder(7, "python3", stopped=False)) == "process 7 (python3)"
        assert WriteLockHolder(7, "python3", stopped=False).remedy == "wait for it, or end it (kill 7)"
        assert str(WriteLockHolder(os.getpid(), "python3", stopped=False)) == f"this process (pid {os.getpid()})"
