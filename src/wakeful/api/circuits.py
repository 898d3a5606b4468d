"""Circuits: which dependencies are down."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.parameters import read_parameters
from wakeful.api.ports import Reader
from wakeful.api.reply import JsonResponse


def circuit_routes(reader: Reader) -> list[Route]:
    async def listing(request: Request) -> Response:
        app = read_parameters(request.query_params, ("app",)).get("app")
        return JsonResponse({"circuits": [one for one in await reader.circuits() if app in {None, one["app"]}]})

    return [Route("/v1/circuits", listing, name="circuits")]
