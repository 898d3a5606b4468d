"""Sources: what brings events in, how each is, and who reads it."""

from __future__ import annotations

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader
from wakeful.http.parameters import is_plain, read_parameters, read_state
from wakeful.http.reply import JsonResponse, found
from wakeful.model import ShownSourceState

SOURCE_STATES: tuple[str, ...] = get_args(ShownSourceState)


def source_routes(reader: Reader) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("app", "state"))
        state = read_state(given, SOURCE_STATES)
        listed = await reader.sources(app=given.get("app"))
        return JsonResponse({"sources": [one for one in listed if state in {None, one["state"]}]})

    async def one(request: Request) -> Response:
        app = read_parameters(request.query_params, ("app",)).get("app")
        name = request.path_params["name"]
        return found(await reader.source(name, app) if is_plain(name) else None, "source")

    return [
        Route("/v1/sources", listing, name="sources"),
        Route("/v1/sources/{name:path}", one, name="source"),  # a name may be that of a folder, or of a path
    ]
