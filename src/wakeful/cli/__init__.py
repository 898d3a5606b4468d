"""The command line. This file knows the commands by name; what one needs is loaded when it is called."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

# A command that is made from the table of resources: a noun, or an alias of one of its verbs.
TABLE = ""
# name: (the module in this package that has `<name>_command`, or TABLE; one line of help). The order is the order of --help.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "make a small project that runs at once"),
    "demo": ("demo", "watch agents at work: retries, a dead letter, a kill and a resume"),
    "dev": ("dev", "serve an app, and load it again whenever its code changes"),
    "serve": ("serve", "take events over HTTP and work on them"),
    "worker": ("worker", "work without HTTP; any number of workers may share a store"),
    "once": ("once", "work until nothing is due any more, then exit"),
    "check": ("check", "say what is declared and what is wrong with it; runs nothing"),
    "run": ("run", "run an agent now"),
    "emit": ("emit", "send an event"),
    "schedules": (TABLE, "list what wakes when; add, edit, pause, remove or fire it"),
    "remind": ("remind", "have somebody reminded at a time, unless it happens by itself"),
    "reminders": (TABLE, "list reminders; move or cancel one"),
    "heartbeat": (TABLE, "list the checks of heartbeats, what became of each; run one"),
    "backfill": (TABLE, "do occurrences of a schedule that are over, after a count"),
    "sources": (TABLE, "list what brings events in, and how it is; forget one"),
    "why": ("why", "tell the whole story of an event, a run, a delivery, a schedule…"),
    "trace": ("trace", "show a run: steps, arguments, results, attempts, errors, times"),
    "runs": (TABLE, "list runs, the newest first"),
    "events": (TABLE, "list events, the newest first"),
    "alarms": (TABLE, "list alarms, the latest first; acknowledge, mute or resolve one"),
    "watch": ("watch", "look whether what is expected happened, and say where it did not"),
    "expectations": (TABLE, "list what should happen by when, and how it stands"),
    "apps": (TABLE, "list the apps of a store, and what waits in each; retire one"),
    "checkin": ("checkin", "say that something was done that is expected"),
    "circuits": (TABLE, "list dependencies that are or were down; close a circuit by hand"),
    "locks": (TABLE, "list the locks that runs have now"),
    "approvals": (TABLE, "list what runs ask people, and answer"),
    "effects": (TABLE, "list what runs did outside; settle what is held for a person"),
    "release": (TABLE, "let a held output out, although it did not pass its checks"),
    "deliveries": (TABLE, "list messages on their way to channels; replay or discard them"),
    "state": (TABLE, "show, set or clear what an agent keeps from run to run"),
    "quarantine": (TABLE, "list inputs that could not be read; show, release or discard them"),
    "dead": (TABLE, "list dead letters by error; show, replay or discard them"),
    "replay": (TABLE, "do again what failed, or with --again what went well"),
    "fork": (TABLE, "do a run again from a step on, with what was finished before it"),
    "cancel": (TABLE, "stop runs at their next step, and undo what they did"),
    "pauses": (TABLE, "list what is paused; pause or resume an agent"),
    "pause": (TABLE, "claim nothing more of an agent, or of all; list what is paused"),
    "resume": (TABLE, "let what was paused go on, at a rate if need be"),
    "archive": ("archive", "write finished runs into a file, with --remove out of the store"),
    "changes": ("changes", "print the SQL that change tables need, or that removes them"),
    "token": ("token", "print a new token for the HTTP side"),
    "keys": ("keys", "make, list and rotate the keys that payloads are encrypted with"),
    "doctor": ("doctor", "look at the store, its schema, clock, permissions and versions"),
    "migrate": ("migrate", "bring a store's schema up to date"),
    "completion": ("completion", "print completion for bash, zsh or fish"),
    "bench": ("bench", "measure speed and cost (in a checkout of Wakeful)"),
}
# What stands above a command in --help: a group begins with it.
HEADINGS = {
    "init": "to begin, and to work",
    "run": "what wakes agents",
    "why": "what happened, and what did not",
    "approvals": "what people decide",
    "archive": "the store",
}
# Processes that stay, with the secrets of an app in their environment or in memory.
HIDDEN = frozenset({"dev", "serve", "worker", "once", "run", "watch", "archive", "keys"})
USUAL_PACE = gc.get_threshold()  # of Python's garbage collector: it differs from version to version
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code. 0: fine. 1: it went wrong. 2: it was called the wrong way."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        collect_seldom()
    forgive_encodings()
    try:
        if argv is None and HIDDEN.intersection(words[:1]):
            from wakeful.cli.hiding import hide_from_neighbours

            hide_from_neighbours()
        code = dispatch(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        code = BROKEN_PIPE
    except SystemExit as leaving:  # argparse after --help
        code = leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:
        code = explain(error)
    if argv is None:
        do_not_hang(code)
    return code


def dispatch(words: list[str]) -> int:
    """Find the command and hand it the rest."""
    if words and words[0] == "help":
        words = [*words[1:2], "--help"]
    if not words or words[0] in {"-h", "--help"}:
        print(overview())
        return 0
    if words[0] in {"-V", "--version"}:
        from wakeful.version import __version__

        print(f"wakeful {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        from wakeful.errors import did_you_mean
        from wakeful.shell.arguments import UsageError

        what = "option" if name.startswith("-") else "command"
        hint = did_you_mean(name, COMMANDS)
        message = f'there is no {what} "{name}".' + (hint if "Did" in hint else " See wakeful --help.")
        raise UsageError(message)
    home, summary = COMMANDS[name]
    module = import_module("wakeful.surface.command" if home == TABLE else f"wakeful.cli.{home}")
    call = module.call if home == TABLE else getattr(module, f"{name}_command").call
    code: int = call(name, summary, rest)
    return code


def overview() -> str:
    lines = []
    for name, (_, summary) in COMMANDS.items():
        if name in HEADINGS:
            lines += ["", f"{HEADINGS[name]}:"]
        lines.append(f"  {name:<12} {summary}")
    return "\n".join(
        [
            "wakeful runs the agents that nobody is watching.",
            "",
            "usage: wakeful COMMAND …          wakeful COMMAND --help tells more",
            *lines,
            "",
            "APP is file.py, file.py:name or module:name.",
            "The store is --store URL, else WAKEFUL_STORE, else sqlite:///wakeful.db.",
        ]
    )


def explain(error: Exception) -> int:
    """One line on stderr: what went wrong. The traceback only for those who ask for it."""
    from wakeful.errors import WakefulError
    from wakeful.redaction import redact
    from wakeful.shell.arguments import UsageError

    if os.environ.get("WAKEFUL_DEBUG"):
        import traceback

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    text = " ".join(redact(str(error)).split())
    if not isinstance(error, WakefulError):
        kind = type(error).__name__
        text = f"unexpected {kind}: {text or kind} (WAKEFUL_DEBUG=1 shows where)"
    from wakeful.telemetry.logger import SPEAKS_JSON, logger_of

    try:
        sys.stdout.flush()
        if SPEAKS_JSON.get():
            logger_of().error(text)
        else:
            print(f"wakeful: {text}", file=sys.stderr, flush=True)
    except OSError:
        silence_stdout()
    return 2 if isinstance(error, UsageError) else 1


def collect_seldom() -> None:
    """Loading modules makes a few hundred thousand objects, and none of them is garbage: looking for some among them takes a
    tenth of a start. A process that stays goes back to the usual pace once it works.
    """
    gc.set_threshold(100_000, 50, 100)


def forgive_encodings() -> None:
    """A terminal that cannot show a ✓ gets a question mark instead of a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def silence_stdout() -> None:
    """Whoever read our output has gone (`| head`): what is left goes nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass


def do_not_hang(code: int) -> None:
    """Python waits for threads before it exits, and a user's function may hang in one for ever. It gets two seconds."""
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        return

    def leave() -> None:
        import time

        time.sleep(2)
        os._exit(code)

    threading.Thread(target=leave, daemon=True).start()
