"""States: what agents keep from run to run, shown and changed by a person.

A run that has read the state and would save its own change over a person's is done again with the person's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.errors import InvalidState, NotFound, Persistent, did_you_mean
from wakeful.resources.declare import Column, Listing, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, AsJson, Count, MomentOrNone
from wakeful.resources.parameters import OfApp, Param
from wakeful.resources.refusals import Ambiguous, Refused, Unfit
from wakeful.resources.words import Look, in_json, indented_json, line, plain, plain_lines
from wakeful.stores.known import apps_of_agent, known_agents
from wakeful.stores.verbs.state import ChangeState
from wakeful.values import to_text

RUN_ID = re.compile(r"[0-9a-f]{26}(\.[0-9]+)?")


class State(TypedDict):
    """What an agent keeps from run to run."""

    app: str
    agent: str
    key: str
    value: Annotated[Any, AsJson(), About("null: nothing is kept")]
    version: Count
    changed_by: Annotated[str | None, About("A run, or a person")]
    changed_at: MomentOrNone
    note: Annotated[str | None, About("What a person said about their change")]
    run: Annotated[str | None, About("The run that has it now: the next one waits for it")]


class States(TypedDict):
    """What one agent keeps, in each app that has it."""

    states: list[State]


class ChangedState(TypedDict):
    """The version that a change made."""

    app: str
    agent: str
    version: Count


# looking

OfKey = Annotated[str | None, Param("only what is kept for this key", metavar="KEY")]


async def states(desk: Desk, *, app: OfApp = None, key: OfKey = None) -> list[State]:
    return chosen(await desk.reads.rows(State, "list_states", None), named_app(desk, app), key)


async def find(desk: Desk, agent: str, *, app: OfApp = None, key: OfKey = None) -> States | None:
    found = chosen(await desk.reads.rows(State, "list_states", agent), named_app(desk, app), key)
    return States(states=found) if found else None


def chosen(found: Iterable[State], app: str | None, key: str | None) -> list[State]:
    return [one for one in found if app in {None, one["app"]} and key in {None, one["key"]}]


def named_app(desk: Desk, app: str | None) -> str | None:
    """The app that is named: in a shell also by its code."""
    if desk.code is None or desk.by.way != "cli":
        return app
    own = str(desk.code.agents.name)
    if app not in {None, own}:
        words = f"--of {plain(app)} is another app than {own}, which --app names: give one of them"
        raise Unfit(words, "app", typed=words)
    return own


async def missing(desk: Desk, agent: str, /, **_: Any) -> str:
    hint = did_you_mean(agent, [one["agent"] for one in await desk.reads.rows(State, "list_states", None)])
    return f'agent "{plain(agent)}" keeps no state here.{hint} See `wakeful state`'


def changed_by(one: State, look: Look) -> str:
    """The run that saved it, or the person who changed it."""
    who = one["changed_by"]
    if who is None:
        return "–"
    return look.short(who) if RUN_ID.fullmatch(who) else plain(who)


def whole(found: States, look: Look) -> Printed:
    for one in found["states"]:
        of = f", key {plain(one['key'])}" if one["key"] else ""
        head = f"{plain(one['agent'])} (app {plain(one['app'])}{of}), version {one['version']}"
        if one["changed_at"] is not None:
            head += f", changed by {changed_by(one, look)} {look.ago(one['changed_at'])}"
            head += f" ({plain(one['note'])})" if one["note"] else ""
        if one["run"] is not None:
            head += f"; run {look.short(one['run'])} has it now"
        yield line(head, style="dim", whole=look.piped)
        if one["value"] is None:
            yield "nothing is kept: the next run begins with the defaults of the model"
        else:
            yield plain_lines(indented_json(one["value"]))


# changing

OwnApp = Annotated[
    str | None,
    Param(
        "the app's name, where several apps have an agent of that name",
        about="of which app, where it is not the one that this server runs",
        flag="--of",
        metavar="NAME",
    ),
]
Key = Annotated[
    str | None,
    Param(
        "what an agent with key= keeps for this key",
        about="what it keeps for this key, where the agent has key=",
        metavar="KEY",
    ),
]
Value = Annotated[
    Any,
    Param(
        "the new state, as JSON or @file",
        about="the new state: it must fit the agent's model",
        metavar="JSON",
        positional=True,
        said="state set",
        missing="it is the new state, as JSON",
    ),
]


async def put(desk: Desk, agent: str, *, value: Value, app: OwnApp = None, key: Key = None) -> ChangedState:
    try:
        text = to_text(value, what="the state")
    except Persistent as error:
        raise misfit(error, wrong_call=False) from None
    return await change(desk, agent, text, app, key)


async def clear(desk: Desk, agent: str, *, app: OwnApp = None, key: Key = None) -> ChangedState:
    return await change(desk, agent, None, app, key)


async def change(desk: Desk, agent: str, text: str | None, app: str | None, key: str | None) -> ChangedState:
    """An agent whose code is here is checked by it."""
    name = await app_meant(desk, agent, app)
    if desk.code is not None and name == desk.code.agents.name:
        try:
            desk.code.agents.refuse_misfit_state(agent, text)
        except Persistent as error:
            raise misfit(error, wrong_call=isinstance(error, InvalidState)) from None
    elif desk.by.way == "cli" and not await keeps_a_state(desk, agent, name):
        desk.remark(f"no run of agent {plain(agent)} has had a state yet: --app APP checks whether it has one")
    version = await desk.store.do(ChangeState(name, agent, key or "", text, by=desk.by, note=desk.note))
    return ChangedState(app=name, agent=agent, version=version)


async def keeps_a_state(desk: Desk, agent: str, app: str) -> bool:
    return any(one["app"] == app for one in await desk.reads.rows(State, "list_states", agent))


async def app_meant(desk: Desk, agent: str, app: str | None) -> str:
    """The app that is named. A server means its own if none is, and another one must be known to keep a state; a shell means the
    only app that has such an agent.
    """
    if desk.by.way == "cli":
        return named_app(desk, app) or await only_app_of(desk, agent)
    own = str(desk.app.agents.name)
    if app not in {None, own} and not await keeps_a_state(desk, agent, str(app)):
        message = "no agent of that name and app keeps a state here: GET /v1/states lists those that do"
        raise NotFound(message)
    return app or own


async def only_app_of(desk: Desk, agent: str) -> str:
    keeping = {one["app"] for one in await desk.reads.rows(State, "list_states", agent)}
    seen = sorted(keeping | set(await apps_of_agent(desk.reads, agent)))
    if not seen:
        hint = did_you_mean(agent, await known_agents(desk.reads))
        message = (
            f'no agent "{plain(agent)}" has run here.{hint} With --app APP or --of NAME it is changed all the same'
        )
        raise NotFound(message)
    if len(seen) > 1:
        message = f"agent {plain(agent)} is in several apps ({', '.join(map(plain, seen))})"
        raise Ambiguous(message, "app")
    return seen[0]


async def changed_apps(desk: Desk, agent: str, *, app: str | None = None, **_: Any) -> list[str]:
    """The app whose token it takes."""
    return [await app_meant(desk, agent, app)]


def misfit(error: Persistent, *, wrong_call: bool) -> Refused:
    title = "The state does not fit"
    return Refused(str(error), kind="state-does-not-fit", title=title, status=422, field="value", wrong_call=wrong_call)


def told(done: str) -> Any:
    return lambda one: f"state of {plain(one['agent'])} (app {plain(one['app'])}): {done}, version {one['version']}"


def of_several_apps(found: Sequence[State]) -> bool:
    return len({one["app"] for one in found}) > 1


TAKES = {"set": "state set takes an AGENT and JSON (or @file)", "clear": "state clear takes an AGENT"}
RESOURCE = Resource(
    noun="state",
    plural="states",
    command="state",
    called="agent with a state",
    called_many="states",
    view=State,
    key="agent",
    example="counter",
    state=None,
    code="check the JSON against the agent's model",
    missing=missing,
    listing=Listing(
        read=states,
        summary="what agents keep from run to run",
        none="no agent keeps a state here yet. It takes one with @app.agent(…, state=Model).",
        columns=(
            Column("app", when=lambda items, _: of_several_apps(items)),
            Column("agent"),
            Column("key", when=lambda found, _: any(one["key"] for one in found)),
            Column("version"),
            Column("changed by", show=changed_by),
            Column("changed", "changed_at"),
            Column("state", show=lambda one, _: "–" if one["value"] is None else in_json(one["value"]), flexible=True),
        ),
    ),
    show=Show(find=find, summary="what one agent keeps, in each app that has it", lines=whole, bare=True),
    verbs=(
        Verb(
            "set",
            put,
            "set what an agent keeps: a run that has read the old one goes again with this",
            says=told("set"),
            by_key=True,
            http="PUT /{key}",
            statuses=("422",),
            guarded="change a state",
            apps=changed_apps,
        ),
        Verb(
            "clear",
            clear,
            "clear what an agent keeps: the next run begins as the first one did",
            says=told("cleared"),
            by_key=True,
            http="DELETE /{key}",
            guarded="change a state",
            apps=changed_apps,
        ),
    ),
    more="An agent has a state with @app.agent(…, state=Model).",
    takes=lambda word: TAKES.get(word, "state show takes at most one AGENT"),
)
