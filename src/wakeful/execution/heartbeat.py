"""One occurrence of one check: is it due? → is there anything to do? → do it → is the result new? → remember.

A check's memory is its part of the session's state. It is saved with the run that changed it, in one transaction with
the message and the alarm. So an occurrence that died half-way is repeated from the start.

A failed check is not a dead letter: its next occurrence is its next try. Three failures in a row raise an alarm.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.clock import SECOND, Duration, Microseconds, from_datetime, readable
from wakeful.clock import to_text as time_text
from wakeful.errors import ConfigError, Denied, Persistent, StoreError
from wakeful.execution.attempt import current_attempt
from wakeful.execution.occurrence import facts_of
from wakeful.execution.probe import ask_command
from wakeful.execution.run import Run
from wakeful.functions.call import call
from wakeful.functions.child_environment import read_environment
from wakeful.functions.options import MARK, StepOptions, read_duration, step
from wakeful.model import digest
from wakeful.stored_errors import words_of
from wakeful.stores.alarm import Alarm, heartbeat_alarm
from wakeful.triggers.every import every as every_so_often
from wakeful.triggers.heartbeat import NO_COMMANDS, Heartbeat, Usual
from wakeful.triggers.schedules import BY_HAND
from wakeful.values import to_text

FAILURES_BEFORE_ALARM = 3
SHOWN_OF_A_TEXT = 2_000
LARGEST_PROCESSED = 64 * 1024
PROBE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
PROCESSED = "what a check has processed"

Result = Literal["quiet", "told", "unchanged", "failed", "skipped"]


@dataclass(slots=True)
class Check:
    """A check as its functions see it: its section of the file, and what its probe found.

    `processed` is kept from occurrence to occurrence: what the probe found, or a value that a function puts there.
    """

    name: str
    title: str
    text: str
    preamble: str = ""
    found: Any = None
    processed: Any = None


@dataclass(slots=True)
class Memory:
    """What is remembered of a check between occurrences."""

    run: str | None = None
    ran_at: datetime | None = None
    instant: datetime | None = (
        None  # the occurrence that it ran for, or the time of a run by hand; stored under this name
    )
    by_hand: bool = False
    rhythm: str | None = None  # the rule of its last run
    result: Result | None = None
    text: str | None = None  # its last text, or the beginning of it
    told: str | None = None  # a digest of the last text that was sent; None after a quiet occurrence
    told_at: datetime | None = None
    failures: int = 0  # in a row
    error: str | None = None
    processed: Any = None


@dataclass(slots=True)
class Memories:
    """The state of a session: its checks, by name."""

    checks: dict[str, Memory] = field(default_factory=dict)


@dataclass(slots=True)
class WrittenCheck:
    """The data of a check's event: its section, as it was when the file was read."""

    check: str
    title: str
    spacing: Microseconds
    timeout: Microseconds
    session: str
    rhythm: str
    text: str = ""
    preamble: str = ""
    probe: str | None = None
    command: str | None = None


@dataclass(slots=True)
class CheckOutcome:
    """The result of one occurrence."""

    heartbeat: str
    check: str
    result: Result
    text: str | None = None
    reason: str | None = None


def read_declaration(
    path: Any,
    *,
    folder: Path,
    name: str,
    every: Duration,
    active: str | None,
    days: str | None,
    tz: str | None,
    checklist: Any,
    probes: Any,
    deliver: Any,
    owner: str | None,
    timeout: Duration,
    commands: bool,
    environment: Any,
    withheld: Collection[str],
    where: str,
) -> Heartbeat:
    """Check a heartbeat's declaration. Its file is not read here: it may be edited at any time."""
    if not isinstance(path, str | Path) or not str(path).strip():
        raise ConfigError(f'{where}: name its file, like "HEARTBEAT.md", not {path!r}')
    try:
        every_so_often(every, active=active, days=days, tz=tz)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    limit = read_duration("timeout", timeout, where)
    if limit is None or limit < SECOND:
        raise ConfigError(f"{where}: timeout must be at least a second, not {timeout!r}")
    if checklist is not None and not callable(checklist):
        raise ConfigError(f"{where}: checklist must be a function of the run and the check, not {checklist!r}")
    if checklist is not None and not fits(checklist, 2):
        raise ConfigError(f"{where}: checklist takes (run, check), not {inspect.signature(checklist)}")
    if not isinstance(probes or {}, Mapping):
        raise ConfigError(f'{where}: probes must be names and functions, like {{"unread": unread}}, not {probes!r}')
    for one, function in (probes or {}).items():
        refuse_probe(one, function, where=where)
    if not isinstance(deliver, str) or not deliver:
        raise ConfigError(f'{where}: deliver must be the name of a channel, like "ops", not {deliver!r}')
    if not isinstance(commands, bool):
        raise ConfigError(f"{where}: commands must be True or False, not {commands!r}")
    if environment is not None and not commands:
        raise ConfigError(f"{where}: environment= is for the commands of its file, which need commands=True")
    passed = read_environment(environment, where, withheld=withheld)
    usual = Usual(every, active, days, tz, limit, session=name, checklist=checklist is not None, commands=commands)
    return Heartbeat(name, folder / path, usual, checklist, dict(probes or {}), deliver, owner, passed)


