"""`app.command("report", cron("0 6 * * *"), ["python", "run_agent.py"])`: an existing program as an agent.

    record it as interrupted ──► run the program ──► replace the record with its real result

So a process that dies in between leaves an answer behind: the run is a dead letter that says the outcome is unknown,
and a replay clears it. The program is never started a second time without a person, unless it is declared `repeatable`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable, seconds
from wakeful.errors import ClaimLost, CommandFailed, CommandInterrupted, ConfigError, StoreUnavailable
from wakeful.execution import minder
from wakeful.execution.attempt import Attempt, current_attempt
from wakeful.execution.checkpoint import marked
from wakeful.execution.occurrence import facts_of
from wakeful.functions.child_environment import ChildEnvironment, read_environment
from wakeful.functions.options import read_duration
from wakeful.intake.cloudevents import to_envelope
from wakeful.model import Step, digest
from wakeful.redaction import redact, redact_bytes
from wakeful.stored_errors import describe, restore, storable

if TYPE_CHECKING:
    from wakeful.execution.run import Run

KEPT = 64 * 1024  # bytes of each stream: the last ones
OVERLAP = 4 * 1024  # kept before these, so that a secret that begins there is redacted in full
LINES_SHOWN, CHARACTERS_SHOWN = 10, 2_000  # of them, in an error
LONGEST_LINE = 4_000  # in the log; a longer one is split
GRACE = 10.0  # between SIGTERM and SIGKILL
# A stopping worker waits only a few seconds for its runs; after a lost lease another worker may already own the run.
SHORT_GRACE = 3.0
GRACES = {"lost": 0.0, "released": SHORT_GRACE}
MINDER_TAKES = 5.0
# A background process that a program left behind may keep its output open for ever.
OUTPUT_ENDS_WITHIN = 1.0
LONGEST_WAIT = 3600.0
SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True, slots=True, eq=False)
class ProgramCommand:
    """The handler of an agent that is a program."""

    name: str
    arguments: tuple[str, ...]
    shown: str
    written_at: str
    timeout: Microseconds | None = None
    cwd: str | None = None
    environment: ChildEnvironment = field(default_factory=ChildEnvironment)
    repeatable: bool = False

    async def __call__(self, run: Run) -> Any:  # noqa: ARG002 as every handler
        """The program's output after a successful end; from its record, if it ended before."""
        attempt = current_attempt()
        key, name = attempt.record.next_key(
            "command", ""
        )  # the same for every command: an edit must not make it run twice
        with attempt.at_work():
            recorded = attempt.record.find(key)
            if recorded is not None and recorded.state == "failed":
                raise marked(restore(from_json(recorded.error or "{}")), key, name)
            if recorded is not None:
                return from_json(recorded.result or "null")
            arguments = to_json([self.shown]).decode()
            return await self._do(attempt, attempt.record.new_step(key, name, "failed", arguments=arguments))

    async def _do(self, attempt: Attempt, step: Step) -> Any:
        environment = self._environment(attempt)
        if not self.repeatable:
            step.error = to_json(describe(self._interrupted(attempt, "the process that ran it died"))).decode()
            await attempt.record.save(step)
        attempt.progress()
        token = attempt.inside("command")
        with event_file(attempt) as file:
            program = Program(attempt, [*self.arguments], self.cwd or "", environment | {"WAKEFUL_EVENT": file}, file)
            try:
                with attempt.resting():
                    await program.run(self.timeout)
            except asyncio.CancelledError:
                await self._cut_off(attempt, step, program)
                raise
            except Exception as error:
                await self._failed(attempt, step, program, error)
            finally:
                attempt.progress()
                attempt.outside(token)
        output = program.output()
        step.state, step.error, step.result = "done", None, to_json(output).decode()
        await self._save(attempt, step)
        return output

    async def _failed(self, attempt: Attempt, step: Step, program: Program, error: Exception) -> None:
        if isinstance(error, EndUnknown):
            error = CommandFailed(str(error)) if self.repeatable else self._interrupted(attempt, str(error))
        step.error = to_json({**describe(error), "output": program.output()}).decode()
        await self._save(attempt, step)
        raise marked(error, step.key, step.name) from None

    async def _cut_off(self, attempt: Attempt, step: Step, program: Program) -> None:
        """The run was interrupted, and the program with it. A run that would be retried is marked so that it is not."""
        if attempt.interrupted == "lost":
            return
        why = {"released": "its worker stopped", "cancelled": "it was cancelled", "deadline": "its deadline passed"}
        words = why.get(attempt.interrupted or "", "its attempt was interrupted")
        error = self._interrupted(attempt, f"{words}, and it was ended")
        if not self.repeatable:
            attempt.cut_off = error
            step.error = to_json({**describe(error), "output": program.output()}).decode()
            with contextlib.suppress(ClaimLost, StoreUnavailable):
                await self._save(attempt, step)

    @staticmethod
    async def _save(attempt: Attempt, step: Step) -> None:
        step.finished_at = attempt.clock.now()
        await attempt.record.save(step)

    @staticmethod
    def _interrupted(attempt: Attempt, why: str) -> CommandInterrupted:
        return CommandInterrupted(
            f"{why} while the command was running: it is unknown how far it got, or whether it finished. "
            f"It is not run again automatically; `wakeful replay {attempt.id}` runs it again"
        )

    def _environment(self, attempt: Attempt) -> dict[str, str]:
        """The variables that are passed on, those that were declared, and the facts of the run."""
        return self.environment.made(facts_of(attempt.id, attempt.agent, attempt.event), where=f"agent {self.name}")


