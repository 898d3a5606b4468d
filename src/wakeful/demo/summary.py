"""The account at the end: what was accepted, what became of it, and whether the promises held. Checked, not asserted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from wakeful.demo.app import HOOK
from wakeful.demo.board import Board, Identity, Seen, SeenEffect
from wakeful.demo.book import Book, Page
from wakeful.demo.command import program
from wakeful.demo.counter import Counter
from wakeful.demo.feeder import Feeder
from wakeful.demo.scene import reason_of, times, what_became_of

LISTED = 8
FROM_FILES = "/files/"


@dataclass(slots=True)
class Kill:
    """One death of a worker, and what came after."""

    pid: int
    runs: int
    kept: int
    resumed_after: float | None = None  # seconds from the new worker's joining to the first step that it executed
    stuck: int = 0  # runs that the next worker did not go on with


@dataclass(slots=True)
class Outside:
    """What runs did outside, by the store, beside the book of the bank that did it."""

    confirmed: int = 0
    total: Page = field(default_factory=Page)
    stories: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)  # done again, and nobody had said so
    on_word: list[str] = field(default_factory=list)  # done again, because a person had said so
    missing: list[str] = field(default_factory=list)  # confirmed by the store, and the bank knows nothing of it
    strange: list[str] = field(default_factory=list)  # done by the bank, and not in the store

    @property
    def good(self) -> bool:
        return not (self.twice or self.missing or self.strange)


@dataclass(slots=True)
class Account:
    """The books: every event in exactly one column. What the feeder and the counter know stays with them."""

    feeder: Feeder
    counter: Counter
    accepted: int = 0
    done: int = 0
    dead: list[Seen] = field(default_factory=list)
    open: list[Seen] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    lost: list[Identity] = field(default_factory=list)
    too_many_runs: int = 0
    from_within: int = 0
    found: int = 0  # files, by the worker that read the folder
    told_twice: int = 0
    taken: int = 0  # webhooks that are in the store
    recorded: int = 0
    uncounted: int = 0
    repaired: list[Seen] = field(default_factory=list)
    outside: Outside = field(default_factory=Outside)

    @property
    def columns(self) -> tuple[int, int, int, int]:
        return self.done, len(self.dead), len(self.unmatched), len(self.open)

    @property
    def balanced(self) -> bool:
        """Does every accepted event stand in one column?"""
        return self.accepted == sum(self.columns) and not self.lost and not self.too_many_runs

    @property
    def good(self) -> bool:
        broken = self.told_twice or self.let_in or self.counter.repeated or self.uncounted
        return self.balanced and not broken and self.outside.good

    @property
    def let_in(self) -> int:
        """Requests that nobody with the secret made, and that came in."""
        return self.feeder.forged - self.feeder.turned_away + max(0, self.taken - self.feeder.called)


def close_the_books(board: Board, counter: Counter, book: Book, feeder: Feeder) -> Account:
    """Sort every event that was answered, or that a run emitted, by what became of it."""
    runs = {seen.identity: seen for seen in board.runs.values()}  # each type here has one agent
    answered = {(receipt.source, receipt.id) for receipt in feeder.receipts}
    stored = board.accepted()
    account = Account(feeder, counter, accepted=len(answered | stored), too_many_runs=len(board.runs) - len(runs))
    files = [identity for source, identity in stored if source.startswith(FROM_FILES)]
    account.from_within = len(stored - answered) - len(files)
    account.found = len({name.partition("@")[0] for name in files} & set(feeder.dropped))
    account.told_twice = len(files) - account.found
    account.taken = sum(source == HOOK for source, _ in stored)
    for identity in answered | stored:
        event, seen = board.events.get(identity), runs.get(identity)
        if event is not None and event["state"] == "unmatched":
            account.unmatched.append(event["type"])
        elif event is None or seen is None:
            account.lost.append(identity)
        elif seen.state == "done":
            account.done += 1
        else:
            (account.open if seen.is_open else account.dead).append(seen)
    recorded = set(board.recorded())
    account.recorded, account.uncounted = len(recorded), len(recorded - counter.finished_keys())
    for column in (account.dead, account.open):
        column.sort(key=lambda seen: seen.created_at)
    account.repaired = [seen for seen in board.runs.values() if seen.state == "done" and seen.remedies]
    account.outside = compare(board.effects(), book)
    return account


def compare(effects: list[tuple[Seen, SeenEffect]], book: Book) -> Outside:
    """The ledger of effects beside the bank's book: one line in it for each that is confirmed. What a person had repeated
    is that person's word against the book's.
    """
    outside = Outside(total=book.total())
    outside.strange = sorted(set(book.pages) - {seen.subject for seen, _ in effects})
    for seen, effect in effects:
        page = book.page(seen.subject)
        outside.confirmed += effect.state == "confirmed"
        if page.booked > 1:
            (outside.twice if effect.settled_by is None else outside.on_word).append(seen.subject)
        if page.booked == 0 and effect.state == "confirmed":
            outside.missing.append(seen.subject)
        if effect.state in {"confirmed", "abandoned"}:
            outside.stories.append(
                what_became_of(seen, effect, page) + (f" Note: {effect.note}." if effect.note else "")
            )
    return outside


class Printer:
    """Writes the account, a label on the left and lines on the right."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, label: str, text: str, style: str = "") -> None:
        self._console.print(Text.assemble((f"  {label:<11}", "bold"), (text, style)), soft_wrap=True)

    def title(self, text: str) -> None:
        self._console.print(Text(f"\n{text}", style="bold"), soft_wrap=True)

    def some(self, lines: list[str], more: str) -> None:
        """The first of them, and how many there are besides."""
        for line in lines[:LISTED]:
            self.line("", line)
        if len(lines) > LISTED:
            self.line("", f"and {len(lines) - LISTED} {more}")

    def broken(self, words: str) -> None:
        self.line("", f"{words}: the promise is broken", "bold red")


