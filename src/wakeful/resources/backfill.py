"""Backfill: occurrences of a schedule that are over, done after all. Counted first, then fed in behind everything else."""

from __future__ import annotations

from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.errors import ConfigError
from wakeful.operations import backfill as filling
from wakeful.operations.pace import Pace, shown_rate
from wakeful.resources.declare import Printed, Verb, Worded
from wakeful.resources.desk import Course, Desk
from wakeful.resources.fields import About, Count, MomentOrNone
from wakeful.resources.parameters import Param
from wakeful.resources.refusals import Refused, Unfit
from wakeful.resources.words import number, plain
from wakeful.stores.verbs.processes import peers_of
from wakeful.stores.verbs.schedules import next_schedule
from wakeful.triggers.past import read_past

TAKES = (
    "backfill takes APP and AGENT, like: wakeful backfill app.py report --from 30d. Without APP, WAKEFUL_APP or an app.py in "
    "this folder is used"
)


class BackfillPlan(TypedDict):
    """What a backfill would do."""

    agent: str
    schedule: str
    instants: Annotated[Count, About("In that span, without those that are to come")]
    done: Annotated[Count, About("Of these, done already")]
    new: Annotated[Count, About("Of these, that would be done")]
    first: Annotated[MomentOrNone, About("Of those that would be done")]
    last: MomentOrNone
    to_come: Annotated[Count, About("Not settled yet, and left to the schedule itself")]


class BackfillDone(TypedDict):
    """What a backfill did."""

    agent: str
    schedule: str
    made: Annotated[Count, About("Occurrences that became runs")]
    of: Annotated[Count, About("Occurrences that were to be done")]
    done: Annotated[Count, About("Occurrences that were done already")]
    denied: Annotated[Count, About("Occurrences of which policy denied the run")]
    stopped: Annotated[bool, About("It was stopped, or the request took long enough: the same once more goes on")]


Agent = Annotated[str, Param("AGENT: the agent whose schedule it is", positional=True, metavar="AGENT")]
Since = Annotated[
    str, Param("occurrences from then on, like yesterday or 30d", flag="--from", http="from", metavar="TIME")
]
Until = Annotated[str, Param("and before then (default now)", flag="--to", http="to", metavar="TIME")]
Which = Annotated[str | None, Param("which one, where the agent has several", metavar="NAME")]


async def backfill(
    desk: Desk, *, agent: Agent, since: Since, until: Until = "now", schedule: Which = None
) -> BackfillDone:
    chosen = await chosen_by(desk, agent, since, until, schedule)
    store: Any = desk.store
    plan = await filling.plan_backfill(store, chosen)
    course = desk.course or Course(Pace())
    if plan.new > filling.MANY and not course.yes:
        many = f"{number(plan.new, 'occurrence')} are more than {filling.MANY:,}"
        raise Refused(
            f'{many}: ask with "plan": true, and add "yes": true if you mean all of them',
            kind="too-many",
            title="That is a great many",
            typed=f"{many}: look at --plan, and add --yes if you mean it",
        )
    if plan.new and not (await peers_of(store.database, chosen.stored.app, "")).get(agent):
        desk.remark(
            "no worker is alive: all of them are stored now, and wait in front of what comes later; "
            f"start `wakeful worker {desk.app.named}` first to have them done behind everything else"
        )
    arrive, by = desk.app.arrival, desk.by
    outcome = await filling.fill(
        store, chosen, plan, arrive, by=by, note=desk.note, pace=course.pace, progress=course.progress
    )
    done = plan.done + outcome.done
    told = Worded(agent=agent, schedule=chosen.stored.name, made=outcome.made, of=plan.new, done=done)
    told |= {"denied": outcome.denied, "stopped": course.pace.cut_short}
    words = f"{outcome.made:,} of {number(plan.new, 'occurrence')} became runs of agent {plain(agent)}"
    denied = f", {outcome.denied:,} were denied" if outcome.denied else ""
    told.saying(f"{words}, {done:,} were done already{denied}: {plain(chosen.shown())}")
    return cast("BackfillDone", told)


async def plan(desk: Desk, *, agent: Agent, since: Since, until: Until = "now", schedule: Which = None) -> BackfillPlan:
    chosen = await chosen_by(desk, agent, since, until, schedule, only_planned=True)
    store: Any = desk.store
    counted = await filling.plan_backfill(store, chosen)
    rate = None if desk.course is None else desk.course.rate
    pace = "as fast as workers finish them" if rate is None else shown_rate(rate)
    span = f", from {to_text(counted.first)} to {to_text(counted.last)}" if counted.new else ""
    lines = [
        f"would do {number(counted.new, 'occurrence')} {pace}{span}; {counted.done:,} of {counted.occurrences:,} are done already",
        f"  {plain(chosen.shown())}: {plain(chosen.schedule.describe())}",
    ]
    if counted.to_come:
        coming = number(counted.to_come, "more occurrence")
        lines.append(f"  {coming} in that span: not settled yet, and left to the schedule itself")
    told = Worded(agent=agent, schedule=chosen.stored.name, **counted.to_json())
    return cast("BackfillPlan", told.saying(*lines))


async def chosen_by(
    desk: Desk, agent: str, since: str, until: str, name: str | None, *, only_planned: bool = False
) -> filling.Backfill:
    """The schedule, as it is stored. One that only the code knows of is stored now, as the first `serve` would, but not for
    a plan: that changes nothing.
    """
    side = desk.app
    store: Any = desk.store
    side.agents.refuse_unknown(agent)
    now, _ = await next_schedule(store.database, side.agents.name)
    first, last = moment_of(since, "from", now), moment_of(until, "to", now)
    if first >= last:
        spans = f"{since} ({to_text(first)})", f"{until} ({to_text(last)})"
        typed = f"backfill: --from {spans[0]} is not before --to {spans[1]}"
        raise Unfit(f"from {spans[0]} is not before to {spans[1]}", "from", typed=typed)
    stored = await side.schedules.all()
    if agent not in {one.agent for one in stored} and only_planned:
        stored = filling.declared(side.agents.name, side.agents.all, now=now)
    elif agent not in {one.agent for one in stored}:
        await side.schedules.enter(side.agents.all)
        stored = await side.schedules.all()
    try:
        return filling.prepare(filling.choose(stored, agent, name), first, last, now=now)
    except ConfigError as error:
        raise Unfit(str(error), "from", typed=str(error)) from None


def moment_of(text: str, name: str, now: int) -> int:
    try:
        return read_past(text, now=now)
    except ValueError as error:
        raise Unfit(f"{name}: {error}", name, typed=f"backfill: {error}") from None


def lines(answer: Any) -> Printed:
    yield from answer.lines


VERB = Verb(
    name="backfill",
    run=backfill,
    plan=plan,
    summary="do occurrences of a schedule that are over, after a count",
    says=lines,
    plans=lines,
    of_one=False,
    http="POST /v1/backfill",
    statuses=("404",),
    needs_app="yes",
    app_first=True,
    without_app=TAKES,
    paced=True,
    usage="[options] [APP] AGENT --from TIME",
    more="Occurrences that are done already are passed over: the same command goes on where it stopped.",
)
