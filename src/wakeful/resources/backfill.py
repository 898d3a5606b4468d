"""Backfill: run past occurrences of a schedule. They are counted first, then queued behind all other work."""

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
    """The plan of a backfill."""

    agent: str
    schedule: str
    instants: Annotated[Count, About("Past occurrences in the span")]
    done: Annotated[Count, About("Of these, already done")]
    new: Annotated[Count, About("Of these, to be done")]
    first: Annotated[MomentOrNone, About("First occurrence to be done")]
    last: MomentOrNone
    to_come: Annotated[Count, About("Occurrences that the schedule has not decided yet and will handle itself")]


class BackfillDone(TypedDict):
    """The result of a backfill."""

    agent: str
    schedule: str
    made: Annotated[Count, About("Occurrences that became runs")]
    of: Annotated[Count, About("Occurrences to be done")]
    done: Annotated[Count, About("Occurrences that were already done")]
    denied: Annotated[Count, About("Occurrences whose run policy denied")]
    stopped: Annotated[
        bool, About("It was stopped or reached the time limit of a request: repeat the request to continue")
    ]


Agent = Annotated[str, Param("AGENT: the agent of the schedule", positional=True, metavar="AGENT")]
Since = Annotated[
    str, Param("first time to include, such as yesterday or 30d", flag="--from", http="from", metavar="TIME")
]
Until = Annotated[str, Param("end of the span, not included (default: now)", flag="--to", http="to", metavar="TIME")]
Which = Annotated[str | None, Param("name of the schedule, if the agent has several", metavar="NAME")]


async def backfill(
    desk: Desk, *, agent: Agent, since: Since, until: Until = "now", schedule: Which = None
) -> BackfillDone:
    chosen = await chosen_by(desk, agent, since, until, schedule)
    store = desk.database_store
    plan = await filling.plan_backfill(store, chosen)
    course = desk.course or Course(Pace())
    if plan.new > filling.MANY and not course.yes:
        many = f"{number(plan.new, 'occurrence')} are more than {filling.MANY:,}"
        raise Refused(
            f'{many}: check with "plan": true, then add "yes": true to run all of them',
            kind="too-many",
            title="Too many without confirmation",
            typed=f"{many}: check with --plan, then add --yes to run all of them",
        )
    if plan.new and not (await peers_of(store.database, chosen.stored.app, "")).get(agent):
        desk.remark(
            "no worker is alive: all of them are queued now, ahead of later events; "
            f"start `wakeful worker {desk.app.named}` first to run them behind all other work"
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
    told.saying(f"{words}, {done:,} were already done{denied}: {plain(chosen.shown())}")
    return cast("BackfillDone", told)


async def plan(desk: Desk, *, agent: Agent, since: Since, until: Until = "now", schedule: Which = None) -> BackfillPlan:
    chosen = await chosen_by(desk, agent, since, until, schedule, only_planned=True)
    store = desk.database_store
    counted = await filling.plan_backfill(store, chosen)
    rate = None if desk.course is None else desk.course.rate
    pace = "as fast as workers finish them" if rate is None else shown_rate(rate)
    span = f", from {to_text(counted.first)} to {to_text(counted.last)}" if counted.new else ""
    lines = [
        f"would run {number(counted.new, 'occurrence')} {pace}{span}; {counted.done:,} of {counted.occurrences:,} are already done",
        f"  {plain(chosen.shown())}: {plain(chosen.schedule.describe())}",
    ]
    if counted.to_come:
        coming = number(counted.to_come, "more occurrence")
        lines.append(f"  {coming} in that span: not decided yet, left to the schedule itself")
    told = Worded(agent=agent, schedule=chosen.stored.name, **counted.to_json())
    return cast("BackfillPlan", told.saying(*lines))


async def chosen_by(
    desk: Desk, agent: str, since: str, until: str, name: str | None, *, only_planned: bool = False
) -> filling.Backfill:
    """The stored schedule. A schedule that exists only in code is stored now, as the first `serve` would do; a plan stores
    nothing.
    """
    side = desk.app
    store = desk.database_store
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
    summary="run past occurrences of a schedule; a plan counts them first",
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
    example={"agent": "report", "from": "30d"},
    more="Occurrences that are already done are skipped: repeat the command to continue after a stop.",
)
