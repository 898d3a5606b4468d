"""Programs as agents, on both stores: what is kept of them, how they are ended, and that none runs twice by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic_core import from_json

from support.apps import NewApp, ended, go, the_run, working
from wakeful import App, env, on
from wakeful.errors import ConfigError
from wakeful.execution import command, minder
from wakeful.execution.command import KEPT, OutputLines, Tail
from wakeful.model import Receipt
from wakeful.redaction import KNOWN
from wakeful.runtime import Runtime
from wakeful.stores.keyring import new_key
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.processes import BuryProcess
from wakeful.stores.verbs.redo import RedoRun
from wakeful.testing.waiting import until


class Gate:
    """A program that says who it is, and then waits to be let through."""

    def __init__(self, folder: Path) -> None:
        self.told = folder / "told"
        self.gate = folder / "gate"
        os.mkfifo(self.gate)

    @property
    def line(self) -> str:
        waits = "$(exec sh -c 'echo $PPID')"
        return f'echo "$$ $PPID {waits}" >> {self.told}; read -r word < {self.gate}; echo "$word"'

    def began(self) -> list[tuple[int, int]]:
        """The program and its minder, each time that it began."""
        text = self.told.read_text() if self.told.exists() else ""
        return [(int(own), int(parent)) for own, parent, _ in map(str.split, text.splitlines())]

    def pids(self) -> list[int]:
        """Those who wait, which may be a part of the program."""
        return [int(line.split()[2]) for line in self.told.read_text().splitlines()]

    async def reached(self, times: int = 1) -> tuple[int, int]:
        await until(lambda: len(self.began()) >= times)
        return self.began()[-1]

    async def open(self, word: str = "through") -> None:
        """Non-blocking, until somebody reads."""

        def let() -> bool:
            try:
                handle = os.open(self.gate, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return False
            os.write(handle, f"{word}\n".encode())
            os.close(handle)
            return True

        await until(let)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


async def cancel(runtime: Runtime, receipt: Receipt) -> None:
    await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code"), note="not today"))
    runtime.worker.look_who_is_to_stop()


async def replay(runtime: Runtime, run: str) -> None:
    redone = await runtime.store.do(RedoRun(run, by=Actor("ada", "code")))
    assert redone is not None
    assert redone.refused is None


# what is kept


async def test_what_it_says_is_the_output(app: App):
    app.command("report", on("go"), "echo hello; echo careful >&2")
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["state"] == "done"
    assert run["output"] == {"exit_code": 0, "stdout": "hello\n", "stderr": "careful\n"}
    (step,) = run["steps"]
    assert (step["name"], step["state"]) == ("command", "done")


async def test_a_list_is_started_as_it_is(app: App):
    app.command("report", on("go"), [sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME; echo *"])
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["output"]["stdout"] == "$HOME; echo *\n"


async def test_another_exit_code_is_a_failure_that_shows_its_last_lines(app: App):
    app.command("report", on("go"), 'echo fine; for i in $(seq 20); do echo "line $i" >&2; done; exit 3', owner="ops")
    async with working(app) as runtime:
        run = await go(runtime)
        (alarm,) = (await runtime.reader.alarms())["alarms"]
    assert (run["state"], run["attempts"]) == ("dead", 1)
    assert run["error"]["type"] == "CommandFailed"
    message = run["error"]["message"]
    assert message.startswith("exit code 3. The end of its stderr:\n")
    assert "line 20" in message
    assert "line 10\n" not in message
    (step,) = run["steps"]
    assert step["error"]["output"]["stdout"] == "fine\n"
    assert step["error"]["output"]["exit_code"] == 3
    assert run["id"] in alarm["text"]


async def test_one_that_ends_by_a_signal_says_so(app: App):
    app.command("report", on("go"), "kill -SEGV $$")
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["error"]["message"].startswith("ended by SIGSEGV")


async def test_with_attempts_it_is_tried_again(app: App, tmp_path: Path):
    app.command("report", on("go"), ["sh", "-c", "mkdir made && exit 1; echo again"], cwd=tmp_path, attempts=2)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        runtime.clock.move("10m")  # type: ignore[attr-defined]
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"]["stdout"]) == ("done", "again\n")
    assert [one["outcome"] for one in run["history"]] == ["retried"]


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [(["/no/such/program"], None, "No such file or directory: /no/such/program"), ("true", "/no/folder", "/no/folder")],
)
async def test_one_that_cannot_be_started_says_why(app: App, given: Any, where: str | None, words: str):
    app.command("report", on("go"), given, cwd=where)
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["state"] == "dead"
    assert "could not be started" in run["error"]["message"]
    assert words in run["error"]["message"]


async def test_of_a_long_output_the_end_is_kept_and_that_is_said(app: App):
    app.command("report", on("go"), [sys.executable, "-c", f"print('x' * {KEPT}); print('the end')"])
    async with working(app) as runtime:
        run = await go(runtime)
    first, rest = run["output"]["stdout"].split("\n", 1)
    assert first == "… 9 bytes before this are not kept …"
    assert len(rest) == KEPT
    assert rest.endswith("\nthe end\n")


async def test_what_is_not_text_is_kept_as_far_as_it_can_be(app: App):
    app.command("report", on("go"), [sys.executable, "-c", r"import sys; sys.stdout.buffer.write(b'a\0\xff\xc3\xa4')"])
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["output"]["stdout"] == "a␀�ä"


async def test_what_it_leaves_in_the_background_does_not_keep_its_run(app: App, gate: Gate):
    app.command("report", on("go"), f"({gate.line}) & echo started", repeatable=True)
    async with working(app) as runtime:
        run = await go(runtime)
        assert run["output"] == {"exit_code": 0, "stdout": "started\n", "stderr": ""}
        await gate.open()


async def test_its_lines_are_logged_as_they_come(app: App, gate: Gate):
    app.command("report", on("go"), f"echo first; {gate.line}")
    async with working(app) as runtime:
        with structlog.testing.capture_logs() as lines:
            receipt = await app.emit("go")
            await until(lambda: [one for one in lines if one["event"] == "first"])
            assert (await the_run(runtime, receipt))["state"] == "running"
            await gate.open("last")
            await runtime.drain()
    assert [(one["event"], one["stream"]) for one in lines if "stream" in one] == [
        ("first", "stdout"),
        ("last", "stdout"),
    ]


@pytest.mark.parametrize("encrypted", [False, True])
async def test_what_it_says_is_in_no_log_where_payloads_are_encrypted(new_app: NewApp, encrypted: bool):
    pytest.importorskip("cryptography")
    app = new_app(encryption=[new_key()] if encrypted else None)
    app.command("report", on("go"), "echo said-to-stdout; echo said-to-stderr >&2; exit 3")
    with structlog.testing.capture_logs() as lines:
        async with working(app) as runtime:
            run = await go(runtime)
    assert run["error"]["message"].startswith("exit code 3")
    assert run["steps"][0]["error"]["output"]["stderr"] == "said-to-stderr\n"
    logged = [word for word in ("said-to-stdout", "said-to-stderr") if word in repr(lines)]
    assert logged == ([] if encrypted else ["said-to-stdout", "said-to-stderr"])
    assert "exit code 3" in repr(lines)


async def test_it_is_told_what_it_runs_for(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAKEFUL_TOKEN", "secret-token")
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", "")
    monkeypatch.setenv("WAKEFUL_SCHEDULED_FOR", "of somebody else")
    monkeypatch.setenv("REPORT_KEY", "secret-key")
    app = new_app()
    script = "import json, os; print(json.dumps([dict(os.environ), json.load(open(os.environ['WAKEFUL_EVENT']))]))"
    app.command(
        "report", on("go"), [sys.executable, "-c", script], environment={"MODE": "live", "KEY": env("REPORT_KEY")}
    )
    async with working(app) as runtime:
        run = await go(runtime, {"number": 7})
    told, event = from_json(run["output"]["stdout"])
    assert (told["WAKEFUL_RUN_ID"], told["WAKEFUL_AGENT"]) == (run["id"], "report")
    assert (told["MODE"], told["KEY"]) == ("live", "[redacted: REPORT_KEY]")
    assert not {"WAKEFUL_TOKEN", "WAKEFUL_ENCRYPTION_KEYS", "WAKEFUL_SCHEDULED_FOR"} & set(told)
    assert (event["type"], event["data"]) == ("go", {"number": 7})
    assert not os.path.exists(told["WAKEFUL_EVENT"])  # noqa: ASYNC240, PTH110


async def test_of_the_workers_environment_it_gets_what_is_allowed(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PLAIN", "passed on")
    monkeypatch.setenv("OTHER", "stays")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    app = new_app()
    app.command("report", on("go"), ["/usr/bin/env"], environment=["PLAIN", "NOT_SET"])
    async with working(app) as runtime:
        run = await go(runtime)
    told = {line.partition("=")[0] for line in run["output"]["stdout"].splitlines()}
    facts = {"WAKEFUL_RUN_ID", "WAKEFUL_AGENT", "WAKEFUL_EVENT"}
    assert told - {"LC_CTYPE"} == {"PATH", "HOME", "LANG", "TZ", "PLAIN", *facts}


async def test_a_secret_of_the_app_is_not_passed_on_by_its_name_alone(
    new_app: NewApp, gate: Gate, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SHARED_SECRET", "s3cret")
    app = new_app()
    app.command("report", on("go"), gate.line, environment=["SHARED_SECRET"])
    assert env("SHARED_SECRET")  # read as a secret, elsewhere in the app
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["state"] == "dead"
    assert "environment names SHARED_SECRET, which the app reads as a secret" in run["error"]["message"]
    assert gate.began() == []


def test_a_key_of_the_store_is_for_no_child(new_app: NewApp):
    app = new_app(encryption=[env("DESK_KEY")])
    with pytest.raises(ConfigError, match="DESK_KEY contains an encryption key of the store"):
        app.command("report", on("go"), ["true"], environment={"KEY": env("DESK_KEY")})


async def test_a_secret_that_is_not_set_is_missed_before_it_starts(app: App, gate: Gate):
    app.command("report", on("go"), gate.line, environment={"KEY": env("NO_SUCH_SECRET")})
    async with working(app) as runtime:
        run = await go(runtime)
    assert run["state"] == "dead"
    assert "NO_SUCH_SECRET" in run["error"]["message"]
    assert gate.began() == []


# ending it


async def test_at_its_time_limit_the_whole_group_is_ended(app: App, gate: Gate, monkeypatch: pytest.MonkeyPatch):
    later = [0.0]
    monkeypatch.setattr(command, "LONGEST_WAIT", 0.01)
    monkeypatch.setattr(command, "monotonic", lambda: time.monotonic() + later[0])
    app.command("report", on("go"), f"({gate.line}) & ({gate.line}); true", timeout="3h")
    async with working(app) as runtime:
        receipt = await app.emit("go")
        await gate.reached(2)
        later[0] = 3 * 3600.0
        run = await ended(runtime, receipt)
    assert run["state"] == "dead"
    assert "exceeded its time limit of 3 h" in run["error"]["message"]
    await until(lambda: all(is_gone(pid) for pid in gate.pids()))


async def test_one_that_will_not_end_is_killed(app: App, gate: Gate, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "GRACE", 0.1)
    app.command("report", on("go"), f"trap '' TERM; {gate.line}; sleep 300")
    async with working(app) as runtime:
        receipt = await app.emit("go")
        pid, _ = await gate.reached()
        await cancel(runtime, receipt)
        run = await ended(runtime, receipt)
    assert run["state"] == "cancelled"
    assert run["steps"][0]["error"]["output"]["exit_code"] == -signal.SIGKILL
    assert is_gone(pid)


async def test_a_cancelled_run_takes_it_along(app: App, gate: Gate):
    app.command("report", on("go"), gate.line)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        pid, _ = await gate.reached()
        await cancel(runtime, receipt)
        run = await ended(runtime, receipt)
        assert is_gone(pid)
        assert (run["state"], run["reason"]) == ("cancelled", "cancelled by ada: not today")
        await replay(runtime, run["id"])
        await gate.open()
        again = await ended(runtime, receipt)
    assert (again["state"], again["output"]["stdout"]) == ("done", "through\n")


async def test_one_that_is_cancelled_while_it_begins_does_not_go_on(
    app: App, gate: Gate, monkeypatch: pytest.MonkeyPatch
):
    """The order comes when the program is there and nobody listens to it yet."""
    listening = asyncio.open_connection

    async def later(**options: Any) -> Any:
        await gate.reached()
        await cancel(runtime, receipt)
        await until(lambda: runtime.worker.in_flight[0].interrupted)
        return await listening(**options)

    app.command("report", on("go"), gate.line)
    async with working(app, worker=False) as runtime:
        receipt = await app.emit("go")
        monkeypatch.setattr(asyncio, "open_connection", later)
        await runtime.start()
        run = await ended(runtime, receipt)
    ((pid, _),) = gate.began()
    assert run["state"] == "cancelled"
    assert is_gone(pid)


async def test_a_worker_that_stops_ends_it_and_nobody_runs_it_again(new_app: NewApp, gate: Gate):
    async def stop_in_the_middle(app: App) -> tuple[Receipt, int]:
        async with working(app, grace=0.0):
            receipt = await app.emit("go")
            pid, _ = await gate.reached()
        return receipt, pid

    app = new_app()
    app.command("report", on("go"), gate.line, attempts=3)
    receipt, pid = await stop_in_the_middle(app)
    assert is_gone(pid)
    async with working(app) as runtime:
        run = await ended(runtime, receipt)
        assert (run["state"], run["error"]["type"]) == ("dead", "CommandInterrupted")
        assert "its worker stopped" in run["error"]["message"]
        assert [one["outcome"] for one in run["history"]] == ["dead"]
        assert len(gate.began()) == 1
        await replay(runtime, run["id"])
        await gate.open()
        again = await ended(runtime, receipt)
    assert (again["state"], len(gate.began())) == ("done", 2)


async def test_a_repeatable_one_goes_again_after_its_worker_stopped(new_app: NewApp, gate: Gate):
    app = new_app()
    app.command("report", on("go"), gate.line, repeatable=True)
    async with working(app, grace=0.0):
        receipt = await app.emit("go")
        await gate.reached()
    async with working(app) as runtime:
        await gate.open()
        run = await ended(runtime, receipt)
    assert (run["state"], run["output"]["stdout"], len(gate.began())) == ("done", "through\n", 2)


# nobody knows


@pytest.mark.parametrize("repeatable", [False, True])
async def test_a_process_that_dies_in_the_middle(new_app: NewApp, gate: Gate, repeatable: bool):
    def make() -> App:
        app = new_app()
        app.command("report", on("go"), gate.line, repeatable=repeatable, attempts=3)
        return app

    app = make()
    async with working(make(), worker=False) as runtime:
        dying = working(app)  # never left: it dies
        one = await dying.__aenter__()
        receipt = await app.emit("go")
        await gate.reached()
        await one.die()
        await runtime.start()
        await runtime.store.do(BuryProcess(one.membership.process, certain=True))
        if repeatable:
            await gate.reached(2)
            await gate.open()
        run = await ended(runtime, receipt)
        if repeatable:
            assert (run["state"], run["crashes"], len(gate.began())) == ("done", 1, 2)
            return
        assert (run["state"], len(gate.began())) == ("dead", 1)
        assert run["error"]["type"] == "CommandInterrupted"
        assert "it is unknown" in run["error"]["message"]
        (alarm,) = (await runtime.reader.alarms())["alarms"]
        assert run["id"] in alarm["text"]
        story = " ".join((await runtime.reader.why(run["id"]) or {})["story"])
        assert f"wakeful replay {run['id']}" in story
        following = await runtime.app.emit("go")
        await gate.reached(2)
        await gate.open()
        assert (await ended(runtime, following))["state"] == "done", "the next one is not blocked"
        await replay(runtime, run["id"])
        await gate.reached(3)
        await gate.open()
        assert (await ended(runtime, receipt))["state"] == "done"


async def test_when_its_minder_is_killed_it_does_not_go_on(app: App, gate: Gate):
    app.command("report", on("go"), gate.line)
    async with working(app) as runtime:
        receipt = await app.emit("go")
        pid, parent = await gate.reached()
        os.kill(parent, signal.SIGKILL)
        run = await ended(runtime, receipt)
    assert (run["state"], run["error"]["type"]) == ("dead", "CommandInterrupted")
    await until(lambda: is_gone(pid))


# A minder that is killed as soon as the program is at work, before it does anything else.
KILLED_MINDER = """
import os, runpy, signal, subprocess, time
class Killed(subprocess.Popen):
    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        while not (os.path.exists({told!r}) and os.path.getsize({told!r})):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)
