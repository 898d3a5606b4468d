"""Alarms: what should have happened and did not, and what broke."""

from __future__ import annotations

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.parameters import read_parameters, read_state
from wakeful.api.ports import Reader
from wakeful.api.reply import JsonResponse
from wakeful.model import AlarmState

ALARM_STATES: tuple[str, ...] = get_args(AlarmState)


def alarm_routes(reader: Reader) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("state",))
        return JsonResponse(await reader.alarms(state=read_state(given, ALARM_STATES)))

    return [Route("/v1/alarms", listing, name="alarms")]
