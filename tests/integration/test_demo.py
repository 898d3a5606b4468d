"""The demonstration, as somebody runs it: in a process of its own, with and without a terminal."""

from __future__ import annotations

import asyncio
import io
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
from types import SimpleNamespace
from typing import Any, NoReturn

import httpx2
import pytest
from rich.console import Console

from wakeful import App
from wakeful.clock import SystemClock, to_text
from wakeful.demo import bank
from wakeful.demo.account import BROKEN, about_effects, about_events
from wakeful.demo.app import HOOK, HOOK_SECRET, STEPS
from wakeful.demo.desk import Advice, folded, program
from wakeful.demo.director import open_bank
from wakeful.demo.feeder import Feeder
from wakeful.demo.outside import COUNTER, Book, Counter, add_line, write_step
from wakeful.demo.stage import Stage, recorded_of, subject_of
from wakeful.demo.view import LiveView
from wakeful.reader import Reader
from wakeful.resources.words import now
from wakeful.stores.opening import open_database

LONGEST = 60.0
WORKER = re.compile(r"[Ww]orker (\d+) (?:is running|dies|took over)")


def command(*options):
    return [sys.executable, "-m", "wakeful", "demo", *options]


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
    assert re.search(r"Step look_up failed for db-1 with a transient error: it is retried", told)
    assert "was delivered a second time: still one run" in told
    assert "note-1.md was dropped into inbox/: an agent wakes on it." in told
    assert "note-2.md was dropped into inbox/, and no worker reads it." in told
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
    stage = asyncio.run(read_again(folder))
    assert len(stage.accepted()) == accepted
    assert [event["source"] for event in stage.events.values() if event not in stage.accepted()] == [HOOK], (
        "the forged one"
    )
    reviewed = {subject_of(run): run["state"] for run in stage.runs.values() if run["agent"] == "review"}
    assert reviewed == {"shop#7": "done", "shop#8": "done"}
    assert [len(stage.in_state("done")), len(stage.in_state("dead"))] == columns[:2]
    for run in stage.in_state("done"):
        assert tuple(recorded_of(run)) == STEPS[run["agent"]]
        begun = [(one["started_at"], one["name"]) for one in run["steps"]]
        assert [name for _, name in sorted(begun)] == [name for name in STEPS[run["agent"]] if name != "act"]
    assert any(run["crashes"] for run in stage.runs.values()), "no run was taken over"
    finished = [key for key, some in stage.counter.executions.items() for one in some if one.ended == "finished"]
    unsaved = re.search(r"(\d+) ended just before a kill", told)
    assert len(finished) - len(set(stage.recorded())) <= (int(unsaved[1]) if unsaved else 0)
    assert set(stage.recorded()) <= set(finished)

    # outside, and by whose word
    effects = effects_of(stage)
    assert {subject: (one["state"], one["settled_by"]) for subject, one in effects.items()} == {
        "R-1": ("confirmed", None), "R-2": ("confirmed", None), "R-3": ("confirmed", "demo"),
    }  # fmt: skip
    assert effects["R-1"]["tries"] > 1
    assert effects["R-2"]["tries"] == effects["R-3"]["tries"] == 1
    book = stage.book
    assert {subject: book.count("booked", subject) for subject in effects} == {"R-1": 1, "R-2": 1, "R-3": 1}
    assert {subject: book.count("asked", subject) for subject in ("R-2", "R-3")} == {"R-2": 1, "R-3": 1}
    assert 1 < book.count("asked", "R-1") <= effects["R-1"]["tries"]
    (repaired,) = [run for run in stage.runs.values() if run["remedies"]]
    assert (subject_of(repaired), repaired["state"]) == ("P-103", "done")
    assert [(one["verb"], one["operator"]) for one in repaired["remedies"]] == [("replay", "demo")]
    assert "valid decimal" in repaired["remedies"][0]["error"]["message"]


async def read_again(folder):
    """The files of a demonstration, as another process finds them afterwards."""
    database = open_database(f"sqlite:///{folder}/wakeful.db", SystemClock())
    await database.open(migrate=False)
    try:
        stage = new_stage(folder, Reader(database))
        await stage.look()
        return stage
    finally:
        await database.close()


def new_stage(folder, reader=None, seconds=None):
    return Stage(reader, folder, "sqlite://", seconds, False, Counter(folder / "steps.log"), book_of(folder))


