"""Listings: runs. `--json` prints the objects of the HTTP API."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.text import Text

from wakeful.model import RUN_STATES
from wakeful.shell.arguments import Command, Parser, UsageError, add_json, add_limit, add_store, one_of
from wakeful.shell.opening import chosen_store, read
from wakeful.shell.terminal import (
    Cell,
    ago,
    hanging,
    is_piped,
    now,
    plain,
    print_json,
    print_table,
    short,
    state,
    terminal,
    took,
)
from wakeful.stores.reading import LONGEST_PAGE, Reader
from wakeful.stores.tampered import held_for_tampering, how_to_go_on
from wakeful.values import arguments_of

WIDE = 100
NARROW = 70


# runs


def declare_runs(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="only runs of this agent")
    parser.add_argument(
        "--state", metavar="STATE", type=one_of(sorted(RUN_STATES), what="state"), help=", ".join(sorted(RUN_STATES))
    )
    parser.add_argument("--held", action="store_true", help="only runs that wait for a person, with what they wait for")
    parser.add_argument("--event", metavar="ID", help="only runs of this event, by its id or key")
    parser.add_argument(
        "--subject", metavar="TEXT", help="only runs of events with this subject, like an order's number"
    )
    parser.add_argument("--action", metavar="NAME", help="only runs with an effect of this action")
    parser.add_argument(
        "--trace", metavar="ID", help="only runs of this trace: its id, 6 characters of it or more, or a traceparent"
    )
    parser.add_argument("--since", metavar="TIME", help="only runs that were made since then, like 2h or yesterday")
    parser.add_argument("--until", metavar="TIME", help="only runs that were made before then")
    add_listing(parser)


def show_runs(arguments: argparse.Namespace) -> int:
    if arguments.held:
        if arguments.state not in {None, "held"}:
            message = f"--held is --state held, and this is --state {arguments.state}: give one of them"
            raise UsageError(message)
        arguments.state = "held"

    async def ask(reader: Reader) -> tuple[dict[str, Any], int]:
        page = await paged(
            reader.runs(
                agent=arguments.agent,
                state=arguments.state,
                event=arguments.event,
                subject=arguments.subject,
                action=arguments.action,
                trace=arguments.trace,
                since=await moment_given(reader, arguments.since, "--since"),
                until=await moment_given(reader, arguments.until, "--until"),
                limit=arguments.limit,
                after=arguments.after,
            )
        )
        total = 0 if page["runs"] else sum((await reader.counts()).values())
        return page, total

    page, total = read(chosen_store(arguments), ask)
    if arguments.json:
        print_json(page)
        return 0
    if not page["runs"]:
        nothing(
            "runs", total, "Send an event with `wakeful emit APP TYPE`, or run an agent with `wakeful run APP AGENT`."
        )
        return 0
    out, present = terminal(), now()
    columns = ["run", "agent", "state", "tries", "took", "event", "made", "note"]
    notes = [note_of(run) for run in page["runs"]]
    if out.width < max(WIDE, 3 * max(map(len, notes))):
        columns.remove("note")  # it stands below its run, where there is room for all of it
    if out.width < NARROW:
        columns.remove("tries")
        columns.remove("took")
    rows = []
    for run, note in zip(page["runs"], notes, strict=True):
        cells: dict[str, Cell] = {
            "run": short(run["id"], out),
            "agent": plain(run["agent"]),
            "state": state(run["state"]),
            "tries": str(run["attempts"]),
            "took": took(run["started_at"], run["finished_at"]),
            "event": plain(f"{run['event']['type']} {run['event']['id']}"),
            "made": ago(run["created_at"], present),
            "note": Text(note, style="dim"),
        }
        rows.append([cells[column] for column in columns])
    print_table(out, columns, rows, flexible="event", below=None if "note" in columns else notes)
    if arguments.state == "held":
        show_held(arguments, page["runs"])
    say_more(page, "runs")
    return 0


async def moment_given(reader: Reader, text: str | None, option: str) -> int | None:
    """A time of the command line, by the store's clock."""
    if text is None:
        return None
    from wakeful.triggers.past import read_past

    try:
        return read_past(text, now=await reader.time())
    except ValueError as error:
        raise UsageError(f"runs: {option}: {error}") from None


