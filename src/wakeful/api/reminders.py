"""Reminders: made, listed, moved and cancelled."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.change import NOTE_LIMIT, Change, read_change
from wakeful.api.parameters import bad_cursor, is_plain, read_limit, read_parameters, read_state
from wakeful.api.ports import Reader, Reminders, Shown
from wakeful.api.problem import Problem
from wakeful.api.reply import JsonResponse, found
from wakeful.api.security import ApiSettings
from wakeful.errors import ConfigError, IdempotencyConflict, InvalidTime, TooLate
from wakeful.model import ReminderState
from wakeful.triggers.reminders import Reminder

REMINDER_STATES: tuple[str, ...] = get_args(ReminderState)
MAKING = ("when", "text", "to", "unless", "where", "tz", "id")


def reminder_routes(reader: Reader, reminders: Reminders, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("app", "state", "limit", "after"))
        limit, state, after = read_limit(given), read_state(given, REMINDER_STATES), given.get("after")
        try:
            return JsonResponse(await reader.reminders(app=given.get("app"), state=state, limit=limit, after=after))
        except ValueError:
            if after is None:
                raise
            raise bad_cursor() from None

    async def find(request: Request) -> Shown | None:
        identifier = request.path_params["id"]
        return await reader.reminder(identifier) if is_plain(identifier) else None

    async def one(request: Request) -> Response:
        return found(await find(request), "reminder")

    async def answer(doing: Awaitable[Reminder]) -> Response:
        """What it is now; or why it cannot be."""
        try:
            changed = await doing
        except InvalidTime as error:
            title = "The time is past, can be read in two ways, or is none"
            raise Problem(422, str(error), kind="invalid-time", title=title, field="when") from None
        except IdempotencyConflict as error:
            title = "There is another reminder of that id"
            raise Problem(422, str(error), kind="id-in-use", title=title, field="id") from None
        except ConfigError as error:
            raise Problem(422, str(error), kind="invalid-reminder", title="There can be no such reminder") from None
        except TooLate as error:
            raise Problem(409, str(error), kind="too-late", title="It was told or cancelled") from None
        return found(await reader.reminder(changed.id), "reminder")

    async def make(request: Request) -> Response:
        change = await read_change(request, settings, MAKING)
        wanted: dict[str, Any] = {name: change.fields.text(name) for name in MAKING[2:]}
        return await answer(
            reminders.make(needed(change, "when"), needed(change, "text"), operator=change.operator, **wanted)
        )

    async def move(request: Request) -> Response:
        change = await read_change(request, settings, ("when", "tz", "note"))
        when, tz, note = needed(change, "when"), change.fields.text("tz"), change.fields.text("note")
        known = await find(request)
        if known is None:
            return found(None, "reminder")
        return await answer(reminders.move(known["id"], when, tz=tz, operator=change.operator, note=note))

    async def cancel(request: Request) -> Response:
        change = await read_change(request, settings, ("note",))
        note = change.fields.text("note")
        known = await find(request)
        if known is None:
            return found(None, "reminder")
        return await answer(reminders.cancel(known["id"], operator=change.operator, note=note))

    return [
        Route("/v1/reminders", listing, name="reminders"),
        Route("/v1/reminders", make, methods=["POST"], name="make_reminder"),
        Route("/v1/reminders/{id}", one, name="reminder"),
        Route("/v1/reminders/{id}", move, methods=["PATCH"], name="move_reminder"),
        Route("/v1/reminders/{id}", cancel, methods=["DELETE"], name="cancel_reminder"),
    ]


def needed(change: Change, name: str) -> str:
    text = change.fields.text(name)
    if text is None:
        raise change.fields.refusal(name, f"is missing: it is text of 1 to {NOTE_LIMIT:,} characters")
    return text