def effects_of(stage):
    return {subject_of(run): effect for run, effect in stage.effects()}


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
    assert "No operator has settled" not in told
    (folder,) = tmp_path.glob("wakeful-demo-*")
    stage = asyncio.run(read_again(folder))
    settled = effects_of(stage)["R-3"]
    said = (settled["state"], settled["settled_by"], settled["note"])
    assert said == ("confirmed", "somebody", "it is on the statement")
    assert [run["state"] for run in stage.runs.values() if subject_of(run) == "R-3"] == ["done"]
    assert stage.book.count("booked", "R-3") == 1


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
        add_line(store.with_name("bank.log"), what="booked", reference="R-1")
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode == 1, told
    assert "FINISHED STEPS EXECUTED TWICE: the promise is broken" in told
    assert "DONE TWICE, WITHOUT AN OPERATOR'S REPEAT: R-1: the promise is broken" in " ".join(told.split())


async def test_whoever_is_interrupted_in_the_middle_of_a_webhook_has_sent_it(tmp_path, monkeypatch):
    """It may have come in: the books must not take it for somebody else's."""

    class Interrupted(httpx2.AsyncClient):
        async def post(self, *_: Any, **__: Any) -> NoReturn:
            raise asyncio.CancelledError

    monkeypatch.setenv(HOOK_SECRET, "known")
    feeder = Feeder(App("demo"), tmp_path, Interrupted(), new_stage(tmp_path))
    with pytest.raises(asyncio.CancelledError):
        await feeder.webhook()
    stage = new_stage(tmp_path)
    stage.events["key"] = {"source": HOOK, "id": "1", "type": "github.pull_request.opened", "state": "accepted"}
    told = "\n".join(line.text for line in about_events(stage, feeder))
    assert "1 sent and signed, 1 of them an event" in told
    assert "WITH A WRONG SIGNATURE CAME IN" not in told
    stage.events["other"] = {**stage.events["key"], "id": "2"}
    assert ("1 WITH A WRONG SIGNATURE CAME IN: the promise is broken", BROKEN) in [
        (line.text, line.style) for line in about_events(stage, feeder)
    ]


def test_control_c_ends_it_cleanly(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "is running")
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
        workers = workers_in(read_until(process.stdout, "is running"))
        process.kill()
        process.wait()
    eventually(lambda: not any(is_running(pid) for pid in workers) and not banks_of(tmp_path))


def test_a_bank_that_dies_by_itself_is_told(tmp_path):
    with started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        told = read_until(process.stdout, "is running")
        (one,) = banks_of(tmp_path)
        os.kill(one, signal.SIGKILL)
        told += process.communicate(timeout=LONGEST)[0]
    assert process.returncode == 1, told
    assert f"The bank {one} ended with signal 9, not caused by this demonstration." in told
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
        shown = read_terminal(leader, process, lambda text: b"is running" in text)
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
    assert re.search(rf"'{given}' is not a (duration|time above 0)", done.stderr)


# the counter


@pytest.fixture
def counter(tmp_path, monkeypatch):
    monkeypatch.setenv(COUNTER, str(tmp_path / "steps.log"))
    return Counter(tmp_path / "steps.log")


@pytest.fixture
def as_worker(monkeypatch):
    def become(pid):
        monkeypatch.setattr("os.getpid", lambda: pid)

    return become


def test_a_recorded_step_that_begins_again_is_seen(counter, as_worker):
    as_worker(1)
    write_step("load", "P-1", "began")
    write_step("load", "P-1", "finished")
    counter.bury(1, [("load", "P-1")])
    as_worker(2)
    write_step("load", "P-1", "began")
    counter.read()
    assert counter.repeated == [("load", "P-1")]


def test_a_step_that_one_worker_finishes_and_begins_again_is_seen(counter, as_worker):
    as_worker(1)
    for _ in range(2):
        write_step("load", "P-1", "began")
        write_step("load", "P-1", "finished")
    counter.read()
    assert counter.repeated == [("load", "P-1")]


def test_what_a_kill_cut_off_or_left_unsaved_may_begin_again(counter, as_worker):
    as_worker(1)
    write_step("load", "P-1", "began")
    write_step("load", "P-2", "began")
    write_step("load", "P-2", "finished")
    counter.bury(1, [])
    as_worker(2)
    write_step("load", "P-1", "began")
    write_step("load", "P-2", "began")
    counter.read()
    assert (counter.repeated, counter.cut_off, counter.unsaved) == ([], 1, 1)


