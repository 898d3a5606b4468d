"""`wakeful effects`: what runs did to the outside world, and a person's word about what nobody else can know.

confirm   it was done: the run goes on as if the call had returned, with --result as its result
repeat    it was not done: the call is made again
abandon   it shall not be done: the handler is told so, and the run ends as a dead letter unless it catches that

A single one is settled at once, by its ID. Many, of --agent and --action, are counted first: --plan says what would be done.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, get_args

from rich.text import Text

from wakeful.cli.arguments import Command, Parser, UsageError, actor_of, one_of, read_data
from wakeful.cli.carrying import carry_out, number, refuse_many, said_stop
from wakeful.cli.effect_views import show_effect
from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.person import Token, people_only
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, say, short, state, terminal
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import EffectState
from wakeful.operations.held import HeldPlan, plan_settling, settle_held
from wakeful.operations.pace import read_rate, shown_rate
from wakeful.operations.redo import ANSWERS, MANY, settle, which_stands
from wakeful.stores.base import Settled
from wakeful.stores.reading import SHORTEST_PREFIX, Reader
from wakeful.values import to_text

WORDS = ("list", "show", *ANSWERS)
WOULD = {"confirm": "confirm", "repeat": "call again", "abandon": "abandon"}
BECAME = {"confirm": "confirmed", "repeat": "to be called again", "abandon": "abandoned"}
DEFAULT_RATE = 50.0


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="WORD",
        nargs="*",
        help="list (the default), show ID, or confirm, repeat or abandon and an ID, or --agent, --action or --all",
    )
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    parser.add_argument("--result", metavar="JSON", help="with confirm: what the call would have returned")
    parser.add_argument("--agent", metavar="NAME", help="all of this agent")
    parser.add_argument("--action", metavar="NAME", help="all of this action")
    parser.add_argument("--all", action="store_true", help="all that are held")
    parser.add_argument("--plan", action="store_true", help="with many: only say what would be done")
    parser.add_argument("--yes", action="store_true", help=f"also when there are more than {MANY:,}")
    parser.add_argument(
        "--rate", metavar="N/s", type=rate, default=DEFAULT_RATE, help="so many a second, or max (default 50/s)"
    )
    known = sorted(get_args(EffectState))
    parser.add_argument("--state", metavar="STATE", type=one_of(known, what="state"), help=", ".join(known))
    add_listing(parser)


def rate(text: str) -> float | None:
    try:
        return read_rate(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb == "list" and not rest:
        return _list(arguments)
    if verb not in WORDS:
        message = f'there is no "effects {plain(verb)}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    many = bool(arguments.agent or arguments.action or arguments.all)
    if verb == "list" or len(rest) > 1 or (not rest and not (many and verb in ANSWERS)):
        message = (
            "effects takes list, or show, confirm, repeat or abandon and an ID, like: wakeful effects confirm 3f2a91. "
            "Many are settled by --agent NAME, --action NAME or --all instead of an ID"
        )
        raise UsageError(message)
    if rest and (many or arguments.plan):
        message = "--agent, --action, --all and --plan are for many effects: leave out the ID, or them"
        raise UsageError(message)
    settles = verb in ANSWERS and not arguments.plan
    token = people_only("settle an effect", chosen_store(arguments)) if settles else None
    if not rest:
        return _settle_many(arguments, verb, token)
    found = _find(arguments, rest[0])
    if token is None:
        return _show(arguments, found)
    token.opens_run(chosen_store(arguments), found["run"])
    return _tell(arguments, verb, asyncio.run(_settle(arguments, found["id"], verb, _result(arguments, verb))))


effects_command = Command(declare, execute, "wakeful runs --held lists what waits for a person.")


def _result(arguments: argparse.Namespace, verb: str) -> str | None:
    if arguments.result is None:
        return None
    if verb != "confirm":
        message = f"--result is for confirm: {verb} has none"
        raise UsageError(message)
    return to_text(read_data(arguments.result, what="--result"), what="--result")


def _find(arguments: argparse.Namespace, identifier: str) -> dict[str, Any]:
    found = read(chosen_store(arguments), lambda reader: reader.effect(identifier))
    if found is None:
        more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(identifier) < SHORTEST_PREFIX else ""
        message = f'there is no effect "{plain(identifier)}": see `wakeful effects`{more}'
        raise NotFound(message)
    return found


def _show(arguments: argparse.Namespace, effect: dict[str, Any]) -> int:
    if arguments.json:
        print_json(effect)
    else:
        show_effect(effect)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    page = read(
        chosen_store(arguments),
        lambda reader: paged(
            reader.effects(
                state=arguments.state,
                limit=arguments.limit,
                after=arguments.after,
                agent=arguments.agent,
                action=arguments.action,
            )
        ),
    )
    if arguments.json:
        print_json(page)
        return 0
    if not page["effects"]:
        print(
            "no effects like that"
            if arguments.state or arguments.after or arguments.agent or arguments.action
            else "no effects yet. An agent makes one with `run.act(action, …)`."
        )
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            short(one["id"], out),
            plain(one["action"]),
            state(one["state"]),
            short(one["run"], out),
            ago(one["opened_at"], present),
            Text(plain(_words(one)), style="dim"),
        ]
        for one in page["effects"]
    ]
    print_table(out, ["effect", "action", "state", "run", "opened", "note"], rows, flexible="note")
    say_more(page, "effects")
    return 0


def _words(one: dict[str, Any]) -> str:
    """Whose word its state rests on, where a person settled it; else why it is as it is."""
    if not one["settled_by"] or one["state"] not in {"confirmed", "abandoned"}:
        return str(one["reason"] or one["note"] or "")
    # One that was called again after a person's word has no reason left, once it is confirmed.
    did = one["state"] if one["reason"] or one["state"] == "abandoned" else "called again"
    return f"{did} by {one['settled_by']}" + (f": {one['note']}" if one["note"] else "")


async def _settle(arguments: argparse.Namespace, effect: str, verb: str, result: str | None) -> Settled | None:
    by = actor_of(arguments)
    async with changing(chosen_store(arguments)) as store:
        return await settle(store, effect, verb, by=by, note=arguments.note, result=result)


def _tell(arguments: argparse.Namespace, verb: str, settled: Settled | None) -> int:
    if settled is None:
        message = f'there is no effect "{plain(arguments.words[1])}"'
        raise NotFound(message)
    effect = settled.effect
    if settled.unfit:
        raise UsageError(plain(which_stands(settled, verb)))
    if not settled.first:
        raise NotFound(plain(which_stands(settled, verb)))
    if arguments.json:
        shown = {"id": effect.id, "state": effect.state, "run": settled.run, "first": True}
        print_json({**shown, "corrected": True} if settled.corrected else shown)
    elif settled.corrected:
        print(
            f"{plain(effect.action)} {effect.id}: its result is corrected. Run {settled.run} finds it when it goes on; if it is "
            f"dead, `wakeful replay {settled.run}` lets it"
        )
    else:
        print(f"{plain(effect.action)} {effect.id}: {effect.state}. Run {settled.run} goes on.")
    return 0


# many


def _settle_many(arguments: argparse.Namespace, verb: str, token: Token | None) -> int:
    arguments.url = chosen_store(arguments)
    result = _result(arguments, verb)
    plan = read(arguments.url, lambda reader: _plan(arguments, reader))
    if token is not None:
        token.opens_agents(arguments.url, (one.agent for one in plan.effects))
    count = len(plan.effects)
    unfit = plan.unfit(verb, result)
    if not arguments.json:
        for group in plan.groups:
            oldest = group.to_json()
            returns = f", returns {oldest['returns']}" if oldest["returns"] and verb == "confirm" else ""
            since = ago(oldest["since"], now())
            say(
                plain(
                    f"{len(group.effects):>7,}  {group.agent}  {group.action}  oldest {since}, {group.called:,} called{returns}"
                )
            )
    if arguments.plan:
        words = f"would {WOULD[verb]} {number(count, 'held effect')} of {number(plan.runs, 'run')} {shown_rate(arguments.rate)}"
        if arguments.json:
            print_json({"plan": words, **plan.to_json(), "unfit": unfit})
        else:
            print(words if unfit is None else plain(f"{words}; but {unfit}"))
        return 0
    if unfit is not None:
        raise UsageError(plain(f"{unfit}. Nothing was changed"))
    refuse_many(arguments, count, "held effects")
    done, stopped = carry_out(
        arguments,
        lambda store, pace, progress: settle_held(
            store,
            plan.effects,
            verb,
            by=actor_of(arguments),
            note=arguments.note,
            result=result,
            pace=pace,
            progress=progress,
        ),
    )
    if arguments.json:
        print_json({"settled": done, "of": count, "stopped": stopped})
    else:
        print(f"{done:,} of {number(count, 'held effect')} {'is' if done == 1 else 'are'} {BECAME[verb]}")
    return said_stop(stopped=stopped)


async def _plan(arguments: argparse.Namespace, reader: Reader) -> HeldPlan:
    plan = await plan_settling(reader, agent=arguments.agent, action=arguments.action)
    if not plan.effects:
        held = (await plan_settling(reader)).effects
        guess = ""
        for given, known in (
            (arguments.agent, {one.agent for one in held}),
            (arguments.action, {one.action for one in held}),
        ):
            if given is not None and given not in known:
                guess = guess or did_you_mean(given, sorted(known))
        message = f"no held effect is like that: see `wakeful effects --state held`.{guess}"
        raise NotFound(plain(message))
    return plan
