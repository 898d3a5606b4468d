"""Dead letters and redoing: one run at once, many in slices.

A request does a slice of a large piece of work and says what is left; its sender asks again until nothing is. So nothing
has to be remembered here in between, and whoever stops asking has stopped it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Agents, Reader, Store
from wakeful.clock import to_text as time_text
from wakeful.errors import NotFound, Persistent
from wakeful.http.change import Change, Fields, bad_body, read_change
from wakeful.http.guarded import refuse_other_agents, refuse_other_apps
from wakeful.http.parameters import is_plain, read_parameters
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.operations.feeding import Feeding, feed_events, plan_feed, read_window
from wakeful.operations.pace import Pace, read_rate
from wakeful.operations.quarantine import dead_inputs
from wakeful.operations.redelivery import DeliveryPlan, plan_redelivery, redo_deliveries
from wakeful.operations.redo import MANY, Choice, Plan, plan_redo, redo_letters
from wakeful.stores.verbs.redo import RedoRun
from wakeful.triggers.past import read_past
from wakeful.values import to_text

SLICE = 1_000
LONGEST_SLICE = 10.0  # seconds: a request that goes slowly does less
KNOWN = ("filter", "deliveries", "events", "plan", "rate", "yes", "note")
NAMES = {"filter": "dead runs", "deliveries": "dead deliveries", "events": "stored events"}


def redo_routes(reader: Reader, store: Store, agents: Agents, settings: ApiSettings) -> list[Route]:
    async def dead(request: Request) -> Response:
        given = read_parameters(request.query_params, ("agent", "error"))
        choice = Choice(given.get("agent"), given.get("error"))
        runs = [group.to_json() for group in (await plan_redo(reader, choice)).groups]
        deliveries = [group.to_json() for group in (await plan_redelivery(reader, choice)).groups]
        inputs = [] if given.get("agent") or given.get("error") else await dead_inputs(reader)
        return JsonResponse({"groups": runs + deliveries + inputs})

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
        if not discard:
            await refuse_other_apps(settings, [run["app"]])
        data = edited_data(change.fields, run, agents)
        asked = RedoRun(run["id"], data=data, again=again, discard=discard, by=change.by, note=note)
        redone = await store.do(asked)
        if redone is None:
            return found(None, "run")
        if redone.refused is not None:
            words = redone.refused.replace("--again", '"again": true')
            raise Problem(409, f"run {run['id']} {words}", kind="not-over", title="This run cannot be redone so")
        confirmed = sum(one["state"] == "confirmed" and not one.get("undoes") for one in run["effects"])
        return JsonResponse({"run": redone.run, "was": redone.was, "confirmed_effects": confirmed})

    async def replay(request: Request) -> Response:
        change = await read_change(request, settings, KNOWN)
        which, chosen = chosen_of(change, tuple(NAMES))
        if which == "events":
            await refuse_other_apps(settings, [agents.name])
            return JsonResponse(await replay_events(reader, store, agents, change, chosen))
        return JsonResponse(await redo_many(reader, store, settings, change, which, chosen))

    async def discard(request: Request) -> Response:
        change = await read_change(request, settings, [name for name in KNOWN if name != "events"])
        which, chosen = chosen_of(change, ("filter", "deliveries"))
        return JsonResponse(await redo_many(reader, store, settings, change, which, chosen, discard=True))

    return [
        Route("/v1/dead", dead, name="dead"),
        Route("/v1/runs/{id}/replay", replay_one, methods=["POST"], name="replay_run"),
        Route("/v1/runs/{id}/discard", discard_one, methods=["POST"], name="discard_run"),
        Route("/v1/replay", replay, methods=["POST"], name="replay"),
        Route("/v1/discard", discard, methods=["POST"], name="discard"),
    ]


def chosen_of(change: Change, names: Sequence[str]) -> tuple[str, Fields]:
    """Which ones: exactly one of these fields says so."""
    known = {
        "filter": ("agent", "error", "all", "until"),
        "deliveries": ("channel", "error", "all", "until"),
        "events": ("type", "from", "to", "agent", "denied"),
    }
    given = {name: fields for name in names if (fields := change.fields.object(name, known[name])) is not None}
    if len(given) != 1:
        words = ", ".join(f'"{name}" for {NAMES[name]}' for name in names)
        raise bad_body(f"which ones? Give one of these: {words}", "filter")
    return next(iter(given.items()))


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


async def redo_many(
    reader: Reader,
    store: Store,
    settings: ApiSettings,
    change: Change,
    which: str,
    chosen: Fields,
    *,
    discard: bool = False,
) -> dict[str, Any]:
    """Replay or discard dead runs, or dead deliveries: a slice of them, or the plan."""
    name = "agent" if which == "filter" else "channel"
    narrow, error = chosen.text(name), chosen.text("error")
    if not (narrow or error or chosen.flag("all")):
        raise bad_body(f'which ones? Give "{name}", "error" or "all": true', which)
    present, given = await reader.time(), chosen.text("until")
    try:
        until = None if given is None else read_past(given, now=present)
    except ValueError as unread:
        raise bad_body(str(unread), f"{which}.until") from None
    plan: Plan | DeliveryPlan
    if which == "filter":
        plan = await plan_redo(reader, Choice(narrow, error, until))
    else:
        plan = await plan_redelivery(reader, Choice(None, error, until), narrow)
    # Handed back, so that the next slice does not take again what was replayed in this one and has died once more.
    shown = {"until": time_text(present if until is None else until)}
    if not plan.letters:
        message = f"none of the {NAMES[which]} is like that: GET /v1/dead lists what there is"
        raise NotFound(message)
    if change.fields.flag("plan"):
        return plan.to_json() | shown
    refuse_many(change, len(plan.letters), "dead letters")
    rate, most = slice_of(change)
    letters = plan.letters[-most:]
    if not discard:
        await refuse_other_agents(settings, (one["agent"] for one in letters))
    do = redo_letters if which == "filter" else redo_deliveries
    done = await do(store, letters, by=change.by, note=change.fields.text("note"), discard=discard, pace=Pace(rate))
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
    feeding = Feeding(str(wanted["type"]), since, until, agent, agents.name, events.flag("denied"))
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
        by=change.by,
        note=change.fields.text("note"),
        judge=agents.judge(agent, now=present),
        flow=agents.flow(agent),
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
