"""Runs, and the story of a run, an event or a delivery."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.api.ports import Reader
from wakeful.api.problem import Problem
from wakeful.api.reply import JsonResponse, found
from wakeful.model import RUN_STATES

LIST_PARAMETERS = ("agent", "state", "event", "limit", "after")


def run_routes(reader: Reader) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, LIST_PARAMETERS)
        limit = read_limit(given)
        state = read_state(given, RUN_STATES)
        agent, event, after = given.get("agent"), given.get("event"), given.get("after")
        try:
            return JsonResponse(await reader.runs(agent=agent, state=state, event=event, limit=limit, after=after))
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
