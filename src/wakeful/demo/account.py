"""The account at the end: what was accepted, what happened to it, and whether the promises held.

It compares independent records: the store, the answers that the feeder got, the lines that the steps wrote, and the bank's book.
If they disagree, a line says so and the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from wakeful.demo.app import HOOK
from wakeful.demo.desk import program
from wakeful.demo.feeder import Feeder
from wakeful.demo.stage import Stage, is_open, keys_of, reason_of, subject_of, times
from wakeful.resources.words import number
from wakeful.shell.terminal import hanging

LISTED = 8
INDENT = 13
BROKEN = "bold red"  # the style of a line about a broken promise


class Line(NamedTuple):
    """A line of the account."""

    label: str
    text: str
    style: str = ""


NOT_RESUMED_YET = Line("", "the demonstration ended before the next worker took over")


@dataclass(slots=True)
class Kill:
    """One kill of a worker, and its recovery."""

    pid: int
    runs: list[str]
    kept: int  # finished steps
    recovery: Line = NOT_RESUMED_YET


def print_account(console: Console, stage: Stage, feeder: Feeder, kills: list[Kill]) -> bool:
    """Print the account; True if every promise held."""
    events = list(about_events(stage, feeder))
    rest = [*about_steps(stage), *about_effects(stage), *about_repairs(stage), *about_kills(kills)]
    titled = {f"\nWhat happened in {stage.elapsed:.0f} s": events, "": rest, "\nNext": list(about_what_is_next(stage))}
    for title, lines in titled.items():
        console.print(Text(title, style="bold"))
        for label, text, style in lines:
            words = hanging(text, console, INDENT)
            console.print(Text.assemble((f"  {label:<11}", "bold"), (words, style)), soft_wrap=True)
    return all(line.style != BROKEN for line in events + rest)


def about_events(stage: Stage, feeder: Feeder) -> Iterator[Line]:
    """Sort every accepted or emitted event by its result."""
    answered = {(receipt.source, receipt.id) for receipt in feeder.receipts}
    stored = {(event["source"], event["id"]): event for event in stage.accepted()}
    runs = {(run["event"]["source"], run["event"]["id"]): run for run in stage.runs.values()}  # a type has one agent
    unmatched = {one: event["type"] for one, event in stored.items() if event["state"] == "unmatched"}
    lost = [one for one in answered | stored.keys() if one not in stored or one not in runs | unmatched]
    still_open, done = stage.open_runs(), stage.in_state("done")
    dead = [run for run in stage.runs.values() if not is_open(run) and run["state"] != "done"]

    accepted = len(answered | stored.keys())
    files = [identity for source, identity in stored if source.startswith("/files/")]
    within = len(stored.keys() - answered) - len(files)
    yield Line("accepted", number(accepted, "event") + (f", {within} of them emitted by runs" if within else ""))
    if again := sum(receipt.status == "duplicate" for receipt in feeder.receipts):
        yield Line("", f"{again} more delivered a second time: no second run")
    yield Line("done", f"{len(done)}")
    yield Line("dead", f"{len(dead)}", "red" if dead else "")
    yield from first([f"{name_of(run)}: {reason_of(run, run['error'])}" for run in dead], "more of these")

    found = len({identity.partition("@")[0] for identity in files} & set(feeder.dropped))
    left = len(feeder.dropped) - found
    waits = f"; {left} in the folder until a worker reads it" if left else ""
    yield Line("files", f"{len(feeder.dropped)} dropped, {found} of them an event{waits}")
    if len(files) > found:
        yield broken(f"{len(files) - found} EVENTS MORE THAN FILES")
    taken = sum(source == HOOK for source, _ in stored)
    if feeder.called:
        yield Line("webhooks", f"{feeder.called} sent and signed, {taken} of them an event")
    if let_in := feeder.forged - feeder.turned_away + max(0, taken - feeder.called):
        yield broken(f"{let_in} WITH A WRONG SIGNATURE CAME IN")
    elif feeder.forged:
        yield Line("", f"{feeder.forged} with a wrong signature: answered 401, kept in quarantine")

    kinds = ", ".join(sorted(set(unmatched.values())))
    yield Line("unmatched", f"{len(unmatched)}" + (f" ({kinds}: no agent handles it, so it is kept)" if kinds else ""))
    yield Line("open", f"{len(still_open)}" + (" (they go on when a worker starts)" if still_open else ""))
    words = {"held": "held for a person"}
    states = [(run, words.get(run["state"], run["state"]), number(len(keys_of(run)), "step")) for run in still_open]
    yield from first([f"{name_of(run)}: {state}, {steps} finished" for run, state, steps in states], "more")
    columns = f"{len(done)} done + {len(dead)} dead + {len(unmatched)} unmatched + {len(still_open)} open"
    if lost or accepted != len(stage.runs) + len(unmatched):
        yield Line("", f"{accepted} is not {columns}", BROKEN)
        yield Line("", f"LOST: {lost[:LISTED]}; runs too many: {len(stage.runs) - len(runs)}", BROKEN)
    else:
        yield Line("", f"{accepted} = {columns}: nothing was lost.", "green")


def about_steps(stage: Stage) -> Iterator[Line]:
    """Compare the lines that the steps wrote with the store's records."""
    counter, recorded = stage.counter, set(stage.recorded())
    ended = {key for key, some in counter.executions.items() if any(one.ended == "finished" for one in some)}
    yield Line("steps", f"{counter.finished} ran to their end (counted in a file), {len(recorded)} are in the store")
    if counter.retried:
        yield Line("", f"{len(counter.retried)} tried again after a failure")
    if counter.cut_off:
        yield Line("", f"{counter.cut_off} cut off by a kill: not finished, so they began again")
    if counter.unsaved:
        yield Line("", f"{counter.unsaved} ended just before a kill, not yet on disk: not finished either")
    if uncounted := recorded - ended:
        yield Line("", f"{len(uncounted)} are in the store, but the counter never saw them end", BROKEN)
    if counter.repeated:
        yield broken(f"{len(counter.repeated)} FINISHED STEPS EXECUTED TWICE")
    else:
        yield Line("", "0 finished steps executed twice.", "green")


