"""Handing stored events to an agent that did not receive them: `wakeful replay --events`, or "events" of `POST /v1/replay`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from wakeful.clock import Microseconds, to_text
from wakeful.errors import NotFound, did_you_mean
from wakeful.operations.declared import judge_by_store
from wakeful.operations.feeding import Feeding, FeedPlan, feed_events, plan_feed, read_window
from wakeful.operations.pace import Pace, Progress, shown_rate
from wakeful.resources.declare import Bulk, Planned
from wakeful.resources.desk import Desk
from wakeful.resources.parameters import Param
from wakeful.resources.refusals import Unfit
from wakeful.resources.run_views import Redone
from wakeful.resources.words import Look, number, plain
from wakeful.stores.guards import read_guards
from wakeful.stores.known import known_agents

A_TIME = "RFC 3339, a date, or an age such as 2h"
NEEDED = "type, from and agent are required"
FOR_EVENTS = "--from and --to are for --events TYPE"

OfType = Annotated[
    str,
    Param(
        "hand stored events of this type, such as ticket.*, to --agent NAME",
        about="type of the stored events; a final * matches any ending",
        flag="--events",
        http="type",
        metavar="TYPE",
        missing=NEEDED,
    ),
]
ToAgent = Annotated[str, Param("the agent that receives the events", metavar="NAME", missing=NEEDED)]
Since = Annotated[
    str,
    Param(
        "with --events: accepted at or after this time, such as 2h",
        about=A_TIME,
        flag="--from",
        http="from",
        metavar="TIME",
        missing=NEEDED,
        elsewhere=FOR_EVENTS,
    ),
]
Before = Annotated[
    str | None,
    Param(
        "with --events: accepted before this time (default: now)",
        about=A_TIME,
        flag="--to",
        metavar="TIME",
        elsewhere=FOR_EVENTS,
    ),
]
Denied = Annotated[
    bool,
    Param(
        "with --events: include events that policy denied to the agent",
        about="include events that policy denied to the agent",
        elsewhere="--denied is for --events TYPE: a denied event has no run yet",
    ),
]


@dataclass(frozen=True, slots=True)
class Work:
    """The events to hand over, and the time for which policy is evaluated."""

    feeding: Feeding
    plan: FeedPlan
    now: Microseconds


async def plan_events(
    desk: Desk, *, events: OfType, agent: ToAgent, since: Since, to: Before = None, denied: Denied = False
) -> Planned:
    """Plan which stored events to hand over. Without an app, the runs belong to the app of the events."""
    app = None if desk.code is None else desk.code.agents.name
    if desk.code is not None:
        desk.code.agents.refuse_unknown(agent)
    present = await desk.reads.time()
    try:
        first, last = read_window(since, to, now=present)
        feeding = Feeding(events, first, last, agent, app, denied)
        plan = await plan_feed(desk.reads, feeding)
    except ValueError as error:
        hint = "" if app is not None or "apps" not in str(error) else " with --app APP"
        raise Unfit(str(error), "from", typed=f"replay: {error}{hint}") from None
    if app is None:
        await refuse_keyed(desk, agent)
    if plan.events == 0:
        see = f"; see `wakeful events --type {plain(events)}`" if desk.by.way == "cli" else ""
        message = f"no stored event matches: {feeding.shown()}{see}"
        raise NotFound(message)
    doubt = await doubt_about(desk, agent) if app is None else None
    had = {"already_had": plan.had, "denied": plan.denied}
    window = {"from": to_text(first), "to": to_text(last)}
    more = had | window if desk.by.way == "http" else {}
    return Planned(plan.new, plan.to_json(), Work(feeding, plan, present), more, last=had, doubt=doubt)


async def refuse_keyed(desk: Desk, agent: str) -> None:
    if any(one == agent for (one,) in await desk.reads.fetch("keyed_agents")):
        message = f"runs of agent {plain(agent)} are ordered by a key, which its code computes: add --app APP"
        raise Unfit(message, "agent", typed=message)


async def doubt_about(desk: Desk, agent: str) -> tuple[str, str] | None:
    """An agent that has never handled an event may be new or misspelt: the messages that ask."""
    known = await known_agents(desk.reads)
    if agent in known:
        return None
    words = f'no agent "{plain(agent)}" has ever handled an event here.{did_you_mean(agent, known)}'
    return (
        f"{words} If it is new, check its name with --app APP, or skip the check with --yes",
        f"{words} If it is new, its runs wait for a worker that has it; check its name with --app APP",
    )


async def feed_slice(desk: Desk, planned: Planned, most: int, pace: Pace, progress: Progress) -> int:
    work: Work = planned.work
    agents = None if desk.code is None else desk.code.agents
    database, agent = desk.reads.database, work.feeding.agent
    judge = None
    if agents is not None:
        judge = await agents.judge(agent, database, now=work.now)
    elif work.plan.apps:
        judge = await judge_by_store(next(iter(work.plan.apps)), agent, database, now=work.now)
    return await feed_events(
        desk.store,
        desk.reads,
        work.feeding,
        work.plan,
        by=desk.by,
        note=desk.note,
        judge=judge,
        flow=None if agents is None else agents.flow(work.feeding.agent),
        most=most,
        pace=pace,
        progress=progress,
    )


async def apps_of(desk: Desk, _: Planned) -> list[str]:
    """The apps whose token is needed. Without an app, all guarded apps: the events may belong to any of them."""
    return [app for app, _ in await read_guards(desk.reads)] if desk.code is None else [desk.code.agents.name]


def would(planned: Planned, given: Mapping[str, Any]) -> str:
    agent = planned.work.feeding.agent
    return f"would hand {number(planned.count, 'event')} to agent {agent} {shown_rate(given['rate'])}"


def would_events(planned: Planned, given: Mapping[str, Any], _: Look) -> list[str]:
    return [f"would hand over {planned.count:,} {shown_rate(given['rate'])}: {counted(planned)}"]


def said_done(done: int, planned: Planned, _: Look) -> list[str]:
    agent = plain(planned.work.feeding.agent)
    return [f"{done:,} of {planned.count:,} are ready for agent {agent}: {counted(planned)}"]


def counted(planned: Planned) -> str:
    feeding, plan = planned.work.feeding, planned.work.plan
    had = f"agent {plain(feeding.agent)} already had {plan.had:,} of them"
    words = f"{number(plan.events, 'event')} ({feeding.shown()}), {had}"
    return words + (f", {plan.denied:,} were denied to it (--denied includes them)" if plan.denied else "")


FEEDING = Bulk(
    plan=plan_events,
    slice=feed_slice,
    some=("events",),
    many="events",
    done="redone",
    none=None,
    apps=apps_of,
    words=would,
    planned=would_events,
    says=said_done,
    view=Redone,
    inside="events",
    things="stored events",
    example="wakeful replay --events ticket.created --from 2d --agent triage",
)
