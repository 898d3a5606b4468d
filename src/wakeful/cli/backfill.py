"""backfill: instants of a schedule that are over, counted first, then fed in behind everything else."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from wakeful.cli.working import prepare
from wakeful.clock import to_text
from wakeful.errors import ConfigError, did_you_mean
from wakeful.operations import backfill as filling
from wakeful.operations.pace import Pace, shown_rate
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_json, add_logs, add_store, app_and
from wakeful.shell.carrying import ProgressLine, number, said_stop
from wakeful.shell.life import Stopping, live
from wakeful.shell.opening import sending
from wakeful.shell.terminal import plain, print_json, say
from wakeful.surface.command import read_pace
from wakeful.triggers.past import read_past

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.runtime import Runtime


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="APP AGENT",
        nargs="+",
        help="the app (default: WAKEFUL_APP, else app.py here), and the agent whose schedule it is",
    )
    parser.add_argument(
        "--from", dest="since", metavar="TIME", required=True, help="instants from then on, like yesterday or 30d"
    )
    parser.add_argument("--to", dest="until", metavar="TIME", default="now", help="and before then (default now)")
    parser.add_argument("--schedule", metavar="NAME", help="which one, where the agent has several")
    parser.add_argument("--plan", action="store_true", help="only say what would be done")
    parser.add_argument("--yes", action="store_true", help=f"also when there are more than {filling.MANY:,}")
    parser.add_argument(
        "--rate",
        metavar="N/s",
        type=read_pace,
        default=None,
        help="at most this many, like 10/m (default: as fast as workers finish them)",
    )
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_store(parser)
    add_json(parser)
    add_logs(parser)
    parser.set_defaults(in_flight=None)


def execute(arguments: argparse.Namespace) -> int:
    arguments.app, arguments.agent = app_and(arguments.words, like="backfill AGENT report --from 30d")
    app = prepare(arguments)
    if arguments.agent not in app.agents:
        message = f'app {app.name} has no agent "{arguments.agent}".{did_you_mean(arguments.agent, app.agents)}'
        raise ConfigError(message)
    return live(lambda stopping: _backfill(app, arguments, stopping))


backfill_command = Command(
    declare,
    execute,
    "Instants that are done already are passed over: the same command goes on where it stopped.",
    usage="[options] [APP] AGENT --from TIME",
)


async def _backfill(app: Declarations, arguments: argparse.Namespace, stopping: Stopping) -> int:
    async with sending(app, arguments.store) as runtime:
        chosen = await _chosen(runtime, arguments)
        plan = await filling.plan_backfill(runtime.store, chosen)
        if arguments.plan:
            return _show_plan(arguments, chosen, plan)
        if plan.new > filling.MANY and not arguments.yes:
            message = f"{number(plan.new, 'instant')} are more than {filling.MANY:,}: look at --plan, and add --yes if you mean it"
            raise UsageError(message)
        line, pace = ProgressLine(), Pace(arguments.rate, stopping.asked)
        await _tell_if_alone(runtime, arguments, plan)
        try:
            outcome = await filling.fill(
                runtime.store,
                chosen,
                plan,
                runtime.scheduler.arrival,
                by=actor_of(arguments),
                note=arguments.note,
                pace=pace,
                progress=line.show,
            )
        finally:
            line.end()
    done = plan.done + outcome.done
    if arguments.json:
        told = {"made": outcome.made, "of": plan.new, "done": done, "denied": outcome.denied, "stopped": pace.cut_short}
        print_json({"agent": arguments.agent, "schedule": chosen.stored.name, **told})
    else:
        words = f"{outcome.made:,} of {number(plan.new, 'instant')} became runs of agent {plain(arguments.agent)}"
        denied = f", {outcome.denied:,} were denied" if outcome.denied else ""
        print(f"{words}, {done:,} were done already{denied}: {plain(chosen.shown())}")
    return said_stop(stopped=pace.cut_short)


async def _chosen(runtime: Runtime, arguments: argparse.Namespace) -> filling.Backfill:
    """The schedule, as it is stored. One that only the code knows of is stored now, as the first `serve` would, but not for
    a plan: that changes nothing.
    """
    now, _ = await runtime.store.next_schedule(runtime.app.name)
    try:
        since, until = (read_past(text, now=now) for text in (arguments.since, arguments.until))
    except ValueError as error:
        raise UsageError(f"backfill: {error}") from None
    if since >= until:
        words = f"--from {arguments.since} ({to_text(since)}) is not before --to {arguments.until} ({to_text(until)})"
        raise UsageError(f"backfill: {words}")
    stored = await runtime.schedules.all()
    if arguments.agent not in {one.agent for one in stored} and arguments.plan:
        stored = filling.declared(runtime.app.name, runtime.app.agents, now=now)
    elif arguments.agent not in {one.agent for one in stored}:
        await runtime.schedules.enter(runtime.agents)
        stored = await runtime.schedules.all()
    schedule = filling.choose(stored, arguments.agent, arguments.schedule)
    return filling.prepare(schedule, since, until, now=now)


def _show_plan(arguments: argparse.Namespace, chosen: filling.Backfill, plan: filling.BackfillPlan) -> int:
    if arguments.json:
        print_json({"agent": arguments.agent, "schedule": chosen.stored.name, **plan.to_json()})
        return 0
    pace = "as fast as workers finish them" if arguments.rate is None else shown_rate(arguments.rate)
    span = f", from {to_text(plan.first)} to {to_text(plan.last)}" if plan.new else ""
    print(f"would do {number(plan.new, 'instant')} {pace}{span}; {plan.done:,} of {plan.instants:,} are done already")
    print(f"  {plain(chosen.shown())}: {plain(chosen.schedule.describe())}")
    if plan.to_come:
        print(
            f"  {number(plan.to_come, 'more instant')} in that span: not settled yet, and left to the schedule itself"
        )
    return 0


async def _tell_if_alone(runtime: Runtime, arguments: argparse.Namespace, plan: filling.BackfillPlan) -> None:
    peers = await runtime.store.peers(runtime.app.name, "")
    if plan.new and not peers.get(arguments.agent):
        say(
            "no worker is alive: all of them are stored now, and wait in front of what comes later; "
            f"start `wakeful worker {arguments.app}` first to have them done behind everything else"
        )