class EndUnknown(Exception):
    """A program was killed in the middle, not on purpose. The message says why."""


class Program:
    """One running program, with its minder."""

    def __init__(
        self, attempt: Attempt, arguments: list[str], cwd: str, environment: dict[str, str], file: str
    ) -> None:
        self._attempt = attempt
        self._arguments = arguments
        self._cwd = cwd
        self._environment = environment
        self._file = file
        self._group: int | None = None
        self._told: asyncio.Task[dict[str, Any]] | None = None
        self._line: asyncio.StreamWriter | None = None
        self._minder: subprocess.Popen[bytes] | None = None
        self._streams = {"stdout": Tail(), "stderr": Tail()}
        self._readers: list[asyncio.Task[None]] = []

    def output(self) -> dict[str, Any]:
        """The exit code and the kept output."""
        code = self._ending().get("exit_code")
        return {"exit_code": code, **{name: tail.text() for name, tail in self._streams.items()}}

    def _ending(self) -> dict[str, Any]:
        """How it ended, if that is known."""
        told = self._told
        return told.result() if told is not None and told.done() and not told.cancelled() else {}

    async def run(self, limit: Microseconds | None) -> None:
        """Run it to its end. Raises CommandFailed unless it succeeds. In every case the program is over when this
        returns.
        """
        async with contextlib.AsyncExitStack() as stack:
            starting = asyncio.ensure_future(self._start(stack))
            try:
                await asyncio.shield(starting)
                why = await self._wait(limit)
                if why is not None:
                    await self._end(0.0 if isinstance(why, EndUnknown) else GRACE)
            except asyncio.CancelledError:
                await starting  # a program that is half started could not be ended
                await self._end(GRACES.get(self._attempt.interrupted or "", GRACE))
                raise
            finally:
                if self._readers:
                    await asyncio.wait(self._readers, timeout=OUTPUT_ENDS_WITHIN)
            self._judge(why)

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        ours, theirs = socket.socketpair()
        ends = {name: os.pipe() for name in self._streams}
        try:
            self._minder = subprocess.Popen(  # noqa: ASYNC220 in a thread, a task that is cancelled meanwhile would not know of it
                [
                    *(sys.executable or "python3", "-I", "-S", minder.__file__),
                    *(str(SHORT_GRACE), self._file, self._cwd, *self._arguments),
                ],
                stdin=theirs.fileno(),
                stdout=ends["stdout"][1],
                stderr=ends["stderr"][1],
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            for reading, _ in ends.values():
                os.close(reading)
            ours.close()
            message = f"it could not be started: {error}"
            raise CommandFailed(message) from None
        finally:
            theirs.close()
            for _, writing in ends.values():
                os.close(writing)
        threading.Thread(target=self._minder.wait, name="wakeful command", daemon=True).start()
        reader, self._line = await asyncio.open_connection(sock=ours)
        stack.callback(self._line.close)
        self._told = asyncio.ensure_future(self._hear(reader))
        stack.callback(self._told.cancel)
        self._readers = [await self._follow(name, ends[name][0], stack) for name in self._streams]

    async def _hear(self, line: asyncio.StreamReader) -> dict[str, Any]:
        """How it ended, as its minder reports it; empty if the minder was killed."""
        while text := await line.readline():
            said: dict[str, Any] = from_json(text)
            if "began" not in said:
                return said
            self._group = said["began"]
        return {}

    async def _follow(self, name: str, end: int, stack: contextlib.AsyncExitStack) -> asyncio.Task[None]:
        reader = asyncio.StreamReader(limit=KEPT)
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(end, "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        stack.callback(transport.close)
        task = asyncio.ensure_future(self._keep(name, reader))
        stack.callback(task.cancel)
        return task

    async def _keep(self, name: str, reader: asyncio.StreamReader) -> None:
        lines = OutputLines()
        while chunk := await reader.read(KEPT):
            self._streams[name].add(chunk)
            self._log(name, lines.add(chunk))
        self._log(name, lines.rest())

    def _log(self, name: str, lines: Sequence[str]) -> None:
        self._attempt.progress()
        for line in () if self._attempt.surroundings.store.encrypts else lines:
            self._attempt.log.info(line, stream=name)

    async def _wait(self, limit: Microseconds | None) -> Exception | None:
        """Wait until it is over or must be ended. Returns the reason in the latter case."""
        told = self._told
        ends = None if limit is None else monotonic() + seconds(limit)
        while told is not None and not told.done():
            left = LONGEST_WAIT if ends is None else ends - monotonic()
            if left <= 0:
                return CommandFailed(f"it exceeded its time limit of {readable(limit)} and was ended")
            lease = self._attempt.surroundings.time_for_calls()
            if lease <= 0:
                return EndUnknown("the lease of its process could not be renewed")
            await asyncio.wait({told}, timeout=min(left, lease, LONGEST_WAIT))
        return None

    async def _end(self, grace: float) -> None:
        """End the whole process group: ask its minder, and kill it if that takes too long or is cancelled."""
        if self._told is None or self._line is None:
            return
        try:
            self._line.write(f"{grace}\n".encode())
            await asyncio.wait({self._told}, timeout=grace + MINDER_TAKES)
        finally:
            if not self._told.done():
                self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._group is not None:
                os.killpg(self._group, signal.SIGKILL)
        if self._minder is not None:
            self._minder.kill()

    def _judge(self, why: Exception | None) -> None:
        told = self._ending()
        code = told.get("exit_code")
        if why is None and code == 0:
            return
        if not told:
            self._kill()
        if why is None and "refused" in told:
            place = f" in {self._cwd}" if self._cwd else ""
            raise CommandFailed(f"it could not be started{place}: {told['refused']}: {self._arguments[0]}")
        if why is None and not told:
            why = EndUnknown("the process that supervises it was killed")
        if isinstance(why, EndUnknown):
            raise why
        raise CommandFailed((shown_code(code) if why is None else str(why)) + self._last_lines())

    def _last_lines(self) -> str:
        """The last lines of stderr, or else of stdout. Errors go into the log and into alarms: if payloads are
        encrypted, the output is kept only with the run.
        """
        if self._attempt.surroundings.store.encrypts:
            return f". `wakeful trace {self._attempt.id} --json` shows its output"
        for name in ("stderr", "stdout"):
            lines = self._streams[name].text().rstrip().splitlines()[-LINES_SHOWN:]
            if lines:
                text = "\n".join(lines)
                return f". The end of its {name}:\n{text[-CHARACTERS_SHOWN:]}"
        return ". It printed nothing"


class Tail:
    """The end of a stream, and the number of bytes before it."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._cut = 0

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        over = len(self._kept) - self._limit - OVERLAP
        if over > 0:
            self._cut += over
            del self._kept[:over]

    def text(self) -> str:
        """The kept text, in characters that any database can store and with known secrets redacted. If something is
        missing, the first line says so.
        """
        before = max(0, len(self._kept) - self._limit)
        kept = storable(self._kept[before:].decode("utf-8", "replace"))
        whole = storable(self._kept.decode("utf-8", "replace"))
        if (cleaned := redact(whole)) is not whole:  # redact before the cut: half a secret is not found
            kept = cleaned[-self._limit :] if before else cleaned
        cut = self._cut + before
        return kept if not cut else f"… {cut:,} bytes before this are not kept …\n{kept}"


class OutputLines:
    """Splits a stream into lines as they arrive."""

    def __init__(self) -> None:
        self._left = b""

    def add(self, chunk: bytes) -> list[str]:
        *whole, self._left = (self._left + chunk).split(b"\n")
        if len(self._left) >= LONGEST_LINE:
            whole, self._left = [*whole, self._left], b""
        return self._shown(whole)

    def rest(self) -> list[str]:
        whole, self._left = [self._left], b""
        return self._shown(whole)

    @staticmethod
    def _shown(lines: Sequence[bytes]) -> list[str]:
        clean = map(redact_bytes, lines)  # before they are split
        pieces = [line[start : start + LONGEST_LINE] for line in clean for start in range(0, len(line), LONGEST_LINE)]
        return [storable(piece.decode("utf-8", "replace").rstrip("\r")) for piece in pieces]


@contextlib.contextmanager
def event_file(attempt: Attempt) -> Iterator[str]:
    """The event of a run in a file that only this user can read. If this process dies, the minder removes it."""
    number, path = tempfile.mkstemp(prefix="wakeful-event-", suffix=".json")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(to_envelope(attempt.event))
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def shown_code(code: int | None) -> str:
    if code is None:
        return "it did not end"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


# declaration


def read_command(
    name: str,
    command: Any,
    *,
    written_at: str,
    timeout: Any = None,
    cwd: Any = None,
    environment: Any = None,
    repeatable: Any = False,
    withheld: Sequence[str] = (),
) -> ProgramCommand:
    """Check the arguments of `app.command`."""
    where = f"command {name} ({written_at})"
    if not isinstance(name, str) or not name:
        message = f'{where}: give it a name first, like app.command("report", …)'
        raise ConfigError(message)
    if not isinstance(repeatable, bool):
        message = f"{where}: repeatable must be True or False, not {repeatable!r}"
        raise ConfigError(message)
    if cwd is not None and not isinstance(cwd, str | os.PathLike):
        message = f"{where}: cwd must be a folder, not {cwd!r}"
        raise ConfigError(message)
    arguments, shown = _read_arguments(command, where)
    return ProgramCommand(
        name,
        arguments,
        shown,
        written_at,
        read_duration("timeout", timeout, where),
        None if cwd is None else os.fspath(cwd),
        read_environment(environment, where, withheld=withheld),
        repeatable,
    )


def agent_options(command: ProgramCommand, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a command's agent. Refuses options that a program cannot use, and a retry that would run it twice."""
    where = f"command {command.name} ({command.written_at})"
    for option, why in (("state", "a program has no run.state"), ("batch", "a program handles one event")):
        if given.get(option) is not None:
            message = f"{where}: {option}= is not for commands: {why}. Write an agent that starts the program"
            raise ConfigError(message)
    if given.get("on_stuck") == "retry" and not command.repeatable:
        message = f'{where}: on_stuck="retry" would run it twice: add repeatable=True if that does no harm'
        raise ConfigError(message)
    defaults: dict[str, Any] = {"attempts": 1, "version": digest(*command.arguments, size=5)}
    if command.timeout is not None:
        defaults["stuck_after"] = None  # it may be silent until its timeout
    return defaults | given


def _read_arguments(command: Any, where: str) -> tuple[tuple[str, ...], str]:
    if isinstance(command, str) and command.strip() and "\0" not in command:
        return (*SHELL, command), command
    if isinstance(command, list | tuple) and command and all(isinstance(one, str | os.PathLike) for one in command):
        words = tuple(os.fspath(one) for one in command)
        if all(isinstance(one, str) and "\0" not in one for one in words) and words[0]:
            return words, subprocess.list2cmdline(words)
    message = (
        f'{where}: the command is a list of words, like ["python", "run_agent.py"], or a text for the shell, '
        f"not {command!r}"
    )
    raise ConfigError(message)