def test_a_failed_body_that_begins_again_is_a_retry(counter, as_worker):
    as_worker(1)
    write_step("look_up", "web-1", "began")
    write_step("look_up", "web-1", "failed")
    write_step("look_up", "web-1", "began")
    write_step("look_up", "web-1", "finished")
    counter.read()
    assert (counter.retried, counter.finished, counter.repeated) == ([("look_up", "web-1")], 1, [])


# the bank


@pytest.fixture
async def opened(tmp_path, monkeypatch):
    monkeypatch.setenv(bank.PORT, "")  # the bank's opening sets it
    one = await open_bank(tmp_path)
    yield one
    await one.end(signal.SIGTERM)


@pytest.fixture
def unheard(opened, tmp_path):
    """Ask, and hang up when the bank has done it. It writes down that nobody heard its answer."""

    async def ask(made):
        asking = asyncio.ensure_future(made)
        await until_counted("booked")
        assert not asking.done(), "it answered"
        asking.cancel()
        await asyncio.wait({asking})
        await until_counted("unheard")

    async def until_counted(what):
        async with asyncio.timeout(LONGEST):
            while book_of(tmp_path).count(what) != 1:
                await asyncio.sleep(0.01)

    return ask


async def test_the_bank_knows_a_transfer_again_by_its_id(unheard, tmp_path):
    await unheard(bank.pay("R-1", key="one"))
    first = await bank.pay("R-1", key="one")
    assert await bank.pay("R-1", key="one") == first
    assert book_of(tmp_path).count("booked", "R-1") == 1
    assert await bank.pay("R-1", key="two") != first, "another id is another transfer"
    assert book_of(tmp_path).count("booked", "R-1") == 2


async def test_the_bank_can_be_asked_what_it_did(unheard, tmp_path):
    assert await bank.look("R-1") is None
    await unheard(bank.pay("R-1"))
    assert await bank.look("R-1") is not None
    book = book_of(tmp_path)
    assert [book.count(what, "R-1") for what in ("asked", "booked", "looked")] == [1, 1, 2]


async def test_a_second_request_is_a_second_cheque(unheard, tmp_path):
    await unheard(bank.pay("R-1"))
    await bank.pay("R-1")
    assert book_of(tmp_path).count("booked", "R-1") == 2


async def test_the_bank_closes_when_it_is_told_to(opened, unheard, tmp_path):
    await unheard(bank.pay("R-1"))
    await opened.end(signal.SIGTERM)
    assert opened.process.returncode == 0
    assert not (tmp_path / "bank-errors.log").read_text()


def refunded(state="confirmed", *, tries=1, by=None, safety="idempotent"):
    """A run that has one effect."""
    effect = {"id": "effect", "action": "pay", "safety": safety, "state": state, "tries": tries, "settled_by": by}
    event = {"source": "source", "id": "R-1", "type": "refund.requested", "data": {"id": "R-1"}}
    return {"id": "run", "agent": "refund", "event": event, "steps": [], "effects": [{**effect, "note": None}]}


def with_refund(folder, run, kept=None, **page):
    """A stage with this run, and with these lines in the bank's book."""
    for what, count in page.items():
        for _ in range(count):
            add_line(folder / "bank.log", what=what, reference="R-1")
    stage = new_stage(folder)
    stage.runs = {} if run is None else {"run": run}
    stage.kept = {} if kept is None else {"run": kept}
    return stage


@pytest.mark.parametrize(
    ("run", "kept", "page", "words"),
    [
        (refunded(), None, {"asked": 1, "booked": 1}, "pay R-1: done once."),
        (
            refunded(tries=3),
            None,
            {"booked": 1},
            "pay R-1: answered too late; asked again under the same id: done once.",
        ),
        (
            refunded(tries=2),
            1,
            {"booked": 1},
            "pay R-1: the kill cut off the answer; asked again under the same id: done once.",
        ),
        (
            refunded(tries=2, safety="reconcile"),
            None,
            {"booked": 1, "looked": 1},
            "pay R-1: answered too late; asked again, as it was not there: done once.",
        ),
        (
            refunded(safety="reconcile"),
            None,
            {"booked": 1, "looked": 1},
            "pay R-1: answered too late; looked for and found: done once.",
        ),
        (refunded("held"), None, {"booked": 1}, "pay R-1: answered too late; done or not? Held for a person."),
        (
            refunded("abandoned", by="somebody"),
            None,
            {},
            "pay R-1: answered too late; held, abandoned by somebody: done never.",
        ),
        (
            refunded(tries=2, by="somebody"),
            None,
            {"booked": 2},
            "pay R-1: answered too late; held, repeated by somebody: done twice.",
        ),
    ],
)
def test_an_effect_in_words(tmp_path, run, kept, page, words):
    stage = with_refund(tmp_path, run, kept, **page)
    assert stage.story_of(run, run["effects"][0]) == words


