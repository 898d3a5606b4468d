"""Halts: nothing of an app, an agent or an action is claimed, called or delivered until an operator lifts the halt.

A server halts its own app, unless another is named. The command line has no app: `halt all` means every app of the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.errors import NotFound
from wakeful.operations.halting import apps_to_halt, refuse_own
from wakeful.operations.pausing import ALL
from wakeful.resources import older
from wakeful.resources.declare import Alias, Column, Listing, Resource, Verb
from wakeful.resources.desk import NOW, Desk
from wakeful.resources.fields import About, Count, Moment
from wakeful.resources.parameters import OfApp, Param
from wakeful.resources.refusals import Unfit
from wakeful.resources.words import clock_time, number, plain
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.halts import Call, ChangeHalt

MOST_SHOWN = 20


class Halt(TypedDict):
    """An app, an agent or an action that is halted."""

    app: str
    agent: Annotated[str | None, About("null: all agents of the app")]
    action: Annotated[str | None, About("null: all actions, and claims and deliveries too")]
    by: str
    note: str | None
    since: Moment
    parked: Annotated[Count, About("Runs that were stopped before a call, and wait until the halt is lifted")]


class CallUnderWay(TypedDict):
    """A call of an action that had begun before the halt."""

    run: str
    agent: str
    action: str
    effect: str
    since: Annotated[str, About("When the call was begun")]


class LaneUnderWay(TypedDict):
    """A channel to which a process is delivering."""

    channel: str
    most: Annotated[Count, About("How many deliveries may have been taken before the halt, at most")]


class HaltMade(TypedDict):
    """What was halted, and what had begun before: these calls and deliveries finish."""

    app: str
    agent: str | None
    action: str | None
    was_halted: bool
    calls: list[CallUnderWay]
    deliveries: list[LaneUnderWay]
    cancelled: Annotated[
        list[str], About("With cancel: the runs of these calls, which were asked to stop", example=["22290ae6d7"])
    ]


class HaltLifted(TypedDict):
    """What was lifted."""

    app: str
    agent: str | None
    action: str | None
    was_halted: bool
    ready: Annotated[Count, About("Parked runs that are ready again")]


class HaltPlan(TypedDict):
    """What a halt would stop, and what is under way now."""

    halts: list[HaltMade]


class HaltsMade(TypedDict):
    """The answer of `wakeful halt`."""

    halts: list[HaltMade]


class HaltsLifted(TypedDict):
    """The answer of `wakeful halt --lift`: what was lifted, and what is still halted."""

    lifted: list[HaltLifted]
    halts: list[Halt]


async def halts(desk: Desk, *, app: OfApp = None) -> list[Halt]:
    return [one for one in await desk.reads.rows(Halt, "list_halts") if app in {None, one["app"]}]


# parameters

Agent = Annotated[str | None, Param("an agent, or all", about="the agent", metavar="AGENT|all", positional=True)]
Action = Annotated[
    str | None,
    Param("an action, instead of an agent: only its effects are stopped", about="the action", metavar="NAME"),
]
Everything = Annotated[bool, Param("all of the app, instead of an agent or an action", http="all", http_only=True)]
App = Annotated[
    str | None,
    Param(
        "name of the app, if the store has several",
        about="name of the app (default: the app of this server)",
        flag="--of",
        metavar="NAME",
    ),
]
Cancel = Annotated[
    bool,
    Param(
        "also cancel the runs of calls under way: the calls finish, nothing more begins, and their effects are undone"
    ),
]
WHICH = 'give "agent", "action", or "all": true'


# over HTTP


async def halt(
    desk: Desk,
    *,
    agent: Agent = None,
    action: Action = None,
    everything: Everything = False,
    app: App = None,
    cancel: Cancel = False,
) -> HaltMade:
    meant = await app_meant(desk, agent, action, app, everything=everything)
    return await make(desk, meant, agent or ALL, action or ALL, cancel=cancel)


async def lift(
    desk: Desk, *, agent: Agent = None, action: Action = None, everything: Everything = False, app: App = None
) -> HaltLifted:
    meant = await app_meant(desk, agent, action, app, everything=everything, lifting=True)
    return await end(desk, meant, agent or ALL, action or ALL)


async def plan(
    desk: Desk,
    *,
    agent: Agent = None,
    action: Action = None,
    everything: Everything = False,
    app: App = None,
    cancel: Cancel = False,
) -> HaltPlan:
    del cancel
    if desk.by.way == "cli":
        apps = await apps_to_halt(desk.reads, *named(agent, action), app)
    else:
        apps = [await app_meant(desk, agent, action, app, everything=everything)]
    place = named(agent, action) if desk.by.way == "cli" else (agent or ALL, action or ALL)
    present = {(one["app"], one["agent"] or ALL, one["action"] or ALL) for one in await halts(desk)}
    found = []
    for one in apps:
        calls = [Call(*row) for row in await desk.reads.fetch("calls_under_way", one, *place)]
        lanes = await desk.reads.fetch("deliveries_under_way", NOW, one, place[0]) if place[1] == ALL else []
        was = (one, *place) in present
        found.append(made(one, *place, was=was, calls=calls, lanes={row[0]: row[1] for row in lanes}))
    return HaltPlan(halts=found)


async def app_meant(
    desk: Desk, agent: str | None, action: str | None, app: str | None, *, everything: bool, lifting: bool = False
) -> str:
    """The app that is meant. An agent or action of the server's app must be in its code or in the store, one of another app in the
    store. What is halted can be lifted in any case.
    """
    if [agent is not None, action is not None, everything].count(True) != 1:
        raise Unfit(WHICH, "agent", typed=WHICH)
    own = desk.app.agents
    meant = app or str(own.name)
    if lifting and (meant, agent, action) in [(one["app"], one["agent"], one["action"]) for one in await halts(desk)]:
        return meant
    if agent is not None and meant == own.name:
        refuse_own(agent)
        own.refuse_unknown(agent)
    elif agent is not None or (action is not None and (meant != own.name or not own.declares(action))):
        await apps_to_halt(desk.reads, agent or ALL, action or ALL, meant)
    return meant


# on the command line


async def halt_here(
    desk: Desk, *, agent: str | None = None, action: str | None = None, app: str | None = None, cancel: bool = False
) -> HaltsMade:
    place = named(agent, action)
    apps = await apps_to_halt(desk.reads, *place, app)
    return HaltsMade(halts=[await make(desk, one, *place, cancel=cancel) for one in apps])


async def lift_here(
    desk: Desk, *, agent: str | None = None, action: str | None = None, app: str | None = None
) -> HaltsLifted:
    place = named(agent, action)
    apps = await halted_apps(desk, *place, app)
    lifted = [await end(desk, one, *place) for one in apps]
    return HaltsLifted(lifted=lifted, halts=await halts(desk))


def named(agent: str | None, action: str | None) -> tuple[str, str]:
    if (agent is None) == (action is None):
        words = "halt takes an AGENT, all, or --action NAME, like: wakeful halt triage"
        raise Unfit(words, "agent", typed=words)
    return (ALL if agent in {None, "all"} else str(agent)), action or ALL


async def halted_apps(desk: Desk, agent: str, action: str, app: str | None) -> list[str]:
    """The apps in which this is halted. Raises NotFound if there is none."""
    present = await halts(desk)
    place = (agent or None, action or None)
    found = [one["app"] for one in present if (one["agent"], one["action"]) == place and app in {None, one["app"]}]
    if not found:
        raise NotFound(not_halted(present, agent, action, app))
    return found


def not_halted(present: Sequence[Halt], agent: str, action: str, app: str | None) -> str:
    there = [words_of(one) for one in present if app in {None, one["app"]}]
    what = f"action {plain(action)}" if action else f"agent {plain(agent)}" if agent else "no app"
    said = f"{what} is {'' if what == 'no app' else 'not '}halted{' as a whole' if what == 'no app' else ''}"
    return said + (f"; halted: {', '.join(there)}" if there else "; nothing is halted")


async def lifted_apps(
    desk: Desk, *, agent: str | None = None, action: str | None = None, everything: bool = False, app: str | None = None
) -> list[str]:
    """The apps whose token is needed."""
    if desk.by.way == "cli":
        return await halted_apps(desk, *named(agent, action), app)
    return [await app_meant(desk, agent, action, app, everything=everything, lifting=True)]


# changes


async def make(desk: Desk, app: str, agent: str, action: str, *, cancel: bool) -> HaltMade:
    done = await desk.store.do(ChangeHalt(app, agent, action, by=desk.by, note=desk.note))
    answer = made(app, agent, action, was=done.was is not None, calls=done.calls, lanes=done.deliveries)
    if cancel:
        for run in dict.fromkeys(one.run for one in done.calls):
            asked = await desk.store.do(CancelRun(run, by=desk.by, note=desk.note))
            if asked is not None and asked.refused is None:
                answer["cancelled"].append(run)
    return answer


def made(app: str, agent: str, action: str, *, was: bool, calls: Sequence[Call], lanes: Mapping[str, int]) -> HaltMade:
    return HaltMade(
        app=app,
        agent=agent or None,
        action=action or None,
        was_halted=was,
        calls=[
            CallUnderWay(
                run=one.run, agent=one.agent, action=one.action, effect=one.effect, since=to_text(one.since) or ""
            )
            for one in calls
        ],
        deliveries=[LaneUnderWay(channel=channel, most=most) for channel, most in sorted(lanes.items())],
        cancelled=[],
    )


async def end(desk: Desk, app: str, agent: str, action: str) -> HaltLifted:
    done = await desk.store.do(ChangeHalt(app, agent, action, halted=False, by=desk.by, note=desk.note))
    return HaltLifted(
        app=app, agent=agent or None, action=action or None, was_halted=done.was is not None, ready=done.came_back
    )


# messages


def words_of(one: Mapping[str, Any]) -> str:
    app = f"app {plain(one['app'])}"
    if one["action"]:
        return f"action {plain(one['action'])} ({app})"
    return f"agent {plain(one['agent'])} ({app})" if one["agent"] else f"all of {app}"


def typed(one: Mapping[str, Any]) -> str:
    """The arguments that name it on the command line."""
    return f"--action {plain(one['action'])}" if one["action"] else plain(one["agent"] or "all")


def is_halted(done: HaltsMade, given: Mapping[str, Any]) -> list[str]:
    said = []
    for one in done["halts"]:
        stops = "is called or retried" if one["action"] else "is claimed, called, retried or delivered"
        said.append(
            f"{words_of(one)} was already halted"
            if one["was_halted"]
            else f"{words_of(one)} is halted: nothing of it {stops} any more. Lift with `wakeful halt {typed(one)} --lift`"
        )
        said += under_way(one)
        if given.get("cancel"):
            said.append(
                f"{number(len(one['cancelled']), 'run')} to be cancelled: the calls finish, nothing more begins, and the effects are undone"
            )
        elif one["calls"]:
            said.append("these calls finish, and their runs are parked at the next one; --cancel cancels the runs")
    return said


def would_halt(done: HaltPlan) -> list[str]:
    said = []
    for one in done["halts"]:
        said.append(f"{words_of(one)} {'is already' if one['was_halted'] else 'would be'} halted")
        said += under_way(one)
    return said


def under_way(one: HaltMade) -> list[str]:
    calls, lanes = one["calls"], one["deliveries"]
    if not calls and not lanes:
        return ["no call is under way"]
    said = [f"{number(len(calls), 'call')} under way:"] if calls else []
    said += [
        f"  {plain(call['action'])} of run {call['run']} (agent {plain(call['agent'])}), since {clock_time(call['since'])}"
        for call in calls[:MOST_SHOWN]
    ]
    said += [f"  and {len(calls) - MOST_SHOWN:,} more"] if len(calls) > MOST_SHOWN else []
    said += [
        f"  channel {plain(lane['channel'])}: up to {number(lane['most'], 'delivery')} on the way" for lane in lanes
    ]
    return said


def is_lifted(done: HaltsLifted) -> list[str]:
    said = [
        f"{words_of(one)} is no longer halted"
        + (f": {number(one['ready'], 'run')} ready again" if one["ready"] else "")
        for one in done["lifted"]
    ]
    return [*said, *(f"still halted: {words_of(one)}" for one in done["halts"])]


RESOURCE = Resource(
    noun="halt",
    plural="halts",
    view=Halt,
    key="agent",
    example="triage",
    state=None,
    listing=Listing(
        read=halts,
        summary="list apps, agents and actions that are halted",
        none="nothing is halted",
        columns=(
            Column("app"),
            Column("halted", "agent", show=lambda one, _: halted_cell(one)),
            Column("parked"),
            Column("since"),
            Column("by"),
            Column("note", flexible=True),
        ),
    ),
    verbs=(
        Verb(
            "halt",
            halt,
            "halt an agent, an action or all: nothing of it is claimed, called or delivered",
            says=is_halted,
            of_one=False,
            plan=plan,
            plans=would_halt,
            http="POST ",
            statuses=("404",),
            in_shell=halt_here,
            asides=older.warns(older.HALTS_SINCE, "halts"),
            danger="some",
            example={"agent": "triage", "note": "wrong prices"},
            more="Calls under way finish. Wakeful's own agents, which send alarms, are never halted.",
        ),
        Verb(
            "lift",
            lift,
            "lift a halt: parked runs are ready again",
            says=is_lifted,
            of_one=False,
            http="DELETE ",
            statuses=("404",),
            guarded="lift a halt",
            apps=lifted_apps,
            in_shell=lift_here,
            example={"agent": "triage"},
            more="What was halted by name is lifted by name: `wakeful halts` lists what is halted.",
        ),
    ),
)
ALIASES = {
    "halt": Alias(
        "halts", "halt", without_key="list", or_option=("--action",), instead=(("--lift", "lift", "lift the halt"),)
    )
}


def halted_cell(one: Halt) -> str:
    return f"action {plain(one['action'])}" if one["action"] else plain(one["agent"] or "all")
