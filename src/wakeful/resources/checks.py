"""Checks of heartbeats: their definition from the file with their stored results, and the verb that runs one now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic_core import from_json
from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.errors import NotFound, did_you_mean
from wakeful.model import ScheduleState
from wakeful.resources.declare import Column, Listing, Resource, Verb
from wakeful.resources.desk import Desk, Row
from wakeful.resources.fields import About, Count, Moment, MomentOrNone
from wakeful.resources.parameters import OfApp
from wakeful.resources.processes import living
from wakeful.resources.schedules import refusing
from wakeful.resources.states import State
from wakeful.resources.words import Look, plain
from wakeful.stores.reads import json_of
from wakeful.triggers.schedule import read_definition

NARROW = 100
TAKES = (
    "heartbeat run takes APP and CHECK, like: wakeful heartbeat run app.py heartbeat/mail. Without APP, WAKEFUL_APP or "
    "an app.py in this folder is used"
)


class HeartbeatCheck(TypedDict):
    """A check of a heartbeat with its last result."""

    app: str
    heartbeat: str
    name: Annotated[str, About("heartbeat/mail: also the name of its schedule")]
    title: str | None
    state: ScheduleState
    every: Annotated[str, About("Rule of its schedule")]
    session: str
    probe: str | None
    owner: str | None
    last_at: MomentOrNone
    result: Annotated[str | None, About("quiet, told, unchanged, failed or skipped; null if it never ran")]
    text: Annotated[str | None, About("Its last output, or the beginning of it")]
    told_at: MomentOrNone
    failures: Annotated[Count, About("Consecutive failures")]
    error: str | None
    processed: Annotated[Any, About("Result of its probe, if stored")]
    run: Annotated[str | None, About("The last run")]
    next_at: MomentOrNone
    read_at: Annotated[Moment, About("When its section was last read or changed")]


class CheckRun(TypedDict):
    """The answer of running a check now."""

    check: Annotated[str, About("Full name of the check")]
    event: str
    run: Annotated[str | None, About("null: its event made no run")]


# reading


async def checks(desk: Desk, *, app: OfApp = None) -> list[HeartbeatCheck]:
    """All checks, sorted by app and name."""
    rows = [row for row in await desk.reads.fetch("list_checks") if app in {None, row[0]}]
    remembered = {
        (state["app"], heartbeat, state["key"]): (state["value"] or {}).get("checks", {})
        for heartbeat in {row[2] for row in rows}
        for state in await desk.reads.rows(State, "list_states", heartbeat)
    }
    return [check_of(row, remembered) for row in rows]


def check_of(row: Row, remembered: dict[tuple[str, str, str], dict[str, Any]]) -> HeartbeatCheck:
    app, name, heartbeat, state, definition, data, owner, next_at, changed_at = row
    section = json_of(data) or {}
    session = str(section.get("session", heartbeat))
    memory = remembered.get((app, heartbeat, session), {}).get(str(section.get("check")), {})
    command = section.get("command")
    return HeartbeatCheck(
        app=app,
        heartbeat=heartbeat,
        name=name,
        title=section.get("title"),
        state=state,
        every=read_definition(from_json(definition)).describe(),
        session=session,
        probe=f"$ {command}" if command is not None else section.get("probe"),
        owner=owner,
        last_at=memory.get("ran_at"),
        result=memory.get("result"),
        text=memory.get("text"),
        told_at=memory.get("told_at"),
        failures=memory.get("failures", 0),
        error=memory.get("error"),
        processed=memory.get("processed"),
        run=memory.get("run"),
        next_at=to_text(next_at) if state == "live" else None,
        read_at=str(to_text(changed_at)),
    )


# running one


async def run(desk: Desk, name: str) -> CheckRun:
    app = desk.app.agents.name
    whole = find_check([one["name"] for one in await checks(desk, app=app)], name, app=app)
    with refusing():
        receipt = await desk.app.schedules.fire(whole, by=desk.by, note=desk.note)
    if not await living(desk):
        desk.remark(f"no worker is alive on this store: run it here with `wakeful once {plain(desk.app.named)}`")
    return CheckRun(check=whole, event=receipt.id, run=receipt.runs[0] if receipt.runs else None)


def find_check(own: Sequence[str], name: str, *, app: str) -> str:
    """The full name of a check, from `heartbeat/mail`, or from `mail` if that is unique. Raises NotFound with a suggestion."""
    if name in own:
        return name
    ending = [one for one in own if one.partition("/")[2] == name]
    if len(ending) == 1:
        return ending[0]
    if ending:
        message = f'"{name}" is a check of several heartbeats: use {" or ".join(ending)}'
        raise NotFound(message)
    known = did_you_mean(name, own) if own else " A worker (`wakeful serve APP`) reads checks from the file"
    if "Did" not in known and "Did" in (guess := did_you_mean(name, [one.partition("/")[2] for one in own])):
        known = guess
    message = f'app {app} has no check "{name}".{known}'
    raise NotFound(message)


# messages


def coming(one: HeartbeatCheck, look: Look) -> str:
    return look.ago(one["next_at"]) if one["state"] == "live" else plain(one["state"])


def result(one: HeartbeatCheck, _: Look) -> tuple[str, str]:
    return (one["result"], "state") if one["result"] else ("–", "")


def ran(done: CheckRun) -> str:
    made = f"run {done['run']}" if done["run"] else f"no run: `wakeful why {plain(done['event'])}` shows why"
    return f"check {plain(done['check'])} → {made}"


RESOURCE = Resource(
    noun="check",
    plural="checks",
    command="heartbeat",
    view=HeartbeatCheck,
    key="name",
    metavar="CHECK",
    deep=True,
    example="heartbeat/mail",
    listing=Listing(
        read=checks,
        summary="list the checks of heartbeats with their last results",
        none="no checks yet. Declare a heartbeat with app.heartbeat(…); each ## section of its file becomes a check once a "
        "worker has read it",
        columns=(
            Column("app", when=lambda items, _: len({one["app"] for one in items}) > 1),
            Column("check", "name"),
            Column("last", show=lambda one, look: look.ago(one["last_at"]) if one["last_at"] else "never"),
            Column("result", show=result),
            Column("failures", show=lambda one, _: str(one["failures"] or "–")),
            Column("next", show=coming),
            Column("every", least=NARROW),
            Column("says", show=lambda one, _: plain(one["error"] or one["text"] or "–"), flexible=True),
        ),
    ),
    verbs=(
        Verb(
            name="run",
            run=run,
            summary="run a check now, in addition to its occurrences",
            says=ran,
            by_key=True,
            needs_app="yes",
            app_first=True,
            logs=True,
            without_app=TAKES,
        ),
    ),
    more="After a check is run by hand, its next occurrence is skipped if it is within the check's spacing.",
    takes=lambda word: TAKES if word == "run" else "heartbeat list takes no argument",
)