TWICE = "DONE TWICE, WITHOUT AN OPERATOR'S REPEAT: R-1: the promise is broken"
MISSING = "CONFIRMED IN THE STORE, NOT IN THE BANK'S BOOK: R-1: the promise is broken"
STRANGE = "IN THE BANK'S BOOK, NOT IN THE STORE: R-1: the promise is broken"
GOOD = "0 effects done twice."


@pytest.mark.parametrize(
    ("run", "booked", "wrong", "is_good"),
    [
        (refunded(), 1, [], True),
        (refunded("held"), 1, [], True),
        (refunded(), 2, [TWICE], False),
        (refunded(), 0, [MISSING], False),
        (None, 1, [STRANGE], False),
        (refunded(by="somebody"), 2, [], False),  # a person had it done again: neither good nor broken
    ],
)
def test_the_ledger_beside_the_book(tmp_path, run, booked, wrong, is_good):
    lines = list(about_effects(with_refund(tmp_path, run, booked=booked)))
    assert [line.text for line in lines if line.style == BROKEN] == wrong
    assert (GOOD in [line.text for line in lines]) == is_good


def test_a_refund_that_was_not_asked_for_yet_is_no_line(tmp_path):
    assert not list(about_effects(with_refund(tmp_path, refunded("intent"))))


# the command


@pytest.mark.parametrize("width", [24, 40, 72, 80, 200])
@pytest.mark.parametrize("folder", ["/tmp/a", "/var/folders/zz/zyxvpxvq6csfxvn0000000000000/T/wakeful-demo-12345678"])
def test_a_folded_command_is_the_same_to_a_shell(width, folder):
    words = ("replay", "3f2a91c8", "--data", '{"id":"P-1"}', "--note", "it's so", "--store", f"sqlite:///{folder}/w.db")
    lines = folded(words, width)
    script = "\n".join(lines).replace(program(), "printf '%s\\n'", 1)
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=LONGEST, check=True)
    assert done.stdout.splitlines() == list(words)
    assert all(len(line) <= width for line in lines[1:] if "'" not in line)


# the picture


def run_of(
    number, *, ended_for=None, state="running", error="", kind="payment.received", subject=None, agent="invoice"
):
    """A run as the reader shows it, some steps of which are done."""
    begun, at = to_text(now() - 12_500_000), to_text(now())
    ended = None if ended_for is None else to_text(now() - round(ended_for * 1_000_000))
    return {
        "id": str(number), "agent": agent, "state": state, "attempts": 1, "crashes": 0, "error": {"message": error},
        "event": {"type": kind, "data": {"id": subject or f"P-{number}"}}, "steps": [{"name": "load_invoice", "state": "done"}],
        "effects": [], "remedies": [], "created_at": begun, "started_at": begun, "finished_at": ended, "due_at": at,
    }  # fmt: skip


def stage_with(folder, runs, seconds=20.0):
    stage = new_stage(folder, seconds=seconds)
    stage.runs = {run["id"]: run for run in runs}
    for _ in range(30):
        stage.say("a text that is longer than any terminal that somebody would use for this " * 3, "bold red")
    return stage


def drawn(view, console, stage, advice=None):
    """The lines of a picture as they come to a terminal."""
    lines = console.render_lines(view.picture(stage, advice), pad=False)
    return ["".join(segment.text for segment in line) for line in lines]


def live_view(width, height, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, height=height, force_terminal=True, markup=False)
    return LiveView(console), console


