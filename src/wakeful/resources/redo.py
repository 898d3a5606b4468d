"""Redoing: what failed is done again or given up, after a look at what that would mean. Runs and dead letters share this.

replay    one run goes on; many dead runs go on, at a rate; stored events are handed to an agent that did not get them
discard   a dead run is given up for good, or many are
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
SEE = "GET /v1/dead lists what there is"

# one run

Again = Annotated[
    bool,
    Param(
        "also a run that went well, as a new one of its family",
        about="also a run that is done, as a new one of its family",
    ),
]
Data = Annotated[
    Any,
    Param(
        "with one run: this instead of the event's data; JSON or @file",
        about="handed to the handler instead of the event's own data",
        metavar="JSON",
        alone="--data is for one RUN: these have different payloads",
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
        raise Refused(f"run {run['id']} {words}", kind="not-over", title="This run cannot be redone so")
    return RedoneRun(run=done.run, was=done.was, confirmed_effects=sum(confirmed_of(run).values()))


def stored_data(desk: Desk, run: RunDetail, data: Any) -> str | None:
    """Data that a person wrote instead of the event's, as it is stored. Refused where the code is known, and it does not fit."""
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
    """Which actions a replay would find confirmed and not repeat, and how often."""
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
    return f"{plan['plan']}; {said_confirmed(plan['confirmed_actions'])} would be found and not repeated"


def replayed(done: RedoneRun, run: RunDetail, given: Mapping[str, Any]) -> Printed:
    confirmed = confirmed_of(run)
    found = f"; {said_confirmed(confirmed)} will not be repeated" if confirmed else ""
    yield f"run {done['run']}: ready again, was {done['was']}{found}"
    if "data" in given and given["app"] is None:
        later = f"whether the data fits agent {run['agent']} is checked when the run starts"
        yield Aside(f"{later}; --app APP checks it at once")


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
    Param("all dead letters whose error contains this", about="those whose error contains this", metavar="TEXT"),
]
Everything = Annotated[bool, Param("all dead letters", about="all of them", http="all", flag="--all")]


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
        # Handed back, so that the next slice does not take again what was replayed in this one and has died once more.
        more = {"until": time_text(present if last is None else last)}
        return Planned(len(plan.letters), plan.to_json(), (plan, word), more)
    others = len((await plan_redelivery(desk.reads, choice)).letters)
    also = f"{number(others, 'dead delivery')} like that: `wakeful deliveries {word} --all` is for those"
    if not plan.letters:
        raise NotFound(await no_such(desk, agent, also if others else None))
    said = [f"only runs; there {'is' if others == 1 else 'are'} also {also}"] if others else []
    confirmed = {"confirmed_effects": sum(plan.confirmed.values())}
    return Planned(len(plan.letters), plan.to_json(), (plan, word), last=confirmed, said=said)


async def no_such(desk: Desk, agent: str | None, also: str | None) -> str:
    known = [] if agent is None else await known_agents(desk.reads)
    if agent is not None and agent not in known:
        guess = did_you_mean(agent, known)
        return f'no agent "{plain(agent)}" ever had to do with an event here.{guess} See `wakeful dead list`'
    return f"no dead run is like that, but {also}" if also else "no dead letter is like that: see `wakeful dead list`"


async def redo_slice(desk: Desk, planned: Planned, most: int, pace: Pace, progress: Progress) -> int:
    """The oldest first."""
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
    return [f"{would(planned, given)}; {found} would be found and not repeated"]


def said_done(done: int, planned: Planned, _: Look) -> list[str]:
    became = "discarded" if planned.work[1] == "discard" else f"{'is' if done == 1 else 'are'} ready again"
    return [f"{done:,} of {number(planned.count, 'dead letter')} {became}"]


def also_deliveries(plan: Any) -> Bulk:
    """Dead deliveries, over HTTP beside dead runs; a shell has `wakeful deliveries` for them."""
    return copied(deliveries.many(plan), inside="deliveries", things="dead deliveries", in_shell=False)


REPLAY = Bulk(
    plan=plan_replays,
    slice=redo_slice,
    some=("agent", "error", "everything"),
    many="dead letters",
    done="redone",
    none=lambda _: f"none of the dead runs is like that: {SEE}",
    apps=apps_of,
    before=groups_of,
    words=would,
    planned=would_many,
    says=said_done,
    both=Redone,
    which="which ones? Give a RUN, --agent NAME, --error TEXT or --all",
    beside_key=True,
    things="dead runs",
    http="POST /v1/replay",
    operation="replay",
    summary="Replay many dead letters, or hand stored events to an agent: up to 1,000 in one request",
    others=(also_deliveries(deliveries.plan_replays), FEEDING),
)
DISCARD = copied(
    REPLAY,
    plan=plan_discards,
    http="POST /v1/discard",
    operation="discard",
    summary="Give up on many dead letters for good: up to 1,000 in one request",
    others=(also_deliveries(deliveries.plan_discards),),
)