subprocess.Popen = Killed
runpy.run_path({minder!r}, run_name="__main__")
"""


async def test_a_minder_that_is_killed_as_the_program_begins_leaves_none_behind(
    app: App, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The worker knows the program's group before the program can do anything."""
    killed = tmp_path / "killed_minder.py"
    killed.write_text(KILLED_MINDER.format(told=str(gate.told), minder=minder.__file__))
    monkeypatch.setattr(minder, "__file__", str(killed))
    app.command("report", on("go"), gate.line)
    async with working(app) as runtime:
        run = await ended(runtime, await app.emit("go"))
    assert (run["state"], run["error"]["type"]) == ("dead", "CommandInterrupted")
    ((pid, _),) = gate.began()
    await until(lambda: is_gone(pid))


async def test_it_ends_before_the_lease_can(app: App, gate: Gate):
    app.command("report", on("go"), gate.line)
    async with working(app) as runtime:
        left = [0.01]
        runtime.surroundings.time_for_calls = lambda: left[0]
        receipt = await app.emit("go")
        pid, _ = await gate.reached()
        left[0] = 0.0
        run = await ended(runtime, receipt)
    assert (run["state"], run["error"]["type"]) == ("dead", "CommandInterrupted")
    assert "lease" in run["error"]["message"]
    assert is_gone(pid)


