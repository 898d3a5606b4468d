"""Effects: what runs did to the outside world, and a person's word about what nobody else can know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.change import read_change
from wakeful.api.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.api.ports import Reader, Store
from wakeful.api.problem import Problem
from wakeful.api.reply import JsonResponse, found
from wakeful.api.security import ApiSettings
from wakeful.model import EffectState
from wakeful.operations.redo import ANSWERS, settle, which_stands
from wakeful.values import to_text

EFFECT_STATES: tuple[str, ...] = get_args(EffectState)


def effect_routes(reader: Reader, store: Store, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("state", "limit", "after"))
        limit, state, after = read_limit(given), read_state(given, EFFECT_STATES), given.get("after")
        try:
            return JsonResponse(await reader.effects(state=state, limit=limit, after=after))
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
            settled = (
                None
                if effect is None
                else await settle(store, effect["id"], verb, operator=change.operator, note=note, result=result)
            )
            if settled is None:
                return found(None, "effect")
            if not settled.first:
                title = "Another answer stands"
                raise Problem(409, which_stands(settled, verb), kind="already-settled", title=title)
            return JsonResponse(
                {"id": settled.effect.id, "state": settled.effect.state, "run": settled.run, "first": True}
            )

        return answer

    return [
        Route("/v1/effects", listing, name="effects"),
        Route("/v1/effects/{id}", one, name="effect"),
        *(Route(f"/v1/effects/{{id}}/{verb}", settling(verb), methods=["POST"], name=verb) for verb in ANSWERS),
    ]
