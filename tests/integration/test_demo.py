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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import pack
from typing import NoReturn

import pytest

from wakeful import App
from wakeful.clock import SystemClock
from wakeful.demo import bank
from wakeful.demo.account import Account, compare
from wakeful.demo.app import HOOK, STEPS
from wakeful.demo.bank import Book, Page
from wakeful.demo.board import Board, Seen, SeenEffect
from wakeful.demo.child import Bank
from wakeful.demo.command import Command, program
from wakeful.demo.counter import VARIABLE, Counter, write
from wakeful.demo.feeder import Feeder
from wakeful.demo.github import GitHub
from wakeful.demo.lines import add_line
from wakeful.demo.live import LiveView
from wakeful.demo.orders import pace_for
from wakeful.demo.scene import Advice, Message, Row, Scene, what_became_of
from wakeful.demo.seats import Seats
from wakeful.reader import Reader
from wakeful.stores.opening import open_database

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


def banks_of(folder):
    """Banks of a demonstration in this folder that are still open. They are started with the path of their book."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = one.read_bytes()
            if b"wakeful.demo.bank" in words and str(folder).encode() in words:
                found.append(int(one.parent.name))
    return found


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
    assert "note-1.md was dropped into inbox/: an agent wakes on it." in told
    assert "note-2.md was dropped into inbox/, and nobody looks." in told
    assert "GitHub calls a webhook about shop#7: signed, stored, answered 202." in told
    assert "A webhook with a wrong signature: answered 401, kept in quarantine." in told
    assert "GitHub calls about shop#8: stored and answered 202, without a worker." in told
    assert len(workers_in(told)) == 2
    assert not any(is_running(pid) for pid in workers_in(told))

    # what was done outside, and what people had to say
    assert "transfer R-1: answered too late; asked again under the same id: done once." in told
    assert "pay_to_card R-2: answered too late; looked for and found: done once." in told
    assert "send_cheque R-3: answered too late; done or not? Held for a person." in told
    assert re.search(r"\$ \S*wakeful effects confirm \w{8} .* --store sqlite:///\S+$", told, re.MULTILINE)
    assert "send_cheque R-3: answered too late; held, confirmed by demo: done once." in told
    assert re.search(r"\$ \S*wakeful replay \w{8} --data '\{.*\}' --note .* --as demo$", told, re.MULTILINE)
    assert "P-103 is done: repaired and replayed by demo." in told
    assert not banks_of(tmp_path)

    # the account
    assert "0 effects done twice." in told
    assert "invoice P-103: amount: Input should be a valid decimal" in told
    assert "enrich old-1: the inventory has no host old-1" in told
    assert "0 finished steps executed twice." in told
    sums = re.search(r"(\d+) = (\d+) done \+ (\d+) dead \+ (\d+) unmatched \+ (\d+) open: nothing was lost", told)
    assert sums is not None
    accepted, *columns = (int(number) for number in sums.groups())
    assert accepted == sum(columns)
    assert columns[1:3] == [1, 1]
    assert re.search(r"resumed \d+ ms after the next was up", told)
    assert "wakeful init" in told
    assert "wakeful --help" in told

    assert "2 dropped, 2 of them an event\n" in told
    assert "2 sent and signed, 2 of them an event\n" in told
    assert "1 with a wrong signature: answered 401, kept in quarantine\n" in told

    # and the same from the files that were kept, read afresh
    (folder,) = tmp_path.glob("wakeful-demo-*")
    assert str(folder) in told
    board = asyncio.run(read_board(folder))
    assert len(board.accepted()) == accepted
    assert [source for source, _ in board.events.keys() - board.accepted()] == [HOOK], "the forged one"
    reviewed = {seen.subject: seen.state for seen in board.runs.values() if seen.agent == "review"}
    assert reviewed == {"shop#7": "done", "shop#8": "done"}
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

    # outside, and by whose word
    effects = effects_of(board)
    assert {subject: (one.state, one.settled_by) for subject, one in effects.items()} == {
        "R-1": ("confirmed", None), "R-2": ("confirmed", None), "R-3": ("confirmed", "demo"),
    }  # fmt: skip
    assert effects["R-1"].tries > 1
    assert effects["R-2"].tries == effects["R-3"].tries == 1
    book = book_of(folder)
    assert {subject: book.page(subject).booked for subject in effects} == {"R-1": 1, "R-2": 1, "R-3": 1}
    assert {subject: book.page(subject).asked for subject in ("R-2", "R-3")} == {"R-2": 1, "R-3": 1}
    assert 1 < book.page("R-1").asked <= effects["R-1"].tries
    (repaired,) = [seen for seen in board.runs.values() if seen.remedies]
    assert (repaired.subject, repaired.state) == ("P-103", "done")
    assert [(one.verb, one.operator) for one in repaired.remedies] == [("replay", "demo")]
    assert "valid decimal" in repaired.remedies[0].error


async def read_board(folder):
    database = open_database(f"sqlite:///{folder}/wakeful.db", SystemClock())
    await database.open(migrate=False)
    try:
        board = Board(Reader(database))
        await board.read()
        return board
    finally:
        await database.close()


def effects_of(board):
    return {seen.subject: effect for seen, effect in board.effects()}


def book_of(folder):
    book = Book(folder / "bank.log")
    book.read()
    return book


@pytest.mark.slow
def test_somebody_settles_it_from_a_second_terminal(tmp_path):
    """The command as it was shown, given to a shell. The demonstration then has nothing to type about it."""
    with started(
        tmp_path, "--seconds", "10", "--keep", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        told = read_until(process.stdout, "effects confirm")
        shown = told.splitlines()[-1].partition("$ ")[2]
        second = subprocess.run(
            ["/bin/sh", "-c", f"{shown} --as somebody"],
            env=surroundings(tmp_path), capture_output=True, text=True, timeout=LONGEST, check=False,
        )  # fmt: skip
        told += process.communicate(timeout=LONGEST)[0]
    assert second.returncode == 0, second.stderr
    assert process.returncode == 0, told
    assert "held, confirmed by somebody: done once." in told
    assert "Nobody has said a word" not in told
    (folder,) = tmp_path.glob("wakeful-demo-*")
    board = asyncio.run(read_board(folder))
    settled = effects_of(board)["R-3"]
    assert (settled.state, settled.settled_by, settled.note) == ("confirmed", "somebody", "it is on the statement")
    assert [seen.state for seen in board.runs.values() if seen.subject == "R-3"] == ["done"]
    assert book_of(folder).page("R-3").booked == 1


@pytest.mark.slow
def test_what_happened_twice_would_be_noticed(tmp_path):
    """The check has teeth: with its records gone, the next worker must repeat steps, and the demonstration says so. The
    same with a refund that the bank has in its book twice.
    """
    with started(tmp_path, "--seconds", "10", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "kill -9: worker")
        (store,) = tmp_path.glob("wakeful-demo-*/wakeful.db")
        with closing(sqlite3.connect(store)) as connection:
            connection.execute("delete from wakeful_step")
            connection.commit()
        add_line(store.with_name("bank.log"), {"what": "booked", "reference": "R-1", "key": None})
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode == 1, told
    assert "FINISHED STEPS EXECUTED TWICE: the promise is broken" in told
    assert "DONE TWICE, AND NOBODY HAD SAID SO: R-1: the promise is broken" in told


async def test_whoever_is_interrupted_in_the_middle_of_a_webhook_has_sent_it(tmp_path):
    """It may have come in: the books must not take it for somebody else's."""

    class Interrupted(GitHub):
        async def open_pull_request(self) -> NoReturn:
            raise asyncio.CancelledError

    feeder = Feeder(App("demo"), tmp_path, Interrupted.__new__(Interrupted))
    with pytest.raises(asyncio.CancelledError):
        await feeder.webhook()
    account = Account(feeder, Counter(tmp_path / "steps.log"), taken=1)
    assert account.let_in == 0


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
    assert not banks_of(tmp_path)


