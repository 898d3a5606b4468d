"""Replaying and discarding failed work, with a plan first. Runs and dead letters share this.

replay    resume one run, resume many dead runs at a rate, or hand stored events to an agent that did not receive them
discard   give up one dead run or many for good
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace as copied
from typing import Annotated, Any

from wakeful.clock import to_text as time_text
from wakeful.errors import NotFound, Persistent, did_you_mean
from wakeful.operations.pace import Pace, Progress, shown_rate
from wakeful.operations.redelivery import plan_redelivery
from wakeful.operations.redo import Choice, Plan, plan_redo, redo_letters
from wakeful.resources import deliveries
from wakeful.resources.declare import Bulk, Planned, Printed
from wakeful.resources.desk import Desk
from wakeful.resources.feeding import FEEDING
from wakeful.resources.parameters import UNSET, Param
from wakeful.resources.refusals import Refused
from wakeful.resources.run_views import Redone, RedoneRun, RunDetail, RunRedoPlan
from wakeful.resources.words import Aside, Look, number, plain
from wakeful.stores.known import apps_of_agent, known_agents
from wakeful.stores.verbs.redo import RedoRun
from wakeful.values import to_text

CHECKS = "check against the agents of this app"
SEE = "GET /v1/dead lists all dead letters"

# one run

Again = Annotated[
    bool,
    Param(
        "repeat a run even if it succeeded, as a new run of its family",
        about="repeat a run even if it is done, as a new run of its family",
    ),
]
Data = Annotated[
    Any,
    Param(
        "with one run: data instead of the event's own; JSON or @file",
        about="data for the handler, instead of the event's own",
        metavar="JSON",
        alone="--data is for one RUN: many runs have different payloads",
    ),
]


async def replay(desk: Desk, run: RunDetail, *, again: Again = False, data: Data = UNSET) -> RedoneRun | None:
    return await redo(desk, run, again=again, data=stored_data(desk, run, data))


async def discard(desk: Desk, run: RunDetail) -> RedoneRun | None:
    return await redo(desk, run, discard=True)


async def redo(
    desk: Desk, run: RunDetail, *, again: bool = False, data: str | None = None, discard: bool = False
) -> RedoneRun | None:
    request = RedoRun(run["id"], data=data, again=again, discard=discard, by=desk.by, note=desk.note)
    done = await desk.store.do(request)
    if done is None:
        return None
    if done.refused is not None:
        words = done.refused if desk.by.way == "cli" else done.refused.replace("--again", '"again": true')
        raise Refused(f"run {run['id']} {words}", kind="not-over", title="This run cannot be replayed or discarded now")
    return RedoneRun(run=done.run, was=done.was, confirmed_effects=sum(confirmed_of(run).values()))


def stored_data(desk: Desk, run: RunDetail, data: Any) -> str | None:
    """Edited data as it is stored. Raises Refused if the agent's code is loaded here and the data does not fit."""
    if data is UNSET:
        return None
    try:
        if desk.code is not None and desk.by.way == "cli":
            desk.code.agents.refuse_unknown(run["agent"])
        if desk.code is not None and (desk.by.way == "cli" or desk.code.agents.name == run["app"]):
            desk.code.agents.refuse_misfit(run["agent"], data)
        return to_text(data, what="--data" if desk.by.way == "cli" else "the edited data")
    except Persistent as error:
        title = "The edited data does not fit"
        raise Refused(
            str(error), kind="data-does-not-fit", title=title, status=422, field="data", wrong_call=False
        ) from None


def confirmed_of(run: RunDetail) -> Counter[str]:
    """Confirmed effects that a replay would reuse, counted by action."""
    return Counter(one["action"] for one in run["effects"] if one["state"] == "confirmed" and not one.get("undoes"))


async def plan_replay(desk: Desk, run: RunDetail, *, again: Again = False, data: Data = UNSET) -> RunRedoPlan:
    del desk, again, data
    return planned_one("replay", run)


async def plan_discard(desk: Desk, run: RunDetail) -> RunRedoPlan:
    del desk
    return planned_one("discard", run)


def planned_one(word: str, run: RunDetail) -> RunRedoPlan:
    confirmed = confirmed_of(run)
    words = f"would {word} run {run['id']} ({run['agent']}, {run['state']})"
    return RunRedoPlan(
        plan=words, count=1, confirmed_effects=sum(confirmed.values()), confirmed_actions=dict(confirmed)
    )


def would_one(plan: RunRedoPlan) -> str:
    return f"{plan['plan']}; {said_confirmed(plan['confirmed_actions'])} would be reused, not repeated"


def replayed(done: RedoneRun, run: RunDetail, given: Mapping[str, Any]) -> Printed:
    confirmed = confirmed_of(run)
    found = f"; {said_confirmed(confirmed)} will not be repeated" if confirmed else ""
    yield f"run {done['run']}: ready again, was {done['was']}{found}"
    if "data" in given and given["app"] is None:
        later = f"the data is checked against agent {run['agent']} when the run starts"
        yield Aside(f"{later}; --app APP checks it now")


def discarded(done: RedoneRun) -> str:
    return f"run {done['run']}: discarded, was {done['was']}"


def said_confirmed(confirmed: Mapping[str, int]) -> str:
    """3 confirmed effects (charge 2, mail 1)."""
    which = ", ".join(f"{plain(action)} {count:,}" for action, count in confirmed.items())
    return number(sum(confirmed.values()), "confirmed effect") + (f" ({which})" if which else "")


