"""`GET /v1/why`: the story of a run, an event, a delivery or another stored thing."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.http.parameters import is_plain, read_parameters
from wakeful.http.problem import Problem
from wakeful.http.reply import found
from wakeful.resources.desk import Reads
from wakeful.why import why


def why_routes(reads: Reads) -> list[Route]:
    async def by_path(request: Request) -> Response:
        identifier = request.path_params["identifier"]
        return found(await why(reads, identifier) if is_plain(identifier) else None, "event, run, delivery or reminder")

    async def why_by_query(request: Request) -> Response:
        identifier = read_parameters(request.query_params, ("id",)).get("id")
        if identifier is None:
            raise Problem(
                400, "id is missing: give the id of an event, a run or a delivery", kind="bad-parameter", field="id"
            )
        return found(await why(reads, identifier), "event, run, delivery or reminder")

    return [
        Route("/v1/why", why_by_query, name="why_by_query"),
        Route("/v1/why/{identifier:path}", by_path, name="why"),
    ]