def print_account(
    console: Console, account: Account, kills: list[Kill], *, elapsed: float, store: str, folder: Path, keep: bool
) -> None:
    """The account for people."""
    out = Printer(console)
    out.title(f"What happened in {elapsed:.0f} s")
    _print_events(out, account)
    console.print()
    _print_steps(out, account)
    _print_effects(out, account.outside)
    for number, seen in enumerate(account.repaired[:LISTED]):
        remedy = seen.remedies[-1]
        note = f" ({remedy.note})" if remedy.note else ""
        out.line("" if number else "repaired", f"{seen.agent} {seen.subject}: {reason_of(seen, remedy.error)}")
        out.line("", f"replayed with other data by {remedy.operator}{note}: done", "green")
    for kill in kills:
        _print_kill(out, kill)
    out.title("Next")
    out.line("", f"{program()} init       a small project that runs at once")
    out.line("", f"{program()} --help     everything else")
    if keep:
        out.line("", f"{program()} runs --store {store}")
        out.line("kept", f"{folder}")
    else:
        out.line("", f"{folder} was removed; --keep keeps it", "dim")


def _print_events(out: Printer, account: Account) -> None:
    feeder = account.feeder
    within = f", {account.from_within} of them emitted by runs" if account.from_within else ""
    out.line("accepted", f"{counted_noun(account.accepted, 'event')}{within}")
    if feeder.duplicates:
        out.line("", f"{feeder.duplicates} more delivered a second time: no second run")
    out.line("done", f"{account.done}")
    out.line("dead", f"{len(account.dead)}", "red" if account.dead else "")
    out.some([f"{seen.agent} {seen.subject}: {reason_of(seen)}" for seen in account.dead], "more like these")
    left = len(feeder.dropped) - account.found
    waits = f"; {left} in the folder until a worker reads it" if left else ""
    out.line("files", f"{len(feeder.dropped)} dropped, {account.found} of them an event{waits}")
    if account.told_twice:
        out.broken(f"{account.told_twice} EVENTS MORE THAN FILES")
    if feeder.called:
        out.line("webhooks", f"{feeder.called} sent and signed, {account.taken} of them an event")
        if account.let_in:
            out.broken(f"{account.let_in} WITH A WRONG SIGNATURE CAME IN")
        elif feeder.forged:
            out.line("", f"{feeder.forged} with a wrong signature: answered 401, kept in quarantine")
    kinds = ", ".join(sorted(set(account.unmatched)))
    kept = f" ({kinds}: no agent handles it, so it is kept)" if kinds else ""
    out.line("unmatched", f"{len(account.unmatched)}{kept}")
    out.line("open", f"{len(account.open)}" + (" (they go on when a worker starts)" if account.open else ""))
    out.some([_open_in_words(seen) for seen in account.open], "more")
    columns = "{} done + {} dead + {} unmatched + {} open".format(*account.columns)
    if account.balanced:
        out.line("", f"{account.accepted} = {columns}: nothing was lost.", "green")
    else:
        out.line("", f"{account.accepted} is not {columns}", "bold red")
        out.line("", f"LOST: {account.lost[:LISTED]}; runs too many: {account.too_many_runs}", "bold red")