# declaring


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": []}, "list of words"),
        ({"command": "  "}, "list of words"),
        ({"command": ["python", 3]}, "list of words"),
        ({"command": ["a\0b"]}, "list of words"),
        ({"timeout": "soon"}, "timeout"),
        ({"cwd": 3}, "cwd must be a folder"),
        ({"environment": {"A": 3}}, "environment must be names and texts"),
        ({"environment": ["A="]}, "environment must be names and texts"),
        ({"environment": "PATH"}, "environment must be names and texts"),
        ({"environment": ["WAKEFUL_TOKEN"]}, "environment: WAKEFUL_TOKEN stays with the worker"),
        ({"environment": {"WAKEFUL_STORE": "x"}}, "environment: WAKEFUL_STORE stays with the worker"),
        ({"environment": {"T": env("WAKEFUL_TOKEN")}}, "environment: WAKEFUL_TOKEN stays with the worker"),
        ({"repeatable": "yes"}, "repeatable must be True or False"),
        ({"state": dict}, "state= is not for commands"),
        ({"batch": (5, "1s")}, "batch= is not for commands"),
        ({"on_stuck": "retry"}, "repeatable=True"),
        ({"attemps": 3}, 'Did you mean "attempts"?'),
        ({"trigger": "go"}, "is not a trigger"),
        ({"name": "a b"}, "name"),
        ({"name": None}, "give it a name"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(given: dict[str, Any], words: str):
    whole = {"name": "report", "trigger": on("go"), "command": "true", **given}
    app = App("app")
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")) as caught:
        app.command(**whole)
    if "is not a trigger" not in words:
        assert Path(__file__).name in str(caught.value)


def test_an_agent_of_that_name_is_refused_with_its_place():
    app = App("app")
    app.command("report", on("go"), "true")
    with pytest.raises(ConfigError, match=f"already has an agent of that name.*{Path(__file__).name}"):
        app.command("report", on("go"), "true")


def test_another_program_is_another_version():
    app = App("app")
    app.command("one", on("go"), "true")
    app.command("two", on("go"), "false")
    shown = {name: agent.describe() for name, agent in app.agents.items()}
    assert shown["one"]["version"] != shown["two"]["version"]
    assert shown["one"]["command"] == "true"
    assert shown["one"]["attempts"] == 1


# streams


def test_lines_come_as_soon_as_they_are_whole():
    lines = OutputLines()
    assert lines.add(b"one\ntw") == ["one"]
    assert lines.add(b"o\r\n\nthree") == ["two"]
    assert lines.rest() == ["three"]
    assert lines.rest() == []


def test_a_line_without_end_is_told_in_pieces():
    told = OutputLines().add(b"x" * (command.LONGEST_LINE + 1))
    assert [len(one) for one in told] == [command.LONGEST_LINE, 1]


def test_a_tail_keeps_the_end():
    tail = Tail(4)
    for chunk in (b"ab", b"cd", b"ef"):
        tail.add(chunk)
    assert tail.text() == "… 2 bytes before this are not kept …\ncdef"


def test_a_secret_at_the_place_where_output_is_cut_is_redacted_whole():
    KNOWN.learn("KEY", "s3cret-value")
    tail = Tail(8)
    for chunk in (b"s3cret", b"-value and", b" more"):
        tail.add(chunk)
    assert tail.text() == "… 13 bytes before this are not kept …\nand more"
    tail = Tail(14)
    tail.add(b"s3cret-value and more")
    assert "value" not in tail.text()
    (first, *_) = OutputLines().add(b"x" * 3995 + b"s3cret-value\n")
    assert "s3cret" not in first