def test_what_is_held_stays_held_when_it_is_ended(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "waits for a person")
        os.killpg(process.pid, signal.SIGINT)
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode in {0, 130}, told
    assert "refund R-3: held for a person, 1 step finished" in told
    assert re.search(r"[012] confirmed in the store, 3 in the bank's own book", told)
    assert "0 effects done twice." in told


def test_a_worker_does_not_outlive_a_director_that_is_killed(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        workers = workers_in(read_until(process.stdout, "is at work"))
        process.kill()
        process.wait()
    eventually(lambda: not any(is_running(pid) for pid in workers) and not banks_of(tmp_path))


def test_a_bank_that_dies_by_itself_is_told(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "is at work")
        (one,) = banks_of(tmp_path)
        os.kill(one, signal.SIGKILL)
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode == 1, told
    assert f"The bank {one} ended with signal 9, and not by this demonstration." in told
    assert not any(is_running(pid) for pid in workers_in(told))


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


# the bank


@pytest.fixture
async def open_bank(tmp_path, monkeypatch):
    one = await Bank.open(book=tmp_path / "bank.log", log=tmp_path / "bank-errors.log")
    monkeypatch.setenv(bank.VARIABLE, str(one.port))
    yield one
    await one.stop(LONGEST)


@pytest.fixture
def unheard(open_bank, tmp_path):
    """Ask, and hang up when the bank has done it. It writes down that nobody heard its answer."""

    async def ask(made):
        asking = asyncio.ensure_future(made)
        await until_booked(lambda total: total.booked == 1)
        assert not asking.done(), "it answered"
        asking.cancel()
        await asyncio.wait({asking})
        await until_booked(lambda total: total.unheard == 1)

    async def until_booked(condition):
        async with asyncio.timeout(LONGEST):
            while not condition(book_of(tmp_path).total()):
                await asyncio.sleep(0.01)

    return ask


async def test_the_bank_knows_a_transfer_again_by_its_id(unheard, tmp_path):
    await unheard(bank.pay("transfer", "R-1", "10", key="one"))
    first = await bank.pay("transfer", "R-1", "10", key="one")
    assert await bank.pay("transfer", "R-1", "10", key="one") == first
    assert book_of(tmp_path).page("R-1").booked == 1
    assert await bank.pay("transfer", "R-1", "10", key="two") != first, "another id is another transfer"
    assert book_of(tmp_path).page("R-1").booked == 2


async def test_the_bank_can_be_asked_what_it_did(unheard, tmp_path):
    assert await bank.look("R-1") is None
    await unheard(bank.pay("card", "R-1", "10"))
    assert await bank.look("R-1") is not None
    page = book_of(tmp_path).page("R-1")
    assert (page.asked, page.booked, page.looked) == (1, 1, 2)


async def test_a_second_request_is_a_second_cheque(unheard, tmp_path):
    await unheard(bank.pay("cheque", "R-1", "10"))
    await bank.pay("cheque", "R-1", "10")
    assert book_of(tmp_path).page("R-1").booked == 2


async def test_the_bank_closes_when_it_is_told_to(open_bank, unheard, tmp_path):
    await unheard(bank.pay("cheque", "R-1", "10"))
    await open_bank.stop(LONGEST)
    assert open_bank.ending == "exit code 0"
    assert not (tmp_path / "bank-errors.log").read_text()


def refunded(state="confirmed", *, tries=1, by=None, safety="idempotent", kept=None):
    seen = Seen("run", "refund", "refund.requested", ("source", "R-1"), 0.0, subject="R-1", kept=kept)
    return seen, SeenEffect("effect", "pay", safety, state, tries, by, None)


@pytest.mark.parametrize(
    ("effect", "page", "words"),
    [
        (refunded(), Page(asked=1, booked=1), "pay R-1: done once."),
        (refunded(tries=3), Page(booked=1), "pay R-1: answered too late; asked again under the same id: done once."),
        (
            refunded(tries=2, kept=1),
            Page(booked=1),
            "pay R-1: the kill cut off the answer; asked again under the same id: done once.",
        ),
        (
            refunded(tries=2, safety="reconcile"),
            Page(booked=1, looked=1),
            "pay R-1: answered too late; asked again, as it was not there: done once.",
        ),
        (refunded("held"), Page(booked=1), "pay R-1: answered too late; done or not? Held for a person."),
        (
            refunded("abandoned", by="somebody"),
            Page(),
            "pay R-1: answered too late; held, abandoned by somebody: done never.",
        ),
        (
            refunded(tries=2, by="somebody"),
            Page(booked=2),
            "pay R-1: answered too late; held, repeated by somebody: done twice.",
        ),
    ],
)
def test_an_effect_in_words(effect, page, words):
    seen, what = effect
    assert what_became_of(seen, what, page) == words


@pytest.mark.parametrize(
    ("effects", "booked", "wrong"),
    [
        ([refunded()], 1, {}),
        ([refunded("intent")], 0, {}),
        ([refunded("held")], 1, {}),
        ([refunded()], 2, {"twice"}),
        ([refunded()], 0, {"missing"}),
        ([], 1, {"strange"}),
        ([refunded(by="somebody")], 2, {"on_word"}),
    ],
)
def test_the_ledger_beside_the_book(tmp_path, effects, booked, wrong):
    for _ in range(booked):
        add_line(tmp_path / "bank.log", {"what": "booked", "reference": "R-1", "key": None})
    outside = compare(effects, book_of(tmp_path))
    found = {name for name in ("twice", "missing", "strange", "on_word") if getattr(outside, name)}
    assert found == set(wrong)
    assert outside.good == (found <= {"on_word"})


# the command


@pytest.mark.parametrize("width", [24, 40, 72, 80, 200])
@pytest.mark.parametrize("folder", ["/tmp/a", "/var/folders/zz/zyxvpxvq6csfxvn0000000000000/T/wakeful-demo-12345678"])
def test_a_folded_command_is_the_same_to_a_shell(width, folder):
    words = ("replay", "3f2a91c8", "--data", '{"id":"P-1"}', "--note", "it's so", "--store", f"sqlite:///{folder}/w.db")
    lines = Command(words).folded(width)
    script = "\n".join(lines).replace(program(), "printf '%s\\n'", 1)
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=LONGEST, check=True)
    assert done.stdout.splitlines() == list(words)
    assert all(len(line) <= width for line in lines[1:] if "'" not in line)


