"""Dead letters and redoing: one run at once, many in slices.

A request does a slice of a large piece of work and says what is left; its sender asks again until nothing is. So nothing
has to be remembered here in between, and whoever stops asking has stopped it.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.change import Change, Fields, bad_body, read_change
from wakeful.api.parameters import is_plain, read_parameters
from wakeful.api.ports import Agents, Reader, Store
from wakeful.api.problem import Problem
from wakeful.api.reply import JsonResponse, found
from wakeful.api.security import ApiSettings
from wakeful.clock import read_moment
from wakeful.clock import to_text as time_text
from wakeful.errors import NotFound, Persistent
from wakeful.feeding import Feeding, feed_events, plan_feed, read_window
from wakeful.pace import Pace, read_rate
from wakeful.redo import MANY, Choice, plan_redo, redo_letters, redo_run
from wakeful.stores.base import RedoRun
from wakeful.values import to_text

SLICE = 1_000
LONGEST_SLICE = 10.0  # seconds: a request that goes slowly does less
KNOWN = ("filter", "events", "plan", "rate", "yes", "note")


def redo_routes(reader: Reader, store: Store, agents: Agents, settings: ApiSettings) -> list[Route]:
    async def dead(request: Request) -> Response:
        given = read_parameters(request.query_params, ("agent", "error"))
        plan = await plan_redo(reader, Choice(given.get("agent"), given.get("error")))
        return JsonResponse({"groups": [group.to_json() for group in plan.groups]})

    async def replay_one(request: Request) -> Response:
        return await one(request, await read_change(request, settings, ("again", "data", "note")))

    async def discard_one(request: Request) -> Response:
        return await one(request, await read_change(request, settings, ("note",)), discard=True)

    async def one(request: Request, change: Change, *, discard: bool = False) -> Response:
        again, note = change.fields.flag("again"), change.fields.text("note")
        identifier = request.path_params["id"]
        run = await reader.run(identifier) if is_plain(identifier) else None
        if run is None:
            return found(None, "run")
        data = edited_data(change.fields, run, agents)
        asked = RedoRun(run["id"], change.operator, note, data, again=again, discard=discard)
        redone = await redo_run(store, asked)
        if redone is None:
            return found(None, "run")
        if redone.refused is not None:
            words = redone.refused.replace("--again", '"again": true')
            raise Problem(409, f"run {run['id']} {words}", kind="not-over", title="This run cannot be redone so")
        confirmed = sum(effect["state"] == "confirmed" for effect in run["effects"])
        return JsonResponse({"run": redone.run, "was": redone.was, "confirmed_effects": confirmed})

    async def replay(request: Request) -> Response:
        change = await read_change(request, settings, KNOWN)
        chosen = change.fields.object("filter", ("agent", "error", "all", "until"))
        events = change.fields.object("events", ("type", "from", "to", "agent"))
        if (chosen is None) == (events is None):
            raise bad_body('which ones? Give "filter" for dead letters, or "events" for stored events', "filter")
        if chosen is not None:
            return JsonResponse(await replay_letters(reader, store, change, chosen))
        assert events is not None  # noqa: S101 one of the two is there
        return JsonResponse(await replay_events(reader, store, agents, change, events))

    return [
        Route("/v1/dead", dead, name="dead"),
        Route("/v1/runs/{id}/replay", replay_one, methods=["POST"], name="replay_run"),
        Route("/v1/runs/{id}/discard", discard_one, methods=["POST"], name="discard_run"),
        Route("/v1/replay", replay, methods=["POST"], name="replay"),
    ]


def edited_data(fields: Fields, run: dict[str, Any], agents: Agents) -> str | None:
    """The data to hand over instead of the event's own, as it is stored. Refused if it does not fit the agent."""
    if "data" not in fields.given:
        return None
    value = fields.given["data"]
    try:
        if run["app"] == agents.name:
            agents.refuse_misfit(run["agent"], value)
        return to_text(value, what="the edited data")
    except Persistent as error:
        raise Problem(
            422, str(error), kind="data-does-not-fit", title="The edited data does not fit", field="data"
        ) from None


async def replay_letters(reader: Reader, store: Store, change: Change, chosen: Fields) -> dict[str, Any]:
    agent, error = chosen.text("agent"), chosen.text("error")
    if not (agent or error or chosen.flag("all")):
        raise bad_body('which ones? Give "agent", "error" or "all": true', "filter")
    present, given = await reader.time(), chosen.text("until")
    try:
        until = None if given is None else read_moment(given, now=present)
    except ValueError as unread:
        raise bad_body(str(unread), "filter.until") from None
    plan = await plan_redo(reader, Choice(agent, error, until))
    # Handed back, so that the next slice does not take again what was replayed in this one and has died once more.
    shown = {"until": time_text(present if until is None else until)}
    if not plan.letters:
        message = "no dead letter is like that: GET /v1/dead lists what there is"
        raise NotFound(message)
    if change.fields.flag("plan"):
        return plan.to_json() | shown
    refuse_many(change, len(plan.letters), "dead letters")
    rate, most = slice_of(change)
    letters = plan.letters[-most:]
    note = change.fields.text("note")
    done = await redo_letters(store, letters, operator=change.operator, note=note, pace=Pace(rate))
    return {"redone": done, "left": len(plan.letters) - len(letters)} | shown


async def replay_events(reader: Reader, store: Store, agents: Agents, change: Change, events: Fields) -> dict[str, Any]:
    wanted = {name: events.text(name) for name in ("type", "from", "agent")}
    for name, value in wanted.items():
        if value is None:
            raise events.refusal(name, "is missing: type, from and agent are needed")
    present = await reader.time()
    agent = str(wanted["agent"])
    agents.refuse_unknown(agent)
    try:
        since, until = read_window(str(wanted["from"]), events.text("to"), now=present)
    except ValueError as unread:
        raise bad_body(str(unread), "events.from") from None
    feeding = Feeding(str(wanted["type"]), since, until, agent, agents.name)
    plan = await plan_feed(reader, feeding)
    shown = {"from": time_text(since), "to": time_text(until)}
    if plan.events == 0:
        message = f"no stored event is like that: {feeding.shown()}"
        raise NotFound(message)
    if change.fields.flag("plan"):
        return plan.to_json() | shown
    refuse_many(change, plan.new, "events")
    rate, most = slice_of(change)
    done = await feed_events(
        store,
        reader,
        feeding,
        plan,
        operator=change.operator,
        note=change.fields.text("note"),
        judge=agents.judge(agent, now=present),
        most=most,
        pace=Pace(rate),
    )
    left = max(0, plan.new - most)
    return {"redone": done, "left": left, "already_had": plan.had, "denied": plan.denied} | shown


def slice_of(change: Change) -> tuple[float | None, int]:
    """How fast, and how many of them in this request."""
    given = change.fields.given.get("rate")
    if given is None:
        return None, SLICE
    try:
        rate = read_rate(str(given))
    except ValueError as error:
        raise bad_body(str(error), "rate") from None
    return rate, SLICE if rate is None else min(SLICE, max(1, int(rate * LONGEST_SLICE)))


def refuse_many(change: Change, count: int, what: str) -> None:
    if count > MANY and not change.fields.flag("yes"):
        detail = f'{count:,} {what} are more than {MANY:,}: add "yes": true if you mean all of them'
        raise Problem(409, detail, kind="too-many", title="That is a great many")
