"""The demonstration, as somebody runs it: in a process of its own, with and without a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from struct import pack

import pytest

from wakeful.clock import SystemClock
from wakeful.demo.app import STEPS
from wakeful.demo.board import Board
from wakeful.demo.counter import VARIABLE, Counter, write
from wakeful.demo.live import LiveView, Seats
from wakeful.demo.pace import pace_for
from wakeful.demo.scene import Message, Row, Scene
from wakeful.runtime import open_database
from wakeful.stores.reading import Reader

LONGEST = 60.0
WORKER = re.compile(r"[Ww]orker (\d+) (?:is at work|dies|took over)")


def command(*options):
    return [sys.executable, "-m", "wakeful.demo", *options]


def surroundings(folder, **more):
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "WAKEFUL_STORE"}}
    return {**kept, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **more}


def is_running(pid):
    """Is this one of the demonstration's workers? The number alone may be somebody else's by now."""
    try:
        return b"wakeful.demo.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def workers_in(text):
    found = {int(pid) for pid in WORKER.findall(text)}
    assert found
    return found


@contextmanager
def started(folder, *options, **streams):
    with subprocess.Popen(command(*options), env=surroundings(folder), start_new_session=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_the_whole_story_in_eight_seconds(tmp_path):
    done = subprocess.run(
        command("--seconds", "8", "--keep"),
        env=surroundings(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST, check=False,
    )  # fmt: skip
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert not done.stderr
    assert "\x1b" not in told, "no terminal, no control codes"

    # the story
    assert re.search(r"kill -9: worker \d+ dies in the middle of [1-9]\d* runs?\.", told)
    assert re.search(r"Worker \d+ took over at once", told)
    assert re.search(r"Step look_up failed for db-1, which may pass: it is tried again", told)
    assert "was delivered a second time: still one run" in told
    assert len(workers_in(told)) == 2
    assert not any(is_running(pid) for pid in workers_in(told))

    # the account
    assert "invoice P-103: amount: Input should be a valid decimal" in told
    assert "enrich old-1: the inventory has no host old-1" in told
    assert "0 finished steps executed twice." in told
    sums = re.search(r"(\d+) = (\d+) done \+ (\d+) dead \+ (\d+) unmatched \+ (\d+) open: nothing was lost", told)
    assert sums is not None
    accepted, *columns = (int(number) for number in sums.groups())
    assert accepted == sum(columns)
    assert columns[1:3] == [2, 1]
    assert re.search(r"resumed \d+ ms after the next was up", told)
    assert "wakeful init" in told
    assert "wakeful --help" in told

    # and the same from the files that were kept, read afresh
    (folder,) = tmp_path.glob("wakeful-demo-*")
    assert str(folder) in told
    board = asyncio.run(read_board(folder))
    assert len(board.events) == accepted
    assert [board.count("done"), board.count("dead")] == columns[:2]
    for seen in board.runs.values():
        if seen.state == "done":
            assert tuple(seen.recorded) == STEPS[seen.agent]
    assert any(seen.crashes for seen in board.runs.values()), "no run was taken over"
    counter = Counter(folder / "steps.log")
    counter.read()
    finished = [key for key, all_of_it in counter.executions.items() for one in all_of_it if one.ended == "finished"]
    unsaved = re.search(r"(\d+) ended just before a kill", told)
    assert len(finished) - len(set(board.recorded())) <= (int(unsaved[1]) if unsaved else 0)
    assert set(board.recorded()) <= set(finished)


async def read_board(folder):
    database = open_database(f"sqlite:///{folder}/wakeful.db", SystemClock())
    await database.open(migrate=False)
    try:
        board = Board(Reader(database))
        await board.read()
        return board
    finally:
        await database.close()


@pytest.mark.slow
def test_a_finished_step_that_ran_again_would_be_noticed(tmp_path):
    """The check has teeth: with its records gone, the next worker must repeat steps, and the demonstration says so."""
    with started(tmp_path, "--seconds", "10", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "kill -9: worker")
        (store,) = tmp_path.glob("wakeful-demo-*/wakeful.db")
        with closing(sqlite3.connect(store)) as connection:
            connection.execute("delete from wakeful_step")
            connection.commit()
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode == 1, told
    assert "FINISHED STEPS EXECUTED TWICE: the promise is broken" in told


def test_control_c_ends_it_cleanly(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "is at work")
        assert all(is_running(pid) for pid in workers_in(told))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group gets it
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode in {0, 130}, told
    assert "nothing was lost" in told
    assert "0 finished steps executed twice." in told
    assert "Traceback" not in told
    assert not any(is_running(pid) for pid in workers_in(told))
    assert not list(tmp_path.glob("wakeful-demo-*")), "the temporary folder was left behind"


def test_a_worker_does_not_outlive_a_director_that_is_killed(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        workers = workers_in(read_until(process.stdout, "is at work"))
        process.kill()
        process.wait()
    eventually(lambda: not any(is_running(pid) for pid in workers))


def test_a_terminal_is_given_back_as_it_was(tmp_path):
    """Ctrl-C, typed into a real terminal of 80×24."""
    import fcntl
    import termios

    leader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(terminal)

    # The first terminal that the leader of a new session opens becomes its own: that is how Ctrl-C finds it.
    path = os.ttyname(terminal)
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', path, *command()],
        env=surroundings(tmp_path, TERM="xterm-256color"), start_new_session=True,
    )  # fmt: skip
    try:
        shown = read_terminal(leader, process, lambda text: b"is at work" in text)
        os.write(leader, b"\x03")
        shown += read_terminal(leader, process, lambda text: b"was removed; --keep keeps it" in text)
        assert process.wait(LONGEST) in {0, 130}
        assert termios.tcgetattr(terminal) == before
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(leader)
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1, "the other screen was left"
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l"), "the cursor is back"
    after = shown[shown.rfind(b"\x1b[?1049l") :].decode()
    assert "nothing was lost" in re.sub(r"\x1b\[[0-9;]*m", "", after)


@pytest.mark.parametrize("given", ["0", "-1", "nan", "soon"])
def test_a_time_that_is_none_is_refused(given):
    done = subprocess.run(command(f"--seconds={given}"), capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 2
    assert "is not a number of seconds above 0" in done.stderr


# the counter


@pytest.fixture
def counter(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "steps.log"))
    return Counter(tmp_path / "steps.log")


@pytest.fixture
def as_worker(monkeypatch):
    def become(pid):
        monkeypatch.setattr("os.getpid", lambda: pid)

    return become


def test_a_recorded_step_that_begins_again_is_seen(counter, as_worker):
    as_worker(1)
    write("load", "P-1", "began")
    write("load", "P-1", "finished")
    counter.bury(1, [("load", "P-1")])
    as_worker(2)
    write("load", "P-1", "began")
    counter.read()
    assert counter.repeated == [("load", "P-1")]


def test_a_step_that_one_worker_finishes_and_begins_again_is_seen(counter, as_worker):
    as_worker(1)
    for _ in range(2):
        write("load", "P-1", "began")
        write("load", "P-1", "finished")
    counter.read()
    assert counter.repeated == [("load", "P-1")]


def test_what_a_kill_cut_off_or_left_unsaved_may_begin_again(counter, as_worker):
    as_worker(1)
    write("load", "P-1", "began")
    write("load", "P-2", "began")
    write("load", "P-2", "finished")
    counter.bury(1, [])
    as_worker(2)
    write("load", "P-1", "began")
    write("load", "P-2", "began")
    counter.read()
    assert (counter.repeated, counter.cut_off, counter.unsaved) == ([], 1, 1)


def test_a_failed_body_that_begins_again_is_a_retry(counter, as_worker):
    as_worker(1)
    write("look_up", "web-1", "began")
    write("look_up", "web-1", "failed")
    write("look_up", "web-1", "began")
    write("look_up", "web-1", "finished")
    counter.read()
    assert (counter.retried, counter.finished, counter.repeated) == ([("look_up", "web-1")], 1, [])


# the picture


def row(number, *, ended_for=None, state="running", note=""):
    return Row(
        str(number), "invoice", f"payment.received P-{number}", state, ["done", "working", "open", "open"], 1, 12.5, note, ended_for
    )  # fmt: skip


def scene(rows, seconds=20.0):
    long = "a text that is longer than any terminal that somebody would use for this " * 3
    counts = dict.fromkeys(
        ("events accepted", "runs done", "runs open", "steps finished", "retries", "dead letters", "runs resumed", "steps executed twice"),
        123456,
    )  # fmt: skip
    message = Message(3.0, long, "bold red")
    return Scene(4.0, seconds, Path("/tmp/somewhere"), False, message, [message] * 30, "4711 at work", counts, rows)


@pytest.mark.parametrize(("width", "height"), [(72, 18), (80, 24), (120, 40), (250, 80)])
@pytest.mark.parametrize("seconds", [None, 20.0])
def test_every_line_fits_into_the_terminal(width, height, seconds):
    from rich.console import Console

    view = LiveView(Console(width=width, height=height, force_terminal=True))
    for count in (0, 3, 60):
        rows = [row(number, note="a reason that goes on and on and does not end at all" * 3) for number in range(count)]
        lines = view.picture(scene(rows, seconds), width, height)
        assert len(lines) == height
        assert max(line.cell_len for line in lines) <= width


def test_a_run_keeps_its_line():
    seats = Seats()
    assert seats.give([row(1), row(2)], 3) == ["1", "2", ""]
    assert seats.give([row(1), row(2, ended_for=1, state="done"), row(3), row(4)], 3) == ["1", "4", "3"]
    assert seats.give([row(1), row(2), row(3), row(4), row(5)], 3) == ["1", "4", "3"], "no open run is pushed out"
    assert seats.give([row(1), row(3), row(4)], 2) == ["1", "4"]


def test_a_dead_letter_stays_longer_than_a_done_run():
    seats = Seats()
    seats.give([row(1, ended_for=0, state="dead"), row(2)], 2)
    dead, done = row(1, ended_for=3, state="dead"), row(2, ended_for=1, state="done")
    assert seats.give([dead, done, row(3)], 2) == ["1", "3"]


def test_a_short_demonstration_goes_faster():
    assert pace_for(None) == pace_for(20) == pace_for(600) == 1.0
    assert pace_for(8) == pytest.approx(0.4)
    assert pace_for(0.5) == pytest.approx(0.3)


# waiting


def read_until(stream, words):
    lines = []
    for line in stream:
        lines.append(line)
        if words in line:
            return "".join(lines)
    pytest.fail(f"it ended before it said {words!r}: {''.join(lines)}")


def read_terminal(leader, process, is_enough):
    shown = b""
    end = time.monotonic() + LONGEST
    while not is_enough(shown):
        assert time.monotonic() < end, shown[-2000:]
        if select.select([leader], [], [], 0.2)[0]:
            shown += os.read(leader, 65536)
        elif process.poll() is not None:
            break  # it ended, and everything that it said was read
    return shown


def eventually(condition):
    end = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
