"""Alarms: what should have happened and did not, and what broke; and what people do about them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.change import Change, bad_body, read_change
from wakeful.api.parameters import is_plain, read_parameters, read_state
from wakeful.api.ports import Reader, Store
from wakeful.api.problem import Problem
from wakeful.api.reply import JsonResponse, found
from wakeful.api.security import ApiSettings
from wakeful.clock import SECOND, Microseconds, duration
from wakeful.model import AlarmState
from wakeful.operations.alarms import VERBS
from wakeful.stores.alarms import AlarmVerb, ChangeAlarm

ALARM_STATES: tuple[str, ...] = get_args(AlarmState)


def alarm_routes(reader: Reader, store: Store, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("state",))
        return JsonResponse(await reader.alarms(state=read_state(given, ALARM_STATES)))

    async def one(request: Request) -> Response:
        key = request.path_params["key"]
        return found(await reader.alarm(key) if is_plain(key) else None, "alarm")

    def changing(verb: AlarmVerb) -> Callable[[Request], Awaitable[Response]]:
        known = ("note", "for") if verb == "mute" else ("note",)

        async def change(request: Request) -> Response:
            asked = await read_change(request, settings, known)
            span = read_span(asked) if verb == "mute" else 0
            key = request.path_params["key"]
            request_made = ChangeAlarm(key, verb, span=span, by=asked.by, note=asked.fields.text("note"))
            changed = await store.do(request_made) if is_plain(key) else None
            if changed is None:
                return found(None, "alarm")
            if changed.refused is not None:
                title = "That cannot be done to this alarm"
                raise Problem(409, f"alarm {key} {changed.refused}", kind="alarm-refuses", title=title)
            return found(await reader.alarm(key), "alarm")

        return change

    return [
        Route("/v1/alarms", listing, name="alarms"),
        # A key has slashes in it, so that what is done to it must come first.
        *(
            Route(f"/v1/alarms/{{key:path}}/{verb}", changing(verb), methods=["POST"], name=f"{verb}_alarm")
            for verb in VERBS
        ),
        Route("/v1/alarms/{key:path}", one, name="alarm"),
    ]


def read_span(change: Change) -> Microseconds:
    """How long it is muted."""
    given = change.fields.text("for")
    if given is None:
        raise bad_body('for is missing: how long, like "2h"', "for")
    try:
        span = duration(given)
    except ValueError as error:
        raise bad_body(f"for: {error}", "for") from None
    if span < SECOND:
        raise bad_body("for must be at least 1s", "for")
    return span
