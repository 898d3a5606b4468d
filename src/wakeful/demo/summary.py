"""The account at the end: what was accepted, what became of it, and whether the promises held. Checked, not asserted."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from wakeful.demo.board import Board, Identity, Seen
from wakeful.demo.counter import Counter
from wakeful.demo.feeder import Feeder
from wakeful.demo.scene import reason_of

LISTED = 8


@dataclass(slots=True)
class Kill:
    """One death of a worker, and what came after."""

    pid: int
    runs: int
    kept: int
    resumed_after: float | None = None  # seconds from the new worker's joining to the first step that it executed
    stuck: int = 0  # runs that the next worker did not go on with


@dataclass(slots=True)
class Account:
    """The books: every event in exactly one column."""

    done: int = 0
    dead: list[Seen] = field(default_factory=list)
    open: list[Seen] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    lost: list[Identity] = field(default_factory=list)
    too_many_runs: int = 0
    accepted: int = 0
    from_within: int = 0
    duplicates: int = 0
    finished: int = 0
    recorded: int = 0
    cut_off: int = 0
    unsaved: int = 0
    retries: int = 0
    repeated: int = 0
    uncounted: int = 0

    @property
    def balanced(self) -> bool:
        """Does every accepted event stand in one column?"""
        columns = self.done + len(self.dead) + len(self.unmatched) + len(self.open)
        return self.accepted == columns and not self.lost and not self.too_many_runs

    @property
    def good(self) -> bool:
        return self.balanced and not self.repeated and not self.uncounted


def close_the_books(board: Board, counter: Counter, feeder: Feeder) -> Account:
    """Sort every event that was answered, or that a run emitted, by what became of it."""
    runs = {seen.identity: seen for seen in board.runs.values()}  # each type here has one agent
    answered = {(receipt.source, receipt.id) for receipt in feeder.receipts}
    account = Account(accepted=len(answered | board.events.keys()), duplicates=feeder.duplicates)
    account.too_many_runs = len(board.runs) - len(runs)
    account.from_within = len(board.events.keys() - answered)
    for identity in answered | board.events.keys():
        event, seen = board.events.get(identity), runs.get(identity)
        if event is not None and event["state"] == "unmatched":
            account.unmatched.append(event["type"])
        elif event is None or seen is None:
            account.lost.append(identity)
        elif seen.is_open:
            account.open.append(seen)
        elif seen.state == "done":
            account.done += 1
        else:
            account.dead.append(seen)
    recorded = set(board.recorded())
    account.finished = counter.finished
    account.recorded = len(recorded)
    account.uncounted = len(recorded - counter.finished_keys())
    account.cut_off, account.unsaved = counter.cut_off, counter.unsaved
    account.retries, account.repeated = len(counter.retried), len(counter.repeated)
    account.dead.sort(key=lambda seen: seen.created_at)
    account.open.sort(key=lambda seen: seen.created_at)
    return account


class Printer:
    """Writes the account, a label on the left and lines on the right."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, label: str, text: str | Text, style: str = "") -> None:
        body = text if isinstance(text, Text) else Text(text, style=style)
        self._console.print(Text.assemble((f"  {label:<11}", "bold"), body), soft_wrap=True)

    def title(self, text: str) -> None:
        self._console.print(Text(text, style="bold"), soft_wrap=True)

    def gap(self) -> None:
        self._console.print()


def print_account(
    console: Console, account: Account, kills: list[Kill], *, elapsed: float, store: str, folder: Path, keep: bool
) -> None:
    """The account for people."""
    out = Printer(console)
    out.gap()
    out.title(f"What happened in {elapsed:.0f} s")
    _print_events(out, account)
    out.gap()
    _print_steps(out, account)
    for kill in kills:
        _print_kill(out, kill)
    out.gap()
    _print_next(out, store, folder, keep=keep)


def _print_events(out: Printer, account: Account) -> None:
    within = f", {account.from_within} of them emitted by runs" if account.from_within else ""
    out.line("accepted", f"{counted_noun(account.accepted, 'event')}{within}")
    if account.duplicates:
        out.line("", f"{account.duplicates} more delivered a second time: no second run")
    out.line("done", f"{account.done}")
    out.line("dead", f"{len(account.dead)}", "red" if account.dead else "")
    for seen in account.dead[:LISTED]:
        out.line("", f"{seen.agent} {seen.subject}: {reason_of(seen)}")
    if len(account.dead) > LISTED:
        out.line("", f"and {len(account.dead) - LISTED} more like these")
    kinds = ", ".join(sorted(set(account.unmatched)))
    out.line(
        "unmatched", f"{len(account.unmatched)}" + (f" ({kinds}: no agent handles it, so it is kept)" if kinds else "")
    )
    out.line("open", f"{len(account.open)}" + (" (they go on when a worker starts)" if account.open else ""))
    for seen in account.open[:LISTED]:
        out.line("", f"{seen.agent} {seen.subject}: {seen.state}, {counted_noun(len(seen.recorded), 'step')} finished")
    if len(account.open) > LISTED:
        out.line("", f"and {len(account.open) - LISTED} more")
    columns = f"{account.done} done + {len(account.dead)} dead + {len(account.unmatched)} unmatched + {len(account.open)} open"
    if account.balanced:
        out.line("", f"{account.accepted} = {columns}: nothing was lost.", "green")
    else:
        out.line("", f"{account.accepted} is not {columns}", "bold red")
        out.line("", f"LOST: {account.lost[:LISTED]}; runs too many: {account.too_many_runs}", "bold red")


def _print_steps(out: Printer, account: Account) -> None:
    out.line("steps", f"{account.finished} ran to their end (counted in a file), {account.recorded} are in the store")
    if account.retries:
        out.line("", f"{account.retries} tried again after a failure")
    if account.cut_off:
        out.line("", f"{account.cut_off} cut off by a kill: not finished, so they began again")
    if account.unsaved:
        out.line("", f"{account.unsaved} ended just before a kill, but not yet on disk: not finished either")
    if account.uncounted:
        out.line("", f"{account.uncounted} are in the store, but the counter never saw them end", "bold red")
    if account.repeated:
        out.line("", f"{account.repeated} FINISHED STEPS EXECUTED TWICE: the promise is broken", "bold red")
    else:
        out.line("", "0 finished steps executed twice.", "green")


def _print_kill(out: Printer, kill: Kill) -> None:
    text = f"worker {kill.pid} by SIGKILL in the middle of {counted_noun(kill.runs, 'run')}"
    out.line("killed", text)
    if kill.resumed_after is not None:
        out.line(
            "",
            f"resumed {kill.resumed_after * 1000:.0f} ms after the next was up, {counted_noun(kill.kept, 'finished step')} kept",
        )
    elif kill.stuck:
        out.line("", f"{counted_noun(kill.stuck, 'run')} did not go on with the next worker", "bold red")
    elif kill.runs:
        out.line("", "the demonstration ended before the next worker took over")


def _print_next(out: Printer, store: str, folder: Path, *, keep: bool) -> None:
    command = "wakeful"
    if shutil.which(command) is None:
        beside = Path(sys.executable).with_name(command)
        command = str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)
    out.title("Next")
    out.line("", f"{command} init       a small project that runs at once")
    out.line("", f"{command} --help     everything else")
    if keep:
        out.line("", f"{command} runs --store {store}")
        out.line("kept", f"{folder}")
    else:
        out.line("", f"{folder} was removed; --keep keeps it", "dim")


def counted_noun(count: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
