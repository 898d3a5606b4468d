"""The command line. This file lists the commands by name; a command's module is loaded when the command is called."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

# Marks a command generated from the table of resources: a noun, or an alias of one of its verbs.
TABLE = ""
# name: (module in this package that defines `<name>_command`, or TABLE; one line of help), in the order of --help
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "create a small project that runs out of the box"),
    "demo": ("demo", "watch agents work: retries, a dead letter, a kill and a resume"),
    "dev": ("dev", "serve an app and reload it when its code changes"),
    "serve": ("serve", "accept events over HTTP and run agents"),
    "worker": ("worker", "run agents without HTTP; any number of workers can share a store"),
    "once": ("once", "run everything that is due, then exit"),
    "check": ("check", "show what an app declares and report mistakes; runs nothing"),
    "run": ("run", "run an agent now"),
    "emit": ("emit", "send an event"),
    "schedules": (TABLE, "list schedules; add, edit, pause, remove or fire one"),
    "remind": ("remind", "set a reminder; an event can cancel it before it is due"),
    "reminders": (TABLE, "list reminders; reschedule or cancel one"),
    "heartbeat": (TABLE, "list heartbeat checks and their results; run one"),
    "backfill": (TABLE, "run past occurrences of a schedule; shows the count first"),
    "sources": (TABLE, "list event sources and their health; forget one"),
    "why": ("why", "explain what happened to an event, run, delivery or schedule"),
    "trace": ("trace", "show a run: steps, arguments, results, attempts, errors, times"),
    "runs": (TABLE, "list runs, newest first"),
    "events": (TABLE, "list events, newest first"),
    "decisions": (TABLE, "list the answers of policy other than allow, with the reasons"),
    "alarms": (TABLE, "list alarms, latest first; acknowledge, mute or resolve one"),
    "watch": ("watch", "check expectations and raise alarms for those that are not met"),
    "expectations": (TABLE, "list expectations and their current state"),
    "apps": (TABLE, "list the apps of a store and their waiting work; retire one"),
    "checkin": ("checkin", "report that an expected task was done"),
    "circuits": (TABLE, "list dependencies that are or were down; close a circuit"),
    "locks": (TABLE, "list the locks that runs hold"),
    "review": (TABLE, "list what waits for a person, with the commands that decide it"),
    "approvals": (TABLE, "list approvals that runs wait for; answer one"),
    "grants": (TABLE, "list grants; allow effects in advance, or revoke that"),
    "effects": (TABLE, "list effects of runs; settle one that is held for a person"),
    "release": (TABLE, "release a held output, as it is or edited"),
    "return": (TABLE, "return a held output with a remark: the handler runs again"),
    "deliveries": (TABLE, "list deliveries to channels; replay or discard them"),
    "state": (TABLE, "show, set or clear the state that an agent keeps between runs"),
    "quarantine": (TABLE, "list unreadable inputs; show, release or discard them"),
    "dead": (TABLE, "list dead letters by error; show, replay or discard them"),
    "replay": (TABLE, "run failed runs again, or with --again successful ones"),
    "fork": (TABLE, "start a run again from a step, keeping the steps before it"),
    "cancel": (TABLE, "stop runs at their next step and undo their effects"),
    "pauses": (TABLE, "list pauses; pause or resume an agent"),
    "policy": (TABLE, "list versions of a policy; show, check or apply one"),
    "people": (TABLE, "list the people of apps; check or apply a people file"),
    "pause": (TABLE, "stop claiming runs of one agent or of all; list pauses"),
    "resume": (TABLE, "resume paused agents, optionally at a limited rate"),
    "halts": (TABLE, "list halts; halt an agent, an action or all, or lift that"),
    "halt": (TABLE, "stop claims, calls and deliveries at once; --lift ends it"),
    "archive": ("archive", "write finished runs to a file; --remove deletes them"),
    "changes": ("changes", "print the SQL that creates or removes change tables"),
    "token": ("token", "print a new token for the HTTP API"),
    "keys": ("keys", "create, list and rotate the keys that encrypt payloads"),
    "doctor": ("doctor", "check the store, its schema, clock, permissions and versions"),
    "migrate": ("migrate", "bring a store's schema up to date"),
    "completion": ("completion", "print a completion script for bash, zsh or fish"),
    "bench": ("bench", "measure speed and cost (needs a checkout of Wakeful)"),
}
# The heading printed in --help before the first command of a group.
HEADINGS = {
    "init": "start and run",
    "run": "wake agents",
    "why": "find out what happened",
    "review": "decide and repair",
    "archive": "the store",
}
# Commands that hold an app's secrets in their environment or memory.
HIDDEN = frozenset({"dev", "serve", "worker", "once", "run", "watch", "archive", "keys"})
USUAL_PACE = gc.get_threshold()  # of Python's garbage collector; the default differs between versions
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 for success, 1 for a failure, 2 for wrong usage."""
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
    """Find the command and pass it the remaining words."""
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
            "wakeful runs background agents that no one has to watch.",
            "",
            "usage: wakeful COMMAND …          wakeful COMMAND --help for details",
            *lines,
            "",
            "APP is file.py, file.py:name or module:name.",
            "The store is --store URL, else WAKEFUL_STORE, else sqlite:///wakeful.db.",
        ]
    )


def explain(error: Exception) -> int:
    """Print the error as one line on stderr. WAKEFUL_DEBUG adds the traceback."""
    from wakeful.errors import WakefulError
    from wakeful.escaping import escaped
    from wakeful.redaction import redact
    from wakeful.shell.arguments import UsageError

    if os.environ.get("WAKEFUL_DEBUG"):
        import traceback

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    text = escaped(" ".join(redact(str(error)).split()))
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
    """Slow down Python's garbage collector for the start.

    Loading modules creates a few hundred thousand objects, none of them garbage; scanning them takes a tenth of the
    start-up time. A long-running process restores the usual pace once it works.
    """
    gc.set_threshold(100_000, 50, 100)


def forgive_encodings() -> None:
    """Print a question mark for a character that the terminal cannot encode, such as ✓, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def silence_stdout() -> None:
    """Discard further output after the reader closed the pipe (`| head`)."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass


def do_not_hang(code: int) -> None:
    """Exit after two seconds even if a user's function still blocks a thread; Python would wait for that thread
    forever.
    """
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        return

    def leave() -> None:
        import time

        time.sleep(2)
        os._exit(code)

    threading.Thread(target=leave, daemon=True).start()
