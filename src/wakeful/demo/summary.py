"""The account in words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from wakeful.demo.account import Account, Outside
from wakeful.demo.board import Seen
from wakeful.demo.command import program
from wakeful.demo.scene import reason_of, times
from wakeful.demo.stage import Stage
from wakeful.resources.words import number

LISTED = 8

Line = tuple[str, str, str]  # a label, the text beside it, its style


def print_account(console: Console, account: Account, stage: Stage) -> None:
    """The account for people."""
    _print(console, f"\nWhat happened in {stage.elapsed:.0f} s", _events(account))
    _print(console, "", _steps(account), _effects(account.outside), _repaired(account), _killed(account))
    _print(console, "\nNext", _next(stage))


def _print(console: Console, title: str, *parts: Iterator[Line]) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    for label, text, style in itertools.chain(*parts):
        console.print(Text.assemble((f"  {label:<11}", "bold"), (text, style)), soft_wrap=True)


def _events(account: Account) -> Iterator[Line]:
    feeder = account.feeder
    within = f", {account.from_within} of them emitted by runs" if account.from_within else ""
    yield "accepted", f"{number(account.accepted, 'event')}{within}", ""
    if feeder.duplicates:
        yield "", f"{feeder.duplicates} more delivered a second time: no second run", ""
    done, dead, still_open = account.columns["done"], account.columns["dead"], account.columns["open"]
    yield "done", f"{len(done)}", ""
    yield "dead", f"{len(dead)}", "red" if dead else ""
    yield from _first([f"{seen.agent} {seen.subject}: {reason_of(seen)}" for seen in dead], "more like these")
    left = len(feeder.dropped) - account.found
    waits = f"; {left} in the folder until a worker reads it" if left else ""
    yield "files", f"{len(feeder.dropped)} dropped, {account.found} of them an event{waits}", ""
    if account.told_twice:
        yield _broken(f"{account.told_twice} EVENTS MORE THAN FILES")
    if feeder.called:
        yield "webhooks", f"{feeder.called} sent and signed, {account.taken} of them an event", ""
    if account.let_in:
        yield _broken(f"{account.let_in} WITH A WRONG SIGNATURE CAME IN")
    elif feeder.forged:
        yield "", f"{feeder.forged} with a wrong signature: answered 401, kept in quarantine", ""
    kinds = ", ".join(sorted(set(account.unmatched)))
    kept = f" ({kinds}: no agent handles it, so it is kept)" if kinds else ""
    yield "unmatched", f"{len(account.unmatched)}{kept}", ""
    yield "open", f"{len(still_open)}" + (" (they go on when a worker starts)" if still_open else ""), ""
    yield from _first([_state_of(seen) for seen in still_open], "more")
    columns = f"{len(done)} done + {len(dead)} dead + {len(account.unmatched)} unmatched + {len(still_open)} open"
    if account.balanced:
        yield "", f"{account.accepted} = {columns}: nothing was lost.", "green"
    else:
        yield "", f"{account.accepted} is not {columns}", "bold red"
        yield "", f"LOST: {account.lost[:LISTED]}; runs too many: {account.too_many_runs}", "bold red"


def _state_of(seen: Seen) -> str:
    waits = " for a person" if seen.state == "held" else ""
    return f"{seen.agent} {seen.subject}: {seen.state}{waits}, {number(len(seen.keys()), 'step')} finished"


def _steps(account: Account) -> Iterator[Line]:
    counter = account.counter
    yield "steps", f"{counter.finished} ran to their end (counted in a file), {account.recorded} are in the store", ""
    if counter.retried:
        yield "", f"{len(counter.retried)} tried again after a failure", ""
    if counter.cut_off:
        yield "", f"{counter.cut_off} cut off by a kill: not finished, so they began again", ""
    if counter.unsaved:
        yield "", f"{counter.unsaved} ended just before a kill, but not yet on disk: not finished either", ""
    if account.uncounted:
        yield "", f"{account.uncounted} are in the store, but the counter never saw them end", "bold red"
    if counter.repeated:
        yield _broken(f"{len(counter.repeated)} FINISHED STEPS EXECUTED TWICE")
    else:
        yield "", "0 finished steps executed twice.", "green"


def _effects(outside: Outside) -> Iterator[Line]:
    total = outside.total
    if not (total.asked or outside.confirmed):
        return
    looks = f", and {times(total.looked)} what it had paid" if total.looked else ""
    yield "effects", f"{outside.confirmed} confirmed in the store, {total.booked} in the bank's own book", ""
    yield "", f"it was asked to pay {times(total.asked)}{looks}; {total.unheard} of its answers nobody heard", ""
    yield from _first(outside.stories, "more like these")
    for words, references in (
        ("DONE TWICE, AND NOBODY HAD SAID SO", outside.twice),
        ("CONFIRMED IN THE STORE, NOT IN THE BANK'S BOOK", outside.missing),
        ("IN THE BANK'S BOOK, NOT IN THE STORE", outside.strange),
    ):
        if references:
            yield _broken(f"{words}: {', '.join(references[:LISTED])}")
    if outside.good and not outside.on_word:
        yield "", "0 effects done twice.", "green"


def _repaired(account: Account) -> Iterator[Line]:
    repaired = [seen for seen in account.columns["done"] if seen.remedies]
    for place, seen in enumerate(repaired[:LISTED]):
        remedy = seen.remedies[-1]
        note = f" ({remedy.note})" if remedy.note else ""
        yield "" if place else "repaired", f"{seen.agent} {seen.subject}: {reason_of(seen, remedy.error)}", ""
        yield "", f"replayed with other data by {remedy.operator}{note}: done", "green"


def _killed(account: Account) -> Iterator[Line]:
    for kill in account.kills:
        yield "killed", f"worker {kill.pid} by SIGKILL in the middle of {number(kill.runs, 'run')}", ""
        if kill.resumed_after is not None:
            kept = number(kill.kept, "finished step")
            yield "", f"resumed {kill.resumed_after * 1000:.0f} ms after the next was up, {kept} kept", ""
        elif kill.stuck:
            yield "", f"{number(kill.stuck, 'run')} did not go on with the next worker", "bold red"
        elif kill.runs:
            yield "", "the demonstration ended before the next worker took over", ""


def _next(stage: Stage) -> Iterator[Line]:
    yield "", f"{program()} init       a small project that runs at once", ""
    yield "", f"{program()} --help     everything else", ""
    if stage.keep:
        yield "", f"{program()} runs --store {stage.store}", ""
        yield "kept", f"{stage.folder}", ""
    else:
        yield "", f"{stage.folder} was removed; --keep keeps it", "dim"


def _first(lines: list[str], more: str) -> Iterator[Line]:
    """The first of them, and how many there are besides."""
    for line in lines[:LISTED]:
        yield "", line, ""
    if len(lines) > LISTED:
        yield "", f"and {len(lines) - LISTED} {more}", ""


def _broken(words: str) -> Line:
    return "", f"{words}: the promise is broken", "bold red"
