"""Pauses: no more runs of an agent or an app are claimed until an operator resumes it.

A server pauses agents of its own app, unless another is named. The command line has no app: `pause all` means every app of the
store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.errors import NotFound
from wakeful.operations.pausing import ALL, apps_to_change
from wakeful.rate import Rate
from wakeful.resources.declare import Alias, Column, Listing, Resource, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Flag, Moment
from wakeful.resources.parameters import NEEDED, OfApp, Param
from wakeful.resources.refusals import Unfit
from wakeful.resources.words import plain
from wakeful.stores.verbs.pauses import ChangePause


class Pause(TypedDict):
    """An agent or an app that is paused, or resuming at a limited rate."""

    app: str
    agent: Annotated[str | None, About("null: all agents of the app")]
    paused: Annotated[Flag, About("false: resuming at its rate")]
    rate: str | None
    by: str
    note: str | None
    since: Moment


class ChangedPause(TypedDict):
    """What was paused or resumed, and its state before."""

    app: str
    agent: str | None
    paused: bool
    was_paused: bool


class WasPaused(TypedDict):
    """One pause that a command changed, and its state before."""

    app: str
    agent: str | None
    was_paused: bool


class PausedHere(TypedDict):
    """The answer of `wakeful pause`."""

    paused: list[WasPaused]


class ResumedHere(TypedDict):
    """The answer of `wakeful resume`: what was resumed, and what is still paused or limited."""

    resumed: list[WasPaused]
    pauses: list[Pause]


async def pauses(desk: Desk, *, app: OfApp = None) -> list[Pause]:
    return [one for one in await desk.reads.rows(Pause, "list_pauses") if app in {None, one["app"]}]


# over HTTP

Agent = Annotated[
    str | None, Param("an agent, or all", about="the agent", metavar="AGENT|all", positional=True, in_shell=NEEDED)
]
Everything = Annotated[bool, Param("all agents of the app, instead of one", http="all", http_only=True)]
App = Annotated[
    str | None,
    Param(
        "name of the app, if the store has several",
        about="name of the app (default: the app of this server)",
        flag="--of",
        metavar="NAME",
    ),
]
AtRate = Annotated[
    str | None,
    Param(
        "start at most this many runs per time, such as 10/s, until the backlog is done (default: unlimited)",
        about="rate limit until the backlog is done, such as 10/s (default: unlimited)",
        metavar="RATE",
    ),
]


async def pause(desk: Desk, *, agent: Agent = None, everything: Everything = False, app: App = None) -> ChangedPause:
    return await change_one(desk, await app_meant(desk, agent, app, everything=everything), agent, paused=True)


async def resume(
    desk: Desk, *, agent: Agent = None, everything: Everything = False, app: App = None, rate: AtRate = None
) -> ChangedPause:
    meant = await app_meant(desk, agent, app, everything=everything)
    return await change_one(desk, meant, agent, paused=False, rate=rate)


async def app_meant(desk: Desk, agent: str | None, app: str | None, *, everything: bool) -> str:
    """The app and agent that are meant. An agent of the server's app must be in its code, one of another app in the store."""
    if (agent is None) != everything:
        words = 'give "agent", or "all": true'
        raise Unfit(words, "agent", typed=words)
    own = desk.app.agents
    if agent is not None and app in {None, own.name}:
        own.refuse_unknown(agent)
    elif agent is not None:
        await apps_to_change(desk.reads, agent, app)
    return app or str(own.name)


async def change_one(desk: Desk, app: str, agent: str | None, *, paused: bool, rate: str | None = None) -> ChangedPause:
    refuse_no_rate(rate)
    was = await desk.store.do(ChangePause(app, agent or ALL, paused, rate=rate, by=desk.by, note=desk.note))
    return ChangedPause(app=app, agent=agent, paused=paused, was_paused=was.paused)


async def resumed_apps(
    desk: Desk, *, agent: str | None = None, everything: bool = False, app: str | None = None, rate: str | None = None
) -> list[str]:
    """The apps whose token is needed."""
    refuse_no_rate(rate)
    if desk.by.way == "cli":
        return await held_up(desk, named(agent), app)
    return [await app_meant(desk, agent, app, everything=everything)]


def refuse_no_rate(rate: str | None) -> None:
    try:
        if rate is not None:
            Rate.read(rate)
    except ValueError as error:
        raise Unfit(str(error), "rate", typed=f"resume: --rate: {error}") from None


