"""Runs, and the story of a run, an event or a delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader
from wakeful.clock import Microseconds
from wakeful.http.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.model import RUN_STATES
from wakeful.triggers.past import read_past

FILTERS = ("agent", "event", "subject", "action", "trace")
TIMES = ("since", "until")
LIST_PARAMETERS = (*FILTERS, "state", *TIMES, "limit", "after")


async def read_times(given: Mapping[str, str], reader: Reader) -> dict[str, Microseconds]:
    """`since` and `until`, those that are given."""
    read: dict[str, Microseconds] = {}
    for name in TIMES:
        if given.get(name) is not None:
            try:
                read[name] = read_past(given[name], now=await reader.time())
            except ValueError as error:
                raise Problem(400, f"{name}: {error}", kind="bad-parameter", field=name) from None
    return read


def run_routes(reader: Reader) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, LIST_PARAMETERS)
        limit = read_limit(given)
        state = read_state(given, RUN_STATES)
        after = given.get("after")
        which: dict[str, Any] = {name: given.get(name) for name in FILTERS if given.get(name) is not None}
        which |= await read_times(given, reader)
        try:
            return JsonResponse(await reader.runs(state=state, limit=limit, after=after, **which))
        except ValueError:
            if after is None:
                raise
            raise bad_cursor() from None

    async def one(request: Request) -> Response:
        identifier = request.path_params["id"]
        return found(await reader.run(identifier) if is_plain(identifier) else None, "run")

    async def why(request: Request) -> Response:
        identifier = request.path_params["identifier"]
        return found(await reader.why(identifier) if is_plain(identifier) else None, "event, run, delivery or reminder")

    async def why_by_query(request: Request) -> Response:
        identifier = read_parameters(request.query_params, ("id",)).get("id")
        if identifier is None:
            raise Problem(
                400, "id is missing: give the id of an event, a run or a delivery", kind="bad-parameter", field="id"
            )
        return found(await reader.why(identifier), "event, run, delivery or reminder")

    return [
        Route("/v1/runs", listing, name="runs"),
        Route("/v1/runs/{id}", one, name="run"),
        Route("/v1/why", why_by_query, name="why_by_query"),
        Route("/v1/why/{identifier:path}", why, name="why"),
    ]