def folder_of(code: str) -> Path:
    """The folder of the source file that the code is in; the current one in an interactive interpreter."""
    file = Path(code)
    return file.absolute().parent if file.suffix == ".py" else Path.cwd()


def refuse_probe(name: Any, function: Any, *, where: str) -> None:
    """Refuse a probe whose name cannot stand in a file, or that takes anything but its check or nothing."""
    if not isinstance(name, str) or not PROBE_NAME.fullmatch(name):
        raise ConfigError(f"{where}: a probe's name is letters, digits, _ . and -, not {name!r}")
    if not callable(function) or not (fits(function, 0) or fits(function, 1)):
        raise ConfigError(f"{where}: probe {name} must be a function of its check, or of nothing, not {function!r}")


def fits(function: Callable[..., Any], arguments: int) -> bool:
    """Whether the function can be called with this number of arguments."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:  # a builtin without a readable signature
        return True
    return True


def agent_of(heartbeat: Heartbeat, probes: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The handler of a heartbeat, in an app with these probes."""

    async def look(run: Run, written: WrittenCheck) -> CheckOutcome:
        attempt = current_attempt()
        memory: Memory = run.state.checks.setdefault(written.check, Memory())
        now = run.now()
        occurrence = run.scheduled_for or now
        by_hand = run.event.id.startswith(BY_HAND)
        reason = None if by_hand else too_soon(memory, written, occurrence, now)
        if reason is not None:
            return CheckOutcome(heartbeat.name, written.check, "skipped", reason=reason)
        name = f"{heartbeat.name}/{written.check}"
        alarm = heartbeat_alarm(attempt.app, name)
        check = Check(written.check, written.title, written.text, written.preamble)
        before = to_text(memory.processed, what=PROCESSED)
        check.processed = from_json(before)
        memory.run, memory.ran_at, memory.instant = run.id, now, occurrence
        memory.by_hand, memory.rhythm = by_hand, written.rhythm
        try:
            text = await _looked(run, heartbeat, {**probes, **heartbeat.probes}, written, check)
            if to_text(check.processed, what=PROCESSED, limit=LARGEST_PROCESSED) == before and check.found is not None:
                to_text(check.found, what=PROCESSED, limit=LARGEST_PROCESSED)
                check.processed = check.found
        except (StoreError, Denied):
            raise  # not a failure of the check itself
        except Exception as error:
            words = f"{type(error).__name__}: {words_of(error)}"[:SHOWN_OF_A_TEXT]
            memory.result, memory.error, memory.failures = "failed", words, memory.failures + 1
            if memory.failures >= FAILURES_BEFORE_ALARM:
                text = failing(name, memory, run.id)
                attempt.outgoing.alarm = Alarm(attempt.app, alarm, text, heartbeat.name, heartbeat.owner)
            return CheckOutcome(heartbeat.name, written.check, "failed", reason=words)
        if memory.failures >= FAILURES_BEFORE_ALARM:
            attempt.outgoing.resolves = alarm
        memory.failures, memory.error, memory.processed = 0, None, check.processed
        if not text:
            memory.result, memory.text, memory.told = "quiet", None, None
            asked = written.probe is not None or written.command is not None
            nothing = "its probe found nothing to do" if asked and check.found is None else "there was nothing to tell"
            return CheckOutcome(heartbeat.name, written.check, "quiet", reason=nothing)
        memory.text = text[:SHOWN_OF_A_TEXT]
        if digest(text) == memory.told:
            memory.result = "unchanged"
            return CheckOutcome(
                heartbeat.name,
                written.check,
                "unchanged",
                text,
                f"told at {time_text(from_datetime(memory.told_at or now))}",
            )
        memory.result, memory.told, memory.told_at = "told", digest(text), now
        run.send(heartbeat.deliver, text, subject=written.title)
        return CheckOutcome(heartbeat.name, written.check, "told", text)

    return look


