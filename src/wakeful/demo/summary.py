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
    """The books: every event in exactly one column."""

    done: int = 0
    dead: list[Seen] = field(default_factory=list)
    open: list[Seen] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    lost: list[Identity] = field(default_factory=list)
    too_many_runs: int = 0
    accepted: int = 0
    from_within: int = 0
    dropped: int = 0  # files
    found: int = 0  # of these, by whoever read the folder
    told_twice: int = 0
    called: int = 0  # webhooks
    taken: int = 0  # of these, what is in the store
    forged: int = 0  # and those of somebody who does not know the secret
    turned_away: int = 0
    duplicates: int = 0
    finished: int = 0
    recorded: int = 0
    cut_off: int = 0
    unsaved: int = 0
    retries: int = 0
    repeated: int = 0
    uncounted: int = 0
    repaired: list[Seen] = field(default_factory=list)
    outside: Outside = field(default_factory=Outside)

    @property
    def balanced(self) -> bool:
        """Does every accepted event stand in one column?"""
        columns = self.done + len(self.dead) + len(self.unmatched) + len(self.open)
        return self.accepted == columns and not self.lost and not self.too_many_runs

    @property
    def good(self) -> bool:
        if self.told_twice or self.let_in:
            return False
        return self.balanced and not self.repeated and not self.uncounted and self.outside.good

    @property
    def let_in(self) -> int:
        """Requests that nobody with the secret made, and that came in."""
        return self.forged - self.turned_away + max(0, self.taken - self.called)


def close_the_books(board: Board, counter: Counter, book: Book, feeder: Feeder) -> Account:
    """Sort every event that was answered, or that a run emitted, by what became of it."""
    runs = {seen.identity: seen for seen in board.runs.values()}  # each type here has one agent
    answered = {(receipt.source, receipt.id) for receipt in feeder.receipts}
    stored = board.accepted()
    account = Account(accepted=len(answered | stored), duplicates=feeder.duplicates)
    account.too_many_runs = len(board.runs) - len(runs)
    files = [identity for source, identity in stored if source.startswith(FROM_FILES)]
    account.from_within = len(stored - answered) - len(files)
    account.dropped = len(feeder.dropped)
    account.found = len({name.partition("@")[0] for name in files} & set(feeder.dropped))
    account.told_twice = len(files) - account.found
    account.called, account.taken = feeder.called, sum(source == HOOK for source, _ in stored)
    account.forged, account.turned_away = feeder.forged, feeder.turned_away
    for identity in answered | stored:
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
    account.repaired = [seen for seen in board.runs.values() if seen.state == "done" and seen.remedies]
    account.outside = compare(board.effects(), book)
    return account


def compare(effects: list[tuple[Seen, SeenEffect]], book: Book) -> Outside:
    """The ledger of effects beside the bank's book: one line in it for each that is confirmed. What a person had repeated
    is that person's word against the book's.
    """
    outside = Outside(total=book.total())
    outside.strange = sorted(book.references() - {seen.subject for seen, _ in effects})
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
    _print_effects(out, account.outside)
    _print_repairs(out, account.repaired)
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
    _print_files(out, account)
    _print_webhooks(out, account)
    kinds = ", ".join(sorted(set(account.unmatched)))
    out.line(
        "unmatched", f"{len(account.unmatched)}" + (f" ({kinds}: no agent handles it, so it is kept)" if kinds else "")
    )
    out.line("open", f"{len(account.open)}" + (" (they go on when a worker starts)" if account.open else ""))
    for seen in account.open[:LISTED]:
        waits = " for a person" if seen.state == "held" else ""
        done = counted_noun(len(list(seen.keys())), "step")
        out.line("", f"{seen.agent} {seen.subject}: {seen.state}{waits}, {done} finished")
    if len(account.open) > LISTED:
        out.line("", f"and {len(account.open) - LISTED} more")
    columns = f"{account.done} done + {len(account.dead)} dead + {len(account.unmatched)} unmatched + {len(account.open)} open"
    if account.balanced:
        out.line("", f"{account.accepted} = {columns}: nothing was lost.", "green")
    else:
        out.line("", f"{account.accepted} is not {columns}", "bold red")
        out.line("", f"LOST: {account.lost[:LISTED]}; runs too many: {account.too_many_runs}", "bold red")


def _print_files(out: Printer, account: Account) -> None:
    left = account.dropped - account.found
    waits = f"; {left} in the folder until a worker reads it" if left else ""
    out.line("files", f"{account.dropped} dropped, {account.found} of them an event{waits}")
    if account.told_twice:
        out.line("", f"{account.told_twice} EVENTS MORE THAN FILES: the promise is broken", "bold red")


def _print_webhooks(out: Printer, account: Account) -> None:
    if not account.called:
        return
    out.line("webhooks", f"{account.called} sent and signed, {account.taken} of them an event")
    if account.let_in:
        out.line("", f"{account.let_in} WITH A WRONG SIGNATURE CAME IN: the promise is broken", "bold red")
    elif account.forged:
        out.line("", f"{account.forged} with a wrong signature: answered 401, kept in quarantine")


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


def _print_effects(out: Printer, outside: Outside) -> None:
    total = outside.total
    if not (total.asked or outside.confirmed):
        return
    looks = f", and {times(total.looked)} what it had paid" if total.looked else ""
    out.line("effects", f"{outside.confirmed} confirmed in the store, {total.booked} in the bank's own book")
    out.line("", f"it was asked to pay {times(total.asked)}{looks}; {total.unheard} of its answers nobody heard")
    for story in outside.stories[:LISTED]:
        out.line("", story)
    if len(outside.stories) > LISTED:
        out.line("", f"and {len(outside.stories) - LISTED} more like these")
    for words, references in (
        ("DONE TWICE, AND NOBODY HAD SAID SO", outside.twice),
        ("CONFIRMED IN THE STORE, NOT IN THE BANK'S BOOK", outside.missing),
        ("IN THE BANK'S BOOK, NOT IN THE STORE", outside.strange),
    ):
        if references:
            out.line("", f"{words}: {', '.join(references[:LISTED])}: the promise is broken", "bold red")
    if outside.good and not outside.on_word:
        out.line("", "0 effects done twice.", "green")


def _print_repairs(out: Printer, repaired: list[Seen]) -> None:
    label = "repaired"
    for seen in repaired[:LISTED]:
        remedy = seen.remedies[-1]
        out.line(label, f"{seen.agent} {seen.subject}: {reason_of(seen, remedy.error)}")
        note = f" ({remedy.note})" if remedy.note else ""
        out.line("", f"replayed with other data by {remedy.operator}{note}: done", "green")
        label = ""


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
    command = program()
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