def _open_in_words(seen: Seen) -> str:
    waits = " for a person" if seen.state == "held" else ""
    return f"{seen.agent} {seen.subject}: {seen.state}{waits}, {counted_noun(len(list(seen.keys())), 'step')} finished"


def _print_steps(out: Printer, account: Account) -> None:
    counter = account.counter
    out.line("steps", f"{counter.finished} ran to their end (counted in a file), {account.recorded} are in the store")
    for count, words in (
        (len(counter.retried), "tried again after a failure"),
        (counter.cut_off, "cut off by a kill: not finished, so they began again"),
        (counter.unsaved, "ended just before a kill, but not yet on disk: not finished either"),
    ):
        if count:
            out.line("", f"{count} {words}")
    if account.uncounted:
        out.line("", f"{account.uncounted} are in the store, but the counter never saw them end", "bold red")
    if counter.repeated:
        out.broken(f"{len(counter.repeated)} FINISHED STEPS EXECUTED TWICE")
    else:
        out.line("", "0 finished steps executed twice.", "green")


def _print_effects(out: Printer, outside: Outside) -> None:
    total = outside.total
    if not (total.asked or outside.confirmed):
        return
    looks = f", and {times(total.looked)} what it had paid" if total.looked else ""
    out.line("effects", f"{outside.confirmed} confirmed in the store, {total.booked} in the bank's own book")
    out.line("", f"it was asked to pay {times(total.asked)}{looks}; {total.unheard} of its answers nobody heard")
    out.some(outside.stories, "more like these")
    for words, references in (
        ("DONE TWICE, AND NOBODY HAD SAID SO", outside.twice),
        ("CONFIRMED IN THE STORE, NOT IN THE BANK'S BOOK", outside.missing),
        ("IN THE BANK'S BOOK, NOT IN THE STORE", outside.strange),
    ):
        if references:
            out.broken(f"{words}: {', '.join(references[:LISTED])}")
    if outside.good and not outside.on_word:
        out.line("", "0 effects done twice.", "green")


def _print_kill(out: Printer, kill: Kill) -> None:
    out.line("killed", f"worker {kill.pid} by SIGKILL in the middle of {counted_noun(kill.runs, 'run')}")
    if kill.resumed_after is not None:
        kept = counted_noun(kill.kept, "finished step")
        out.line("", f"resumed {kill.resumed_after * 1000:.0f} ms after the next was up, {kept} kept")
    elif kill.stuck:
        out.line("", f"{counted_noun(kill.stuck, 'run')} did not go on with the next worker", "bold red")
    elif kill.runs:
        out.line("", "the demonstration ended before the next worker took over")


def counted_noun(count: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