def about_effects(stage: Stage) -> Iterator[Line]:
    """Compare the effects in the store with the bank's book: one booking for each confirmed effect. An effect that a person repeated
    may be booked twice.
    """
    effects, book = stage.effects(), stage.book
    confirmed = [subject_of(run) for run, effect in effects if effect["state"] == "confirmed"]
    if not (confirmed or book.pages):
        return
    asked, looked = times(book.count("asked")), book.count("looked")
    looks = f", and {times(looked)} what it had paid" if looked else ""
    yield Line("effects", f"{len(confirmed)} confirmed in the store, {book.count('booked')} in the bank's own book")
    yield Line("", f"it was asked to pay {asked}{looks}; {book.count('unheard')} of its answers were not received")
    ended = [(run, effect) for run, effect in effects if effect["state"] in {"confirmed", "abandoned"}]
    notes = [f" Note: {effect['note']}." if effect["note"] else "" for _, effect in ended]
    yield from first([stage.story_of(*one) + note for one, note in zip(ended, notes, strict=True)], "more of these")
    twice = [(subject_of(run), effect) for run, effect in effects if book.count("booked", subject_of(run)) > 1]
    wrong = {
        "DONE TWICE, WITHOUT AN OPERATOR'S REPEAT": [one for one, effect in twice if effect["settled_by"] is None],
        "CONFIRMED IN THE STORE, NOT IN THE BANK'S BOOK": [one for one in confirmed if not book.count("booked", one)],
        "IN THE BANK'S BOOK, NOT IN THE STORE": sorted(book.pages.keys() - {subject_of(run) for run, _ in effects}),
    }
    for words, references in wrong.items():
        if references:
            yield broken(f"{words}: {', '.join(references[:LISTED])}")
    if not (twice or any(wrong.values())):
        yield Line("", "0 effects done twice.", "green")


def about_repairs(stage: Stage) -> Iterator[Line]:
    label = "repaired"
    for run in [run for run in stage.in_state("done") if run["remedies"]][:LISTED]:
        remedy = run["remedies"][-1]
        note = f" ({remedy['note']})" if remedy["note"] else ""
        yield Line(label, f"{name_of(run)}: {reason_of(run, remedy['error'])}")
        yield Line("", f"replayed with other data by {remedy['operator']}{note}: done", "green")
        label = ""


def about_kills(kills: list[Kill]) -> Iterator[Line]:
    for kill in kills:
        yield Line("killed", f"worker {kill.pid} by SIGKILL in the middle of {number(len(kill.runs), 'run')}")
        if kill.runs:
            yield kill.recovery


def about_what_is_next(stage: Stage) -> Iterator[Line]:
    yield Line("", f"{program()} init       create a small project that runs at once")
    yield Line("", f"{program()} --help     everything else")
    if stage.keep:
        yield Line("", f"{program()} runs --store {stage.store}")
        yield Line("kept", f"{stage.folder}")
    else:
        yield Line("", f"{stage.folder} was removed; --keep keeps it", "dim")


def name_of(run: dict[str, Any]) -> str:
    return f"{run['agent']} {subject_of(run)}"


def first(texts: list[str], more: str) -> Iterator[Line]:
    """The first texts, and the number of the rest."""
    yield from (Line("", text) for text in texts[:LISTED])
    if len(texts) > LISTED:
        yield Line("", f"and {len(texts) - LISTED} {more}")


def broken(words: str) -> Line:
    return Line("", f"{words}: the promise is broken", BROKEN)