@pytest.mark.parametrize(("width", "height"), [(72, 18), (80, 24), (120, 40), (250, 80)])
@pytest.mark.parametrize("seconds", [None, 20.0])
def test_every_line_fits_into_the_terminal(tmp_path, width, height, seconds):
    view, console = live_view(width, height)
    for count in (0, 3, 60):
        long = "a reason that goes on and on [and] does not end at all" * 3
        runs = [run_of(number, state="dead", ended_for=1, error=long) for number in range(count)]
        lines = drawn(view, console, stage_with(tmp_path, runs, seconds))
        assert len(lines) == height
        assert max(map(len, lines)) <= width
        assert not any("…" in line for line in lines[4:8]), "a counter is cut"
        rows = [
            line
            for line in lines
            if re.match(r" invoice payment.received P-\d+ +dead    ✓✗··     1 11.\d s  a re", line)
        ]
        assert bool(rows) == bool(count), "a long note leaves the other columns whole"


def test_a_picture_names_every_count_and_says_how_far_each_run_is(tmp_path):
    view, console = live_view(120, 40)
    resumed = {**run_of(2), "crashes": 1}
    retried = {**run_of(3, state="waiting"), "steps": [{"name": "load_invoice", "state": "retrying"}]}
    dead = run_of(4, state="dead", ended_for=1, error="data does not fit agent invoice: [amount] is not a number")
    stage = stage_with(tmp_path, [run_of(1), resumed, retried, dead, run_of(5, state="done", ended_for=1)])
    stage.kept = {"1": 1, "2": 1}
    shown = "\n".join(drawn(view, console, stage))
    for name in stage.counts():
        assert f" {name} " in shown
    assert "worker none" in shown
    assert re.search(r"P-1 +running ✓▪·· +1 +12.\d s +killed in step 2", shown)
    assert re.search(r"P-3 +waiting ↻··· +1 +12.\d s +retry in 0.0 s", shown)
    assert re.search(r"P-4 +dead +✓✗·· +1 +11.\d s +\[amount\] is not a number", shown)
    stage.worker, stage.joined_at = SimpleNamespace(process=SimpleNamespace(pid=4711)), 1.0
    shown = "\n".join(drawn(view, console, stage))
    assert "worker 4711 running" in shown
    assert re.search(r"P-1 +running ✓▸··", shown)
    assert re.search(r"P-2 +running ✓▸·· +2 +12.\d s +resumed at step 2", shown)
    view, console = live_view(120, 40, "ascii")
    assert re.search(r"P-2 +running #>\.\. ", "\n".join(drawn(view, console, stage)))


def test_a_long_type_is_cut_and_what_it_is_about_is_not(tmp_path):
    view, console = live_view(80, 24)
    asked = run_of(1, kind="github.pull_request.opened", subject="shop#7", agent="review")
    shown = "\n".join(drawn(view, console, stage_with(tmp_path, [asked])))
    assert " review  github.pull_reque… shop#7 running " in shown


@pytest.mark.parametrize(("width", "height"), [(72, 18), (80, 24), (120, 40)])
def test_a_command_to_be_typed_is_there_as_a_whole(tmp_path, width, height):
    view, console = live_view(width, height)
    words = ("effects", "confirm", "3f2a91c8", "--note", "it is there", "--store", "sqlite:////tmp/" + "x" * 40)
    stage = stage_with(tmp_path, [run_of(number) for number in range(60)])
    lines = drawn(view, console, stage, Advice("In a second terminal:", words))
    assert len(lines) == height
    shown, whole = [line.rstrip() for line in lines], folded(words, width)
    assert any(shown[at : at + len(whole)] == whole for at in range(height))


def test_a_run_keeps_its_line():
    view, _ = live_view(80, 24)
    assert view.seat([run_of(1), run_of(2)], 3) == ["1", "2", ""]
    assert view.seat([run_of(1), run_of(2, ended_for=1, state="done"), run_of(3), run_of(4)], 3) == ["1", "4", "3"]
    assert view.seat([run_of(number) for number in range(1, 6)], 3) == ["1", "4", "3"], "no open run is pushed out"
    assert view.seat([run_of(1), run_of(3), run_of(4)], 2) == ["1", "4"]


def test_a_dead_letter_stays_longer_than_a_done_run():
    view, _ = live_view(80, 24)
    view.seat([run_of(1, ended_for=0, state="dead"), run_of(2)], 2)
    dead, done = run_of(1, ended_for=3, state="dead"), run_of(2, ended_for=1, state="done")
    assert view.seat([dead, done, run_of(3)], 2) == ["1", "3"]


def test_a_short_demonstration_goes_faster(tmp_path):
    def pace_for(seconds):
        return new_stage(tmp_path, seconds=seconds).pace

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