# many

OfAgent = Annotated[
    str | None, Param("all dead letters of this agent", about="dead runs of this agent", metavar="NAME")
]
WithError = Annotated[
    str | None,
    Param(
        "all dead letters whose error contains this text",
        about="dead runs whose error contains this text",
        metavar="TEXT",
    ),
]
Everything = Annotated[bool, Param("all dead letters", about="all dead runs", http="all", flag="--all")]


async def plan_replays(
    desk: Desk,
    *,
    agent: OfAgent = None,
    error: WithError = None,
    everything: Everything = False,
    until: deliveries.Until = None,
) -> Planned:
    del everything
    return await planned_many(desk, "replay", agent, error, until)


async def plan_discards(
    desk: Desk,
    *,
    agent: OfAgent = None,
    error: WithError = None,
    everything: Everything = False,
    until: deliveries.Until = None,
) -> Planned:
    del everything
    return await planned_many(desk, "discard", agent, error, until)


async def planned_many(desk: Desk, word: str, agent: str | None, error: str | None, until: str | None) -> Planned:
    present = await desk.reads.time()
    last = None if until is None else deliveries.past(until, present)
    choice = Choice(agent, error, last)
    plan = await plan_redo(desk.reads, choice)
    if desk.by.way == "http":
        # The client returns this, so that the next slice leaves out runs that were replayed in this one and died again.
        more = {"until": time_text(present if last is None else last)}
        return Planned(len(plan.letters), plan.to_json(), (plan, word), more)
    others = len((await plan_redelivery(desk.reads, choice)).letters)
    also = f"{number(others, 'dead delivery')}: use `wakeful deliveries {word} --all`"
    if not plan.letters:
        raise NotFound(await no_such(desk, agent, also if others else None))
    said = [f"this covers runs only; there {'is' if others == 1 else 'are'} also {also}"] if others else []
    confirmed = {"confirmed_effects": sum(plan.confirmed.values())}
    return Planned(len(plan.letters), plan.to_json(), (plan, word), last=confirmed, said=said)


async def no_such(desk: Desk, agent: str | None, also: str | None) -> str:
    known = [] if agent is None else await known_agents(desk.reads)
    if agent is not None and agent not in known:
        guess = did_you_mean(agent, known)
        return f'no agent "{plain(agent)}" has ever handled an event here.{guess} See `wakeful dead list`'
    return f"no dead run matches, but {also}" if also else "no dead letter matches: see `wakeful dead list`"


async def redo_slice(desk: Desk, planned: Planned, most: int, pace: Pace, progress: Progress) -> int:
    """Replay or discard, oldest first."""
    plan, word = planned.work
    return await redo_letters(
        desk.store,
        plan.letters[-most:],
        by=desk.by,
        note=desk.note,
        discard=word == "discard",
        pace=pace,
        progress=progress,
    )


async def apps_of(desk: Desk, planned: Planned) -> list[str]:
    agents = dict.fromkeys(letter["agent"] for letter in planned.work[0].letters)
    return [app for agent in agents for app in await apps_of_agent(desk.reads, agent)]


def groups_of(planned: Planned, _: Look) -> list[str]:
    plan: Plan = planned.work[0]
    return [f"{len(one.letters):>7,}  {plain(one.name)}  {plain(one.signature)}" for one in plan.groups]


def would(planned: Planned, given: Mapping[str, Any]) -> str:
    return f"would {planned.work[1]} {number(planned.count, 'dead letter')} {shown_rate(given['rate'])}"


def would_many(planned: Planned, given: Mapping[str, Any], _: Look) -> list[str]:
    found = said_confirmed(planned.work[0].confirmed)
    return [f"{would(planned, given)}; {found} would be reused, not repeated"]


def said_done(done: int, planned: Planned, _: Look) -> list[str]:
    became = "discarded" if planned.work[1] == "discard" else f"{'is' if done == 1 else 'are'} ready again"
    return [f"{done:,} of {number(planned.count, 'dead letter')} {became}"]


def also_deliveries(plan: Any) -> Bulk:
    """Dead deliveries beside dead runs, over HTTP only; the command line has `wakeful deliveries` for them."""
    return copied(deliveries.many(plan), inside="deliveries", things="dead deliveries", in_shell=False)


REPLAY = Bulk(
    plan=plan_replays,
    slice=redo_slice,
    some=("agent", "error", "everything"),
    many="dead letters",
    done="redone",
    none=lambda _: f"no dead run matches: {SEE}",
    apps=apps_of,
    before=groups_of,
    words=would,
    planned=would_many,
    says=said_done,
    view=Redone,
    which="no dead letter is selected: give a RUN, --agent NAME, --error TEXT or --all",
    beside_key=True,
    things="dead runs",
    http="POST /v1/replay",
    operation="replay",
    summary="Replay many dead letters, or hand stored events to an agent: up to 1,000 per request",
    others=(also_deliveries(deliveries.plan_replays), FEEDING),
)
DISCARD = copied(
    REPLAY,
    plan=plan_discards,
    http="POST /v1/discard",
    operation="discard",
    summary="Give up many dead letters for good: up to 1,000 per request",
    others=(also_deliveries(deliveries.plan_discards),),
)
