"""Deliveries: messages on their way to channels, and a person's word about those that were given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.change import read_change
from wakeful.api.guarded import refuse_other_runs
from wakeful.api.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.api.ports import Reader, Store
from wakeful.api.problem import Problem
from wakeful.api.reply import JsonResponse, found
from wakeful.api.security import ApiSettings
from wakeful.model import DeliveryState
from wakeful.operations.redelivery import REDOABLE, why_not
from wakeful.stores.base import RedoDelivery

DELIVERY_STATES: tuple[str, ...] = get_args(DeliveryState)
REDO_VERBS = ("replay", "discard")


def delivery_routes(reader: Reader, store: Store, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("channel", "state", "limit", "after"))
        limit, state, after = read_limit(given), read_state(given, DELIVERY_STATES), given.get("after")
        try:
            page = await reader.deliveries(channel=given.get("channel"), state=state, limit=limit, after=after)
        except ValueError:
            if after is None:
                raise
            raise bad_cursor() from None
        return JsonResponse(page)

    async def one(request: Request) -> Response:
        identifier = request.path_params["id"]
        return found(await reader.delivery(identifier) if is_plain(identifier) else None, "delivery")

    def redoing(verb: str) -> Callable[[Request], Awaitable[Response]]:
        async def redo(request: Request) -> Response:
            change = await read_change(request, settings, ("note",))
            note, discard, identifier = change.fields.text("note"), verb == "discard", request.path_params["id"]
            delivery = await reader.delivery(identifier) if is_plain(identifier) else None
            if delivery is not None and not discard:
                await refuse_other_runs(settings, [delivery["run"]])
            asked = (
                None
                if delivery is None
                else RedoDelivery(delivery["id"], discard=discard, waiting=True, by=change.by, note=note)
            )
            before = None if asked is None else await store.do(asked)
            if asked is None or before is None:
                return found(None, "delivery")
            if before not in REDOABLE:
                words, title = why_not(asked.id, before, discard=discard), "This delivery is over, or held"
                raise Problem(409, words, kind="not-waiting", title=title)
            return JsonResponse({"delivery": asked.id, "was": before})

        return redo

    return [
        Route("/v1/deliveries", listing, name="deliveries"),
        Route("/v1/deliveries/{id}", one, name="delivery"),
        *(
            Route(f"/v1/deliveries/{{id}}/{verb}", redoing(verb), methods=["POST"], name=f"{verb}_delivery")
            for verb in REDO_VERBS
        ),
    ]
