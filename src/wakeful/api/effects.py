"""Effects: what runs did to the outside world, and a person's word about what nobody else can know."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.change import Change, bad_body, read_change
from wakeful.api.guarded import refuse_other_agents, refuse_other_runs
from wakeful.api.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.api.ports import Reader, Store
from wakeful.api.problem import Problem
from wakeful.api.redo import refuse_many, slice_of
from wakeful.api.reply import JsonResponse, found
from wakeful.api.security import ApiSettings
from wakeful.errors import NotFound
from wakeful.model import EffectState
from wakeful.operations.held import plan_settling, settle_held
from wakeful.operations.pace import Pace
from wakeful.operations.redo import ANSWERS, settle, which_stands
from wakeful.values import to_text

EFFECT_STATES: tuple[str, ...] = get_args(EffectState)
OPTION = re.compile(r"--result '(.*?)'")


def effect_routes(reader: Reader, store: Store, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("state", "agent", "action", "limit", "after"))
        limit, state, after = read_limit(given), read_state(given, EFFECT_STATES), given.get("after")
        chosen = {name: given[name] for name in ("agent", "action") if name in given}
        try:
            return JsonResponse(await reader.effects(state=state, limit=limit, after=after, **chosen))
        except ValueError:
            if after is None:
                raise
            raise bad_cursor() from None

    async def one(request: Request) -> Response:
        identifier = request.path_params["id"]
        return found(await reader.effect(identifier) if is_plain(identifier) else None, "effect")

    def settling(verb: str) -> Callable[[Request], Awaitable[Response]]:
        known = ("note", "result") if verb == "confirm" else ("note",)

        async def answer(request: Request) -> Response:
            change = await read_change(request, settings, known)
            note = change.fields.text("note")
            given = change.fields.given
            result = to_text(given["result"], what="the result") if "result" in given else None
            identifier = request.path_params["id"]
            effect = await reader.effect(identifier) if is_plain(identifier) else None
            if effect is not None:
                await refuse_other_runs(settings, [effect["run"]])
            settled = (
                None
                if effect is None
                else await settle(store, effect["id"], verb, by=change.by, note=note, result=result)
            )
            if settled is None:
                return found(None, "effect")
            if settled.unfit:
                raise unfit(which_stands(settled, verb))
            if not settled.first:
                title = "Another answer stands"
                raise Problem(409, which_stands(settled, verb), kind="already-settled", title=title)
            shown = {"id": settled.effect.id, "state": settled.effect.state, "run": settled.run, "first": True}
            return JsonResponse({**shown, "corrected": True} if settled.corrected else shown)

        return answer

    def settling_many(verb: str) -> Callable[[Request], Awaitable[Response]]:
        known = ("filter", "plan", "rate", "yes", "note", *(("result",) if verb == "confirm" else ()))

        async def answer(request: Request) -> Response:
            change = await read_change(request, settings, known)
            return JsonResponse(await settle_many(reader, store, settings, change, verb))

        return answer

    return [
        Route("/v1/effects", listing, name="effects"),
        Route("/v1/effects/{id}", one, name="effect"),
        *(Route(f"/v1/effects/{verb}", settling_many(verb), methods=["POST"], name=f"{verb}_many") for verb in ANSWERS),
        *(Route(f"/v1/effects/{{id}}/{verb}", settling(verb), methods=["POST"], name=verb) for verb in ANSWERS),
    ]


async def settle_many(reader: Reader, store: Store, settings: ApiSettings, change: Change, verb: str) -> dict[str, Any]:
    """A slice of the held effects of an agent, or an action, or all; or the plan."""
    chosen = change.fields.object("filter", ("agent", "action", "all"))
    agent, action = (None, None) if chosen is None else (chosen.text("agent"), chosen.text("action"))
    if chosen is None or not (agent or action or chosen.flag("all")):
        raise bad_body('which ones? Give "agent", "action" or "all": true', "filter")
    given = change.fields.given
    result = to_text(given["result"], what="the result") if "result" in given else None
    plan = await plan_settling(reader, agent=agent, action=action)
    if not plan.effects:
        message = "no held effect is like that: GET /v1/effects?state=held lists what there is"
        raise NotFound(message)
    wrong = plan.unfit(verb, result)
    if change.fields.flag("plan"):
        return plan.to_json() | {"unfit": None if wrong is None else in_json(wrong)}
    if wrong is not None:
        raise unfit(f"{wrong}. Nothing was changed")
    refuse_many(change, len(plan.effects), "held effects")
    rate, most = slice_of(change)
    effects = plan.effects[:most]
    await refuse_other_agents(settings, (one.agent for one in effects))
    note = change.fields.text("note")
    done = await settle_held(store, effects, verb, by=change.by, note=note, result=result, pace=Pace(rate))
    return {"settled": done, "left": len(plan.effects) - len(effects)}


def unfit(words: str) -> Problem:
    return Problem(422, in_json(words), kind="result-does-not-fit", title="The result does not fit", field="result")


def in_json(words: str) -> str:
    """The option of the command line, as the member of a body."""
    return OPTION.sub(r'"result": \1', words)
