"""`wakeful alarms`: what a person should hear of, and their word that they have.

ack       somebody knows: nobody is told again until it resolves
mute      nobody is told for some time (--for)
resolve   it is over
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.console import Console
from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, actor_of, add_json, add_limit, add_store, one_of
from wakeful.cli.carrying import number
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.terminal import (
    Cell,
    ago,
    clock_time,
    hanging,
    is_piped,
    now,
    plain,
    print_json,
    print_table,
    state,
    terminal,
)
from wakeful.clock import SECOND, Microseconds, duration
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import AlarmState
from wakeful.stores.alarms import AlarmChanged, AlarmVerb, ChangeAlarm

Shown = dict[str, Any]

CHANGES: dict[str, AlarmVerb] = {"ack": "acknowledge", "mute": "mute", "resolve": "resolve"}
WORDS = ("list", "show", *CHANGES)


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show KEY, or ack, mute or resolve KEY"
    )
    known = get_args(AlarmState)
    parser.add_argument("--state", metavar="STATE", type=one_of(known, what="state"), help=", ".join(known))
    parser.add_argument("--for", dest="span", metavar="TIME", type=span, help="with mute: how long, like 2h")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_limit(parser)
    add_json(parser)
    add_store(parser)


def span(text: str) -> Microseconds:
    try:
        given = duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if given < SECOND:
        message = f"at least 1s, not {text}"
        raise argparse.ArgumentTypeError(message)
    return given


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in WORDS:
        message = f'there is no "alarms {plain(verb)}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    if verb == "list" and not rest:
        return _list(arguments)
    if verb == "list" or len(rest) != 1:
        message = "alarms takes list, or show, ack, mute or resolve and a KEY, like: wakeful alarms ack dead/ops/review/3f2a91"
        raise UsageError(message)
    if verb == "show":
        return _show(arguments, rest[0])
    if (verb == "mute") != (arguments.span is not None):
        message = (
            "mute takes --for and how long, like: --for 2h" if verb == "mute" else f"--for is for mute, not for {verb}"
        )
        raise UsageError(message)
    return _change(arguments, CHANGES[verb], rest[0])


alarms_command = Command(declare, execute, "An alarm that is acknowledged or muted is still listed, until it resolves.")


def _list(arguments: argparse.Namespace) -> int:
    answer = read(chosen_store(arguments), lambda reader: reader.alarms(state=arguments.state))
    answer["alarms"] = answer["alarms"][: arguments.limit]
    if arguments.json:
        print_json(answer)
        return 0
    if not answer["alarms"]:
        print("no alarms" + (f" in state {arguments.state}" if arguments.state else ""))
        return 0
    out, present = terminal(), now()
    for alarm in answer["alarms"]:
        _print(out, alarm, present)
    return 0


def _print(out: Console, alarm: Shown, present: Microseconds) -> None:
    head = Text.assemble(
        state(alarm["state"]),
        "  ",
        (plain(alarm["key"]), "bold"),
        f"  {alarm['count']}×, last {ago(alarm['last_at'], present)}, first {ago(alarm['opened_at'], present)}",
    )
    out.print(head)
    out.print(Text(f"  {hanging(plain(alarm['text']), out, 2)}"), soft_wrap=is_piped(out))
    if (more := _said(alarm)) is not None:
        out.print(Text(f"  {hanging(more, out, 2)}", style="dim"), soft_wrap=is_piped(out))


def _show(arguments: argparse.Namespace, key: str) -> int:
    alarm = _find(arguments, key)
    if arguments.json:
        print_json(alarm)
        return 0
    out, present = terminal(), now()
    _print(out, alarm, present)
    if alarm["do"] is not None and alarm["state"] != "resolved":
        todo = hanging(f"what to do: {plain(alarm['do'])}", out, 2)
        out.print(Text(f"  {todo}"), soft_wrap=is_piped(out))
    if alarm["told_at"] is not None:
        again = f", again {ago(alarm['tell_at'], present)}" if alarm["tell_at"] and alarm["state"] == "open" else ""
        print(f"  told {number(alarm['told'], 'time')}, last {ago(alarm['told_at'], present)}{again}")
    if alarm["resolved_at"] is not None:
        how = f": {plain(alarm['ending'])}" if alarm["ending"] else ""
        print(f"  resolved {ago(alarm['resolved_at'], present)}{how}")
    rows: list[list[Cell]] = [
        [clock_time(one["at"]), one["verb"], plain(one["by"]), plain(one["note"] or "–")] for one in alarm["changes"]
    ]
    if rows:
        print_table(out, ["changed", "how", "by", "note"], rows, flexible="note")
    return 0


def _said(alarm: Shown) -> str | None:
    """Who hears of it, and what people said."""
    words = []
    if alarm["owner"]:
        words.append(f"owner {plain(alarm['owner'])}")
    if alarm["state"] == "acknowledged":
        note = f": {plain(alarm['note'])}" if alarm["note"] else ""
        words.append(f"acknowledged by {plain(alarm['acknowledged_by'])}{note}")
    if alarm["state"] == "open" and alarm["muted_until"] is not None and alarm["muted_until"] == alarm["tell_at"]:
        words.append(f"muted until {alarm['muted_until']}")
    return ", ".join(words) or None


def _find(arguments: argparse.Namespace, key: str) -> Shown:
    found = read(chosen_store(arguments), lambda reader: reader.alarm(key))
    if found is None:
        raise _unknown(arguments, key)
    return found


def _unknown(arguments: argparse.Namespace, key: str) -> NotFound:
    known = read(chosen_store(arguments), lambda reader: reader.alarms())["alarms"]
    hint = did_you_mean(key, [one["key"] for one in known if one["state"] != "resolved"])
    return NotFound(f'there is no alarm "{plain(key)}".{hint if "Did" in hint else ""} See `wakeful alarms`')


def _change(arguments: argparse.Namespace, verb: AlarmVerb, key: str) -> int:
    request = ChangeAlarm(key, verb, span=arguments.span or 0, by=actor_of(arguments), note=arguments.note)

    async def change() -> AlarmChanged | None:
        async with changing(chosen_store(arguments)) as store:
            return await store.do(request)

    changed = asyncio.run(change())
    if changed is None:
        raise _unknown(arguments, key)
    if changed.refused is not None:
        message = f"alarm {plain(key)} {changed.refused}"
        raise NotFound(message)
    alarm = _find(arguments, key)
    if arguments.json:
        print_json(alarm)
    elif verb == "acknowledge":
        print(f"{plain(key)} is acknowledged: nobody is told of it again until it resolves")
    elif verb == "mute":
        print(f"{plain(key)} is muted until {alarm['muted_until']}")
    else:
        print(f"{plain(key)} is resolved. Should it be raised again, it opens anew")
    return 0