# on the command line


async def pause_here(desk: Desk, *, agent: str, app: str | None = None) -> PausedHere:
    apps = await apps_to_change(desk.reads, named(agent), app)
    return PausedHere(paused=[await change_here(desk, one, agent, paused=True) for one in apps])


async def resume_here(desk: Desk, *, agent: str, app: str | None = None, rate: str | None = None) -> ResumedHere:
    apps = await held_up(desk, named(agent), app)
    changed = [await change_here(desk, one, agent, paused=False, rate=rate) for one in apps]
    return ResumedHere(resumed=changed, pauses=await pauses(desk))


async def change_here(desk: Desk, app: str, agent: str, *, paused: bool, rate: str | None = None) -> WasPaused:
    done = await change_one(desk, app, named(agent) or None, paused=paused, rate=rate)
    return WasPaused(app=app, agent=done["agent"], was_paused=done["was_paused"])


def named(agent: str | None) -> str:
    return ALL if agent in {None, "all"} else str(agent)


async def held_up(desk: Desk, agent: str, app: str | None) -> list[str]:
    """Of the given apps, those in which the agent is paused or rate-limited. Raises NotFound if there is none."""
    meant, present = await apps_to_change(desk.reads, agent, app), await pauses(desk)
    found = [one for one in meant if any(p["app"] == one and (p["agent"] or ALL) == agent for p in present)]
    if not found:
        raise NotFound(not_paused(present, meant, agent))
    return found


def not_paused(present: list[Pause], apps: list[str], agent: str) -> str:
    if agent == ALL:
        names = ", ".join(
            sorted({plain(one["agent"]) for one in present if one["paused"] and one["agent"] is not None})
        )
        return "no app is paused as a whole" + (f"; {names} by name: use `wakeful resume AGENT`" if names else "")
    whole = any(one["paused"] and one["agent"] is None and one["app"] in apps for one in present)
    return f"agent {plain(agent)} is not paused" + (", but its whole app is: use `wakeful resume all`" if whole else "")


# messages


def called(one: WasPaused | Pause) -> str:
    return (
        f"agent {plain(one['agent'])} (app {plain(one['app'])})" if one["agent"] else f"all of app {plain(one['app'])}"
    )


def is_paused(done: PausedHere) -> list[str]:
    return [
        f"{called(one)} was already paused"
        if one["was_paused"]
        else f"{called(one)} is paused: runs in flight finish, no more are claimed. "
        f"Resume with `wakeful resume {plain(one['agent'] or 'all')}`"
        for one in done["paused"]
    ]


def goes_on(done: ResumedHere, given: Mapping[str, Any]) -> list[str]:
    rate = given.get("rate")
    slowly = f", at most {Rate.read(rate)} until the backlog is done" if rate else ""
    still = [f"still paused: {called(one)}" for one in done["pauses"] if one["paused"]]
    return [*(f"{called(one)} is resumed{slowly}" for one in done["resumed"]), *still]


RESOURCE = Resource(
    noun="pause",
    plural="pauses",
    view=Pause,
    key="agent",
    example="triage",
    state=None,
    listing=Listing(
        read=pauses,
        summary="list agents and apps that are paused or resuming at a limited rate",
        none="nothing is paused",
        columns=(
            Column("app"),
            Column("agent", none="all"),
            Column("is", show=lambda one, _: "paused" if one["paused"] else f"resuming at {plain(one['rate'])}"),
            Column("since"),
            Column("by"),
            Column("note", flexible=True),
        ),
    ),
    verbs=(
        Verb(
            "pause",
            pause,
            "stop claiming runs of an agent; runs in flight finish",
            says=is_paused,
            of_one=False,
            http="POST /v1/pause",
            statuses=("404",),
            in_shell=pause_here,
            example={"agent": "triage"},
            more="Runs in flight finish, and deliveries continue.",
        ),
        Verb(
            "resume",
            resume,
            "resume a paused agent",
            says=goes_on,
            of_one=False,
            http="POST /v1/resume",
            statuses=("404",),
            guarded="lift a pause",
            apps=resumed_apps,
            in_shell=resume_here,
            example={"agent": "triage", "rate": "20/s"},
            more="`resume all` ends a `pause all`. An agent that was paused by name must be resumed by name.",
        ),
    ),
)
ALIASES = {"pause": Alias("pauses", "pause", without_key="list"), "resume": Alias("pauses", "resume")}
