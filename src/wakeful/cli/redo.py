"""`wakeful replay` and `wakeful dead`: what failed is done again, after a look at what that would mean.

A single run is replayed at once. Several are counted first: how many of which agent and error, and how many confirmed
effects would be found instead of repeated. Then they go at a rate. Ctrl-C stops between two of them; what was replayed is
no dead letter any more, so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, add_json, add_store, operator_of, read_data
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, say, short, terminal
from wakeful.cli.trace import no_run
from wakeful.errors import NotFound, did_you_mean
from wakeful.execution.retry import signature
from wakeful.stores.base import RecordOperation, Redone, RedoRun
from wakeful.stores.store import DatabaseStore
from wakeful.values import to_text

MANY = 10_000
DEAD_WORDS = ("list", "show", "replay", "discard")
DEFAULT_RATE = 50.0

Letter = dict[str, Any]


def add_choice(parser: Parser) -> None:
    """Which ones, and how."""
    parser.add_argument("--agent", metavar="NAME", help="all dead letters of this agent")
    parser.add_argument("--error", metavar="TEXT", help="all dead letters whose error contains this")
    parser.add_argument("--all", action="store_true", help="all dead letters")
    parser.add_argument("--plan", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help=f"also when there are more than {MANY:,}")
    parser.add_argument(
        "--rate", metavar="N/s", type=rate, default=DEFAULT_RATE, help="so many a second (default 50/s)"
    )
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    parser.add_argument("--data", metavar="JSON", help="with one run: this instead of the event's data; JSON or @file")
    add_json(parser)
    add_store(parser)


def rate(text: str) -> float:
    """`20/s`, `600/m`, or a plain number for so many a second."""
    number, _, unit = text.partition("/")
    seconds = {"": 1, "s": 1, "m": 60, "h": 3600}.get(unit)
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if seconds is None or value <= 0:
        message = f"{text!r} is no rate: write 20/s, 600/m or 1000/h"
        raise argparse.ArgumentTypeError(message)
    return value / seconds


# replay


def declare_replay(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="a run's id, or the beginning of it")
    parser.add_argument("--again", action="store_true", help="also a run that went well, as a new one of its family")
    add_choice(parser)


def replay(arguments: argparse.Namespace) -> int:
    if arguments.run is not None:
        return redo_one(arguments, arguments.run, again=arguments.again)
    if arguments.again:
        message = "--again takes a RUN"
        raise UsageError(message)
    return redo_many(arguments)


replay_command = Command(declare_replay, replay, "wakeful dead list shows what there is, grouped by agent and error.")


# dead


def declare_dead(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show RUN, replay [RUN], discard [RUN]"
    )
    add_choice(parser)


def dead(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in DEAD_WORDS:
        message = f'there is no "dead {verb}".{did_you_mean(verb, DEAD_WORDS)}'
        raise UsageError(message)
    if len(rest) > 1 or (rest and verb == "list") or (verb == "show" and not rest):
        message = (
            f"dead {verb} takes {'one RUN' if verb == 'show' else 'at most one RUN' if verb != 'list' else 'no RUN'}"
        )
        raise UsageError(message)
    if verb == "list":
        return list_dead(arguments)
    if verb == "show":
        print_json(find(arguments, rest[0]))
        return 0
    if rest:
        return redo_one(arguments, rest[0], discard=verb == "discard")
    return redo_many(arguments, discard=verb == "discard")


dead_command = Command(declare_dead, dead, "wakeful why RUN tells how one of them came about.")


def list_dead(arguments: argparse.Namespace) -> int:
    groups = grouped(chosen(arguments))
    if arguments.json:
        print_json({"groups": [group.to_json() for group in groups]})
        return 0
    if not groups:
        print("no dead letters" + (" like that" if arguments.agent or arguments.error else ""))
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(group.agent),
            str(len(group.letters)),
            ago(group.letters[0]["finished_at"], present),
            short(group.letters[0]["id"], out),
            Text(plain(group.signature), style="dim"),
        ]
        for group in groups
    ]
    print_table(out, ["agent", "count", "last", "newest run", "error"], rows, flexible="error")
    return 0


# choosing


@dataclass(slots=True)
class Group:
    """Dead letters of one agent that failed alike."""

    agent: str
    signature: str
    letters: list[Letter]

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "error": self.signature,
            "count": len(self.letters),
            "last_at": self.letters[0]["finished_at"],
            "confirmed_effects": sum(letter["confirmed"] for letter in self.letters),
            "runs": [letter["id"] for letter in self.letters[:20]],
        }


def chosen(arguments: argparse.Namespace) -> list[Letter]:
    letters: list[Letter] = read(
        chosen_store(arguments), lambda reader: reader.dead(agent=arguments.agent, limit=10**9)
    )
    if arguments.error:
        wanted = arguments.error.lower()
        letters = [one for one in letters if wanted in words_of(one).lower()]
    return letters


def words_of(letter: Letter) -> str:
    return f"{letter['error'].get('type', '')}: {letter['error'].get('message', '')}"


def grouped(letters: list[Letter]) -> list[Group]:
    found: dict[tuple[str, str], Group] = {}
    for letter in letters:
        error = letter["error"]
        kind = signature(str(error.get("type", "")), str(error.get("message", "")))
        found.setdefault((letter["agent"], kind), Group(letter["agent"], kind, [])).letters.append(letter)
    return sorted(found.values(), key=lambda group: -len(group.letters))


# doing


def find(arguments: argparse.Namespace, identifier: str) -> dict[str, Any]:
    run = read(chosen_store(arguments), lambda reader: reader.run(identifier))
    if run is None:
        message = no_run(identifier)
        raise NotFound(message)
    return run


def redo_one(arguments: argparse.Namespace, identifier: str, *, again: bool = False, discard: bool = False) -> int:
    run = find(arguments, identifier)
    data = None if arguments.data is None else to_text(read_data(arguments.data), what="--data")
    confirmed = sum(effect["state"] == "confirmed" for effect in run["effects"])
    if arguments.plan:
        word = "discard" if discard else "replay"
        say_plan(arguments, f"would {word} run {run['id']} ({run['agent']}, {run['state']})", confirmed)
        return 0
    request = RedoRun(run["id"], operator_of(arguments), arguments.note, data, again=again, discard=discard)
    redone = asyncio.run(_redo(chosen_store(arguments), request))
    if redone is None or redone.refused is not None:
        message = f"run {run['id']} {redone.refused if redone else 'is gone'}"
        raise NotFound(message)
    if arguments.json:
        print_json({"run": redone.run, "was": redone.was, "confirmed_effects": confirmed})
    else:
        found = (
            f"; {confirmed} confirmed effect{'' if confirmed == 1 else 's'} will not be repeated" if confirmed else ""
        )
        print(f"run {redone.run}: {'discarded' if discard else 'ready again'}, was {redone.was}{found}")
    return 0


def redo_many(arguments: argparse.Namespace, *, discard: bool = False) -> int:
    if not (arguments.agent or arguments.error or arguments.all):
        message = "which ones? Give a RUN, --agent NAME, --error TEXT or --all"
        raise UsageError(message)
    if arguments.data is not None:
        message = "--data is for one RUN: these have different payloads"
        raise UsageError(message)
    letters = chosen(arguments)
    if not letters:
        message = "no dead letter is like that: see `wakeful dead list`"
        raise NotFound(message)
    groups = grouped(letters)
    word = "discard" if discard else "replay"
    confirmed = sum(letter["confirmed"] for letter in letters)
    if not arguments.json:
        for group in groups:
            say(f"{len(group.letters):>7,}  {plain(group.agent)}  {plain(group.signature)}")
    if arguments.plan:
        say_plan(arguments, f"would {word} {len(letters):,} dead letters at {arguments.rate:g}/s", confirmed, groups)
        return 0
    if len(letters) > MANY and not arguments.yes:
        message = f"{len(letters):,} dead letters are more than {MANY:,}: add --yes if you mean all of them"
        raise UsageError(message)
    done = asyncio.run(_redo_all(arguments, letters, discard=discard))
    if arguments.json:
        print_json({"redone": done, "of": len(letters), "confirmed_effects": confirmed})
    else:
        print(f"{done:,} of {len(letters):,} dead letters {'discarded' if discard else 'are ready again'}")
    return 0


def say_plan(arguments: argparse.Namespace, words: str, confirmed: int, groups: list[Group] | None = None) -> None:
    if arguments.json:
        print_json(
            {
                "plan": words,
                "confirmed_effects": confirmed,
                **({"groups": [group.to_json() for group in groups]} if groups is not None else {}),
            }
        )
    else:
        print(f"{words}; {confirmed} confirmed effect{'' if confirmed == 1 else 's'} would be found and not repeated")


async def _redo(url: str, request: RedoRun) -> Redone | None:
    async with changing(url) as store:
        redone = await store.redo(request)
        if redone is not None and redone.refused is None:
            await _record(store, request, redone.run)
        return redone


async def _redo_all(arguments: argparse.Namespace, letters: list[Letter], *, discard: bool) -> int:
    """Oldest first, at the rate; a Ctrl-C ends it between two of them."""
    done = 0
    operator = operator_of(arguments)
    began = asyncio.get_running_loop().time()
    async with changing(chosen_store(arguments)) as store:
        for number, letter in enumerate(reversed(letters)):
            wait = began + number / arguments.rate - asyncio.get_running_loop().time()
            if wait > 0:
                await asyncio.sleep(wait)
            redone = await store.redo(RedoRun(letter["id"], operator, arguments.note, discard=discard))
            done += redone is not None and redone.refused is None
        detail = f"{done} of {len(letters)}" + (f": {arguments.note}" if arguments.note else "")
        verb = "discard" if discard else "replay"
        await store.record_operation(RecordOperation(operator, verb, None, arguments.agent or arguments.error, detail))
    return done


async def _record(store: DatabaseStore, request: RedoRun, run: str) -> None:
    verb = "discard" if request.discard else "replay"
    await store.record_operation(RecordOperation(request.operator, verb, None, run, request.note))