def too_soon(memory: Memory, written: WrittenCheck, occurrence: datetime, now: datetime) -> str | None:
    """Why a check must not run again yet, or None.

    Occurrences of one rule have their own distance, which a clock change may shorten. But a check that was run by hand
    or edited since keeps its whole spacing, and one that ran so late that the next occurrence is near has just run.
    """
    if memory.ran_at is None or memory.instant is None:
        return None
    apart = timedelta(microseconds=written.spacing)
    in_step = not memory.by_hand and memory.rhythm == written.rhythm
    # A clock that was set back by more than that would block the check for as long.
    too_near = not in_step and -apart < occurrence - memory.instant < apart
    if too_near or -apart < now - memory.ran_at < apart / 2:
        ran_at = time_text(from_datetime(memory.ran_at))
        return f"it ran at {ran_at}, and runs once in {readable(written.spacing)}"
    return None


def failing(name: str, memory: Memory, run: str) -> str:
    return (
        f"check {name} failed {memory.failures} times in a row, last with {memory.error}. It is tried again at its next "
        f"occurrence; `wakeful heartbeat` shows when, `wakeful trace {run}` what happened"
    )


async def _looked(
    run: Run, heartbeat: Heartbeat, probes: Mapping[str, Callable[..., Any]], written: WrittenCheck, check: Check
) -> str | None:
    """Ask the probe, then do the check. Without a checklist the text is what the probe found."""
    if written.probe is not None or written.command is not None:
        check.found = await _found(run, heartbeat, probes, written, check)
        if not check.found or (isinstance(check.found, str) and not check.found.strip()):
            check.found = None
            return None
    if heartbeat.checklist is None:
        return _as_text(check)
    text = await call(
        heartbeat.checklist, (run, check), {}, what=f"the checklist of {check.name}", limit=written.timeout
    )
    if text is not None and not isinstance(text, str):
        message = f"the checklist returned {type(text).__name__} for check {check.name}: it must return a text, or None for nothing"
        raise Persistent(message)
    return None if text is None else text.strip()


async def _found(
    run: Run, heartbeat: Heartbeat, probes: Mapping[str, Callable[..., Any]], written: WrittenCheck, check: Check
) -> Any:
    if written.command is not None:
        command, given = written.command, heartbeat.environment
        attempt = current_attempt()
        if given is None or not heartbeat.usual.commands:
            # The schedule may be older than the declaration: made when commands were allowed, or by another version.
            raise Persistent(NO_COMMANDS)
        environment = given.made(facts_of(run.id, run.agent, run.event), where=f"heartbeat {heartbeat.name}")

        async def ask() -> str:
            return await ask_command(
                command,
                folder=heartbeat.path.parent,
                environment=environment,
                limit=written.timeout,
                quiet=attempt.surroundings.store.encrypts,
            )

        return await run.step(step(name=f"probe {check.name}", attempts=1)(ask))
    function = probes.get(written.probe or "")
    if function is None:
        message = (
            f'check {check.name} asks probe "{written.probe}", which this process does not have: is its code older?'
        )
        raise Persistent(message)

    async def look() -> Any:
        arguments = (check,) if fits(function, 1) else ()
        return await call(function, arguments, {}, what=f"probe {written.probe}", limit=written.timeout)

    # Its next occurrence is its next try, unless the probe's own @step says otherwise.
    own: StepOptions = getattr(function, MARK, StepOptions(attempts=1))
    setattr(look, MARK, replace(own, name=own.name or f"probe {check.name}", key=None))
    return await run.step(look)


def _as_text(check: Check) -> str:
    """What the probe found, as text."""
    if check.found is True or check.found is None:
        return check.title
    return (
        check.found.strip() if isinstance(check.found, str) else to_text(check.found, what=f"what {check.name} found")
    )
