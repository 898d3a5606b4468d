"""The account at the end: what was accepted, what became of it, and whether the promises held. Checked, not asserted."""

from __future__ import annotations

from dataclasses import dataclass, field

from wakeful.demo.app import HOOK
from wakeful.demo.bank import Book, Page
from wakeful.demo.board import Board, Identity, Seen, SeenEffect
from wakeful.demo.counter import Counter
from wakeful.demo.feeder import Feeder
from wakeful.demo.scene import what_became_of


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
    twice: list[str] = field(default_factory=list)  # done again without a person's word
    on_word: list[str] = field(default_factory=list)  # done again, because a person had said so
    missing: list[str] = field(default_factory=list)  # confirmed by the store, and the bank knows nothing of it
    strange: list[str] = field(default_factory=list)  # done by the bank, and not in the store

    @property
    def good(self) -> bool:
        return not (self.twice or self.missing or self.strange)


@dataclass(slots=True)
class Account:
    """The books. What the feeder and the counter know stays with them."""

    feeder: Feeder
    counter: Counter
    kills: list[Kill] = field(default_factory=list)
    accepted: int = 0
    columns: dict[str, list[Seen]] = field(default_factory=lambda: {"done": [], "dead": [], "open": []})
    unmatched: list[str] = field(default_factory=list)  # types
    lost: list[Identity] = field(default_factory=list)
    too_many_runs: int = 0
    from_within: int = 0
    found: int = 0  # files, by the worker that read the folder
    told_twice: int = 0
    taken: int = 0  # webhooks that are in the store
    recorded: int = 0
    uncounted: int = 0
    outside: Outside = field(default_factory=Outside)

    @property
    def balanced(self) -> bool:
        """Does every accepted event stand in exactly one column?"""
        return not self.lost and not self.too_many_runs

    @property
    def let_in(self) -> int:
        """Requests that were not signed with the secret, and that came in."""
        return self.feeder.forged - self.feeder.turned_away + max(0, self.taken - self.feeder.called)

    @property
    def good(self) -> bool:
        broken = self.told_twice or self.let_in or self.counter.repeated or self.uncounted
        stuck = any(kill.stuck for kill in self.kills)
        return self.balanced and not broken and self.outside.good and not stuck


def close_the_books(board: Board, counter: Counter, book: Book, feeder: Feeder, kills: list[Kill]) -> Account:
    """Sort every event that was answered, or that a run emitted, by what became of it."""
    runs = {seen.identity: seen for seen in board.runs.values()}  # each type here has one agent
    answered = {(receipt.source, receipt.id) for receipt in feeder.receipts}
    stored, recorded = board.accepted(), set(board.recorded())
    files = [identity for source, identity in stored if source.startswith("/files/")]
    found = len({name.partition("@")[0] for name in files} & set(feeder.dropped))
    account = Account(
        feeder,
        counter,
        kills,
        accepted=len(answered | stored),
        too_many_runs=len(board.runs) - len(runs),
        from_within=len(stored - answered) - len(files),
        found=found,
        told_twice=len(files) - found,
        taken=sum(source == HOOK for source, _ in stored),
        recorded=len(recorded),
        uncounted=len(recorded - counter.finished_keys()),
        outside=compare(board.effects(), book),
    )
    for identity in answered | stored:
        event, seen = board.events.get(identity), runs.get(identity)
        if event is not None and event["state"] == "unmatched":
            account.unmatched.append(event["type"])
        elif event is None or seen is None:
            account.lost.append(identity)
        else:
            account.columns["open" if seen.is_open else "done" if seen.state == "done" else "dead"].append(seen)
    for column in account.columns.values():
        column.sort(key=lambda seen: seen.created_at)
    return account


def compare(effects: list[tuple[Seen, SeenEffect]], book: Book) -> Outside:
    """The ledger of effects beside the bank's book: one line in it for each that is confirmed. An effect that a person had
    repeated is that person's word against the book's.
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
            note = f" Note: {effect.note}." if effect.note else ""
            outside.stories.append(what_became_of(seen, effect, page) + note)
    return outside
