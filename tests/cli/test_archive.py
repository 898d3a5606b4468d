"""`wakeful archive`: a file that is there whole or not at all, and nothing removed that is not in it."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = str(Path(__file__).parent.parent / "crash" / "children" / "dying_command.py")


@pytest.fixture
def finished(wakeful, tickets: Path) -> list[str]:
    """Three runs that went well, one that was denied, and a dead letter."""
    for title in ("a", "b", "c"):
        wakeful("emit", "app.py", "ticket.created", "--data", json.dumps({"title": title}))
    wakeful("emit", "app.py", "ticket.broken")
    wakeful("emit", "app.py", "ticket.secret")
    wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "newest"}')
    wakeful("once", "app.py", code=None)
    return [run["id"] for run in wakeful("runs", "--json").json["runs"] if run["state"] in {"done", "denied"}]


def lines(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz"])
def test_has_each_run_once_as_the_api_shows_it(wakeful, finished: list[str], folder: Path, name: str):
    said = wakeful("archive", name)
    written = lines(folder / name)
    assert sorted(run["id"] for run in written) == sorted(finished)
    for run in written:
        assert run == wakeful("trace", run["id"], "--json").json
    assert "5 runs in" in said.out
    assert "peek 1, triage 4" in said.err
    assert [one.name for one in folder.glob("runs*")] == [name]


def test_removes_what_was_written_and_nothing_else(wakeful, finished: list[str], folder: Path):
    answer = wakeful("archive", "runs.jsonl", "--remove", "--json", "--as", "ada").json
    assert (answer["written"], answer["removed"]) == (5, 4)  # the newest run of all stays
    left = {run["state"]: run["id"] for run in wakeful("runs", "--json").json["runs"]}
    assert set(left) == {"dead", "done"}
    gone = next(run["id"] for run in lines(folder / "runs.jsonl") if run["id"] != left["done"])
    assert "was removed" in wakeful("why", gone).out
    assert "no run" in wakeful("trace", gone, code=1).err


def test_takes_an_agent_and_a_time(wakeful, finished: list[str], folder: Path):
    assert wakeful("archive", "a.jsonl", "--agent", "peek", "--json").json["written"] == 1
    assert "nothing to archive" in wakeful("archive", "b.jsonl", "--before", "1d").out
    assert not (folder / "b.jsonl").exists()
    assert wakeful("archive", "c.jsonl", "--before", "2999-01-01", "--plan", "--json").json["found"] == 5
    assert not (folder / "c.jsonl").exists()


def test_an_archive_is_never_written_over(wakeful, finished: list[str], folder: Path):
    (folder / "runs.jsonl").write_text("mine")
    assert "exists, and an archive is never overwritten" in wakeful("archive", "runs.jsonl", code=1).err
    assert (folder / "runs.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere/runs.jsonl",), "there is no folder nowhere"),
        (("runs.jsonl", "--before", "soon"), "--before"),
        ((), "FILE is missing"),
    ],
)
def test_bad_calls_are_refused(wakeful, finished: list[str], words, message: str):
    assert message in wakeful("archive", *words, code=2).err


def test_what_a_killed_one_left_is_written_anew(wakeful, finished: list[str], folder: Path):
    (folder / "runs.jsonl.partial").write_text('{"id": "half a li')
    wakeful("archive", "runs.jsonl")
    assert len(lines(folder / "runs.jsonl")) == 5
    assert not (folder / "runs.jsonl.partial").exists()


def test_two_at_once_do_not_write_one_file(wakeful, finished: list[str], folder: Path):
    handle = os.open(folder / "runs.jsonl.partial", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        assert "another process" in wakeful("archive", "runs.jsonl", code=1).err
    finally:
        os.close(handle)


@pytest.mark.crash
@pytest.mark.parametrize("moment", ["before the file has its name", "before the removal", "during the removal"])
def test_a_kill_loses_nothing(wakeful, finished: list[str], folder: Path, moment: str):
    """A child is killed at that moment. Whatever is not in the store any more is in a file, and the next call goes on."""
    child = subprocess.run(
        [sys.executable, CHILD, moment, "archive", "first.jsonl", "--remove"], check=False, timeout=60
    )
    assert child.returncode == -signal.SIGKILL
    archived = [run["id"] for run in lines(folder / "first.jsonl")] if (folder / "first.jsonl").exists() else []
    stored = [run["id"] for run in wakeful("runs", "--json").json["runs"]]
    assert set(finished) <= {*archived, *stored}
    wakeful("archive", "second.jsonl", "--remove")
    more = [run["id"] for run in lines(folder / "second.jsonl")]
    assert set(finished) <= {*archived, *more}
    assert len(more) == len(set(more))
    assert len(archived) == len(set(archived))