# the picture


def row(number, *, ended_for=None, state="running", note=""):
    return Row(
        str(number), "invoice", f"payment.received P-{number}", state, ["done", "working", "open", "open"], 1, 12.5, note, ended_for
    )  # fmt: skip


def scene(rows, seconds=20.0, advice=None):
    long = "a text that is longer than any terminal that somebody would use for this " * 3
    counts = dict.fromkeys(
        ("events accepted", "runs done", "runs open", "steps finished", "retries", "dead letters", "runs resumed", "steps executed twice",
         "effects done", "effects done twice", "held for a person"),
        123456,
    )  # fmt: skip
    message = Message(3.0, long, "bold red")
    return Scene(
        4.0, seconds, Path("/tmp/somewhere"), False, message, [message] * 30, "4711 at work", counts, rows, advice
    )


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


def test_a_long_type_is_cut_and_what_it_is_about_is_not():
    from rich.console import Console

    view = LiveView(Console(width=80, height=24, force_terminal=True))
    asked = Row("1", "review", "github.pull_request.opened shop#7", "running", ["working", "open"], 1, 0.5, "", None)
    shown = "\n".join(line.plain for line in view.picture(scene([asked]), 80, 24))
    assert " review  github.pull_reque… shop#7 running " in shown


@pytest.mark.parametrize(("width", "height"), [(72, 18), (80, 24), (120, 40)])
def test_a_command_to_be_typed_is_there_as_a_whole(width, height):
    from rich.console import Console

    view = LiveView(Console(width=width, height=height, force_terminal=True))
    command = Command(
        ("effects", "confirm", "3f2a91c8", "--note", "it is there", "--store", "sqlite:////tmp/" + "x" * 40)
    )
    rows = [row(number) for number in range(60)]
    lines = view.picture(scene(rows, advice=Advice("In a second terminal:", command)), width, height)
    assert len(lines) == height
    shown = [line.plain.rstrip() for line in lines]
    folded = command.folded(width)
    assert any(shown[at : at + len(folded)] == folded for at in range(height))


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
