"""`wakeful replay --events`: stored events for an agent that did not get them."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from wakeful.errors import NotFound, did_you_mean
from wakeful.operations.declared import Declared
from wakeful.operations.feeding import Feeding, FeedPlan, feed_events, plan_feed, read_window
from wakeful.operations.pace import Pace, Progress, shown_rate
from wakeful.readers.reader import Reader
from wakeful.shell.arguments import UsageError, actor_of
from wakeful.shell.carrying import carry_out, number, refuse_many, said_stop
from wakeful.shell.opening import reading
from wakeful.shell.person import Token
from wakeful.shell.terminal import now, plain, print_json, say

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

if TYPE_CHECKING:
    from wakeful.declarations import Declarations


def feed(arguments: argparse.Namespace, token: Token | None) -> int:
    """Hand stored events to an agent. Without an app the agent's runs are of the apps that have the events: any of the store's."""
    refuse_other_choices(arguments)
    app: Declarations | None = arguments.app
    if token is not None and app is not None:
        token.opens([app.name])
    elif token is not None:
        token.opens_all()
    if app is not None:
        Declared(app).refuse_unknown(arguments.agent)
    feeding, plan, agents = asyncio.run(_plan_feed(arguments, None if app is None else app.name))
    if app is None and feeding.agent in asyncio.run(_keyed(arguments)):
        message = f"runs of agent {plain(feeding.agent)} go in order of their key, which its code tells: add --app APP"
        raise UsageError(message)
    if plan.events == 0:
        message = f"no stored event is like that: {feeding.shown()}; see `wakeful events --type {plain(feeding.type)}`"
        raise NotFound(message)
    if app is None and arguments.agent not in agents:
        words = f'no agent "{plain(arguments.agent)}" ever had to do with an event here.{did_you_mean(arguments.agent, agents)}'
        if not (arguments.yes or arguments.plan):
            message = f"{words} If it is new, --app APP checks its name, and --yes does without"
            raise NotFound(message)
        say(f"{words} If it is new, its runs wait for a worker that has it; --app APP checks its name")
    words = f"{number(plan.events, 'event')} ({feeding.shown()}), {plan.had:,} of them agent {plain(feeding.agent)} already had"
    if plan.denied:
        words += f", {plan.denied:,} were denied to it (--denied hands over those too)"
    if arguments.plan:
        if arguments.json:
            shown = f"would hand {number(plan.new, 'event')} to agent {feeding.agent} {shown_rate(arguments.rate)}"
            print_json({"plan": shown, **plan.to_json()})
        else:
            print(f"would hand over {plan.new:,} {shown_rate(arguments.rate)}: {words}")
        return 0
    refuse_many(arguments, plan.new, "events")
    done, stopped = _feed(arguments, app, feeding, plan)
    if arguments.json:
        print_json({"redone": done, "of": plan.new, "already_had": plan.had, "denied": plan.denied, "stopped": stopped})
    else:
        print(f"{done:,} of {plan.new:,} are ready for agent {plain(feeding.agent)}: {words}")
    return said_stop(stopped=stopped)


def refuse_other_choices(arguments: argparse.Namespace) -> None:
    if arguments.agent is None or arguments.since is None:
        missing = "--agent NAME" if arguments.agent is None else "--from TIME"
        message = f"--events needs {missing}, like: wakeful replay --events ticket.created --from 2d --agent triage"
        raise UsageError(message)
    given = {"RUN": arguments.run, "--again": arguments.again, "--error": arguments.error, "--all": arguments.all}
    given["--data"] = arguments.data
    for name, one in given.items():
        if one:
            message = f"--events takes no {name}: it is for events, not for runs"
            raise UsageError(message)


async def _plan_feed(arguments: argparse.Namespace, app: str | None) -> tuple[Feeding, FeedPlan, list[str]]:
    async with reading(arguments.url) as reader:
        try:
            since, until = read_window(arguments.since, arguments.until, now=await reader.time())
            feeding = Feeding(arguments.events, since, until, arguments.agent, app, arguments.denied)
            plan = await plan_feed(reader, feeding)
        except ValueError as error:
            hint = "" if app is not None or "apps" not in str(error) else " with --app APP"
            raise UsageError(f"replay: {error}{hint}") from None
        return feeding, plan, await reader.known_agents()


async def _keyed(arguments: argparse.Namespace) -> list[str]:
    async with reading(arguments.url) as reader:
        return await reader.keyed_agents()


def _feed(
    arguments: argparse.Namespace, app: Declarations | None, feeding: Feeding, plan: FeedPlan
) -> tuple[int, bool]:
    judge = None if app is None else Declared(app).judge(feeding.agent, now=now())
    flow = None if app is None else Declared(app).flow(feeding.agent)

    async def work(store: DatabaseStore, pace: Pace, progress: Progress) -> int:
        return await feed_events(
            store,
            Reader(store.database),
            feeding,
            plan,
            by=actor_of(arguments),
            note=arguments.note,
            judge=judge,
            flow=flow,
            pace=pace,
            progress=progress,
        )

    return carry_out(arguments, work)