def note_of(run: dict[str, Any]) -> str:
    """Why it is as it is."""
    crashed = f"{run['crashes']} crashed; " if run["crashes"] else ""
    return plain(f"{crashed}{run['reason'] or ''}".removesuffix("; "))


def show_held(arguments: argparse.Namespace, runs: list[dict[str, Any]]) -> None:
    """What a person must settle, why, and how: effects that may have happened, outputs that did not pass their checks, payloads that
    were tampered with, and runs that are held for something else, like changed code.
    """
    held = read(chosen_store(arguments), lambda reader: reader.effects(state="held", limit=LONGEST_PAGE))["effects"]
    out, shown = terminal(), {run["id"] for run in runs}
    effects = [effect for effect in held if effect["run"] in shown]
    waiting = {effect["run"] for effect in effects}
    tampered = [run for run in runs if held_for_tampering(run["reason"])]
    others = [run for run in runs if run["id"] not in waiting and run not in tampered]
    details = {run["id"]: details_of(arguments, run["id"]) for run in others}
    outputs = [run for run in others if details[run["id"]]["outcome"] is not None]
    stopped = [run for run in others if run not in outputs]
    for effect in effects:
        called = f"{plain(effect['action'])}{plain(arguments_of(effect['arguments']))}"
        tell_held(out, "effect", effect["id"], f"{called} of run {short(effect['run'], out)}", effect["reason"])
    outdated = {run["id"] for run in outputs if details[run["id"]]["outdated"]}
    for run in outputs:
        late = "; the agent's state was changed since, so it cannot be released" if run["id"] in outdated else ""
        tell_held(out, "output of run", short(run["id"], out), plain(run["agent"]), f"{run['reason'] or ''}{late}")
    for kind, found in (("tampering, run", tampered), ("run", stopped)):
        for run in found:
            tell_held(out, kind, short(run["id"], out), plain(run["agent"]), run["reason"])
    if effects:
        print("Settle an effect with `wakeful effects confirm|repeat|abandon ID --note TEXT`.")
        print("With confirm, `--result JSON` gives what the call would have returned.")
    if len(effects) > 1:
        print("Many at once: `wakeful effects confirm|repeat|abandon --agent NAME --plan`.")
    if outputs:
        release = " `wakeful release RUN` lets it out," if len(outdated) < len(outputs) else ""
        print(f"Look at an output with `wakeful trace RUN`.{release}")
        print("`wakeful replay RUN` does it again, `wakeful dead discard RUN` ends it.")
    if tampered:
        print(f"{how_to_go_on('RUN')}.")
    if stopped:
        print("`wakeful why RUN` tells why a run is held, and how to go on.")


def details_of(arguments: argparse.Namespace, identifier: str) -> dict[str, Any]:
    """What a held run has to put out. One that was removed meanwhile has nothing."""
    run = read(chosen_store(arguments), lambda reader: reader.run(identifier))
    return {"outcome": None, "outdated": False} if run is None else run


def tell_held(out: Console, kind: str, identifier: str, what: str, reason: str | None) -> None:
    head = Text.assemble((f"{kind} ", "dim"), (plain(identifier), "bold"), f"  {what}")
    out.print(head, soft_wrap=is_piped(out))
    out.print(Text(f"  {hanging(plain(reason or ''), out, 2)}"), soft_wrap=is_piped(out))


runs_command = Command(declare_runs, show_runs, "wakeful trace RUN shows one of them, wakeful why RUN tells its story.")


# what they share


def add_listing(parser: Parser) -> None:
    add_limit(parser)
    parser.add_argument("--after", metavar="CURSOR", help='go on after an earlier page: its "next"')
    add_json(parser)
    add_store(parser)


async def paged(page: Any) -> dict[str, Any]:
    """A page, or a word about a cursor that is none."""
    try:
        answer: dict[str, Any] = await page
    except ValueError:
        message = '--after: not a cursor of this listing; it is the "next" of an earlier page'
        raise UsageError(message) from None
    return answer


def nothing(what: str, others: int, remedy: str) -> None:
    print(f"no {what} like that" if others else f"no {what} yet. {remedy}")


def say_more(page: dict[str, Any], what: str) -> None:
    if page["next"] is not None:
        print(f"more {what}: --after {page['next']}")
