"""States: data that agents keep between runs; operators can show and change it.

If an operator changes a state while a run uses it, the run's own change is dropped and the run starts again with the new state.
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
    """The data that an agent keeps between runs."""

    app: str
    agent: str
    key: Annotated[str, About("Empty, unless the agent keeps one state for each key", example="ada")]
    value: Annotated[Any, AsJson(), About("null: no state is stored")]
    version: Count
    changed_by: Annotated[str | None, About("A run or an operator")]
    changed_at: MomentOrNone
    note: Annotated[str | None, About("The operator's note on the change")]
    run: Annotated[str | None, About("The run that holds the state now; the next run waits for it")]


class States(TypedDict):
    """The state of one agent, in each app that has the agent."""

    states: list[State]


class ChangedState(TypedDict):
    """The version after a change."""

    app: str
    agent: str
    version: Count


# reading

OfKey = Annotated[str | None, Param("only the state of this key", metavar="KEY")]


async def states(desk: Desk, *, app: OfApp = None, key: OfKey = None) -> list[State]:
    return chosen(await desk.reads.rows(State, "list_states", None), named_app(desk, app), key)


async def find(desk: Desk, agent: str, *, app: OfApp = None, key: OfKey = None) -> States | None:
    found = chosen(await desk.reads.rows(State, "list_states", agent), named_app(desk, app), key)
    return States(states=found) if found else None


def chosen(found: Iterable[State], app: str | None, key: str | None) -> list[State]:
    return [one for one in found if app in {None, one["app"]} and key in {None, one["key"]}]


def named_app(desk: Desk, app: str | None) -> str | None:
    """The app that is meant; on the command line also by its code. Raises Unfit if both are given and differ."""
    if desk.code is None or desk.by.way != "cli":
        return app
    own = str(desk.code.agents.name)
    if app not in {None, own}:
        words = f"--of {plain(app)} and --app ({own}) name different apps: give one of them"
        raise Unfit(words, "app", typed=words)
    return own


async def missing(desk: Desk, agent: str, /, **_: Any) -> str:
    hint = did_you_mean(agent, [one["agent"] for one in await desk.reads.rows(State, "list_states", None)])
    return f'agent "{plain(agent)}" keeps no state here.{hint} See `wakeful state`'


def changed_by(one: State, look: Look) -> str:
    """The run or the operator that changed the state last."""
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
            head += f"; run {look.short(one['run'])} holds it now"
        yield line(head, style="dim", whole=look.piped)
        if one["value"] is None:
            yield "no state is stored: the next run starts with the model's defaults"
        else:
            yield plain_lines(indented_json(one["value"]))


# changing

OwnApp = Annotated[
    str | None,
    Param(
        "name of the app, if several apps have this agent",
        about="name of the app (default: the app of this server)",
        flag="--of",
        metavar="NAME",
    ),
]
Key = Annotated[
    str | None,
    Param(
        "the state of this key, for an agent with key=",
        about="the state of this key, for an agent with key=",
        metavar="KEY",
    ),
]
Value = Annotated[
    Any,
    Param(
        "the new state, as JSON or @file",
        about="the new state; it must fit the agent's model",
        metavar="JSON",
        positional=True,
        said="state set",
        missing="the new state is required, as JSON",
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
    """Change a state. If the agent's code is loaded here, its model checks the value first."""
    name = await app_meant(desk, agent, app)
    if desk.code is not None and name == desk.code.agents.name:
        try:
            desk.code.agents.refuse_misfit_state(agent, text)
        except Persistent as error:
            raise misfit(error, wrong_call=isinstance(error, InvalidState)) from None
    elif desk.by.way == "cli" and not await keeps_a_state(desk, agent, name):
        desk.remark(f"no run of agent {plain(agent)} has saved a state yet: --app APP checks whether the agent has one")
    version = await desk.store.do(ChangeState(name, agent, key or "", text, by=desk.by, note=desk.note))
    return ChangedState(app=name, agent=agent, version=version)


async def keeps_a_state(desk: Desk, agent: str, app: str) -> bool:
    return any(one["app"] == app for one in await desk.reads.rows(State, "list_states", agent))


async def app_meant(desk: Desk, agent: str, app: str | None) -> str:
    """The app that is meant. Without a name, a server means its own app, and the command line the only app that has the agent.
    A server raises NotFound for another app in which this agent has no state.
    """
    if desk.by.way == "cli":
        return named_app(desk, app) or await only_app_of(desk, agent)
    own = str(desk.app.agents.name)
    if app not in {None, own} and not await keeps_a_state(desk, agent, str(app)):
        message = "this agent has no state in that app: GET /v1/states lists all states"
        raise NotFound(message)
    return app or own


async def only_app_of(desk: Desk, agent: str) -> str:
    keeping = {one["app"] for one in await desk.reads.rows(State, "list_states", agent)}
    seen = sorted(keeping | set(await apps_of_agent(desk.reads, agent)))
    if not seen:
        hint = did_you_mean(agent, await known_agents(desk.reads))
        message = (
            f'no agent "{plain(agent)}" has run here.{hint} To change it all the same, give --app APP or --of NAME'
        )
        raise NotFound(message)
    if len(seen) > 1:
        message = f"agent {plain(agent)} is in several apps ({', '.join(map(plain, seen))})"
        raise Ambiguous(message, "app")
    return seen[0]


async def changed_apps(desk: Desk, agent: str, *, app: str | None = None, **_: Any) -> list[str]:
    """The app whose token is needed."""
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
        summary="list the state that agents keep between runs",
        none="no agent keeps a state here yet. Declare one with @app.agent(…, state=Model).",
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
    show=Show(find=find, summary="show the state of one agent, in each app that has it", lines=whole, bare=True),
    verbs=(
        Verb(
            "set",
            put,
            "set an agent's state; a run that uses the old state starts again",
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
            "clear an agent's state; the next run starts with the defaults",
            says=told("cleared"),
            by_key=True,
            http="DELETE /{key}",
            guarded="change a state",
            apps=changed_apps,
        ),
    ),
    more="Declare a state with @app.agent(…, state=Model).",
    takes=lambda word: TAKES.get(word, "state show takes at most one AGENT"),
)
