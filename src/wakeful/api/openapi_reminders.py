"""The part of the OpenAPI document about reminders."""

from __future__ import annotations

from wakeful.api.change import NOTE_LIMIT
from wakeful.api.openapi_output import NOTE
from wakeful.api.reminders import REMINDER_STATES
from wakeful.api.schema import Json, after, answer, change, limit, object_of, one, one_of, page, problems, query

NEEDED: Json = {"type": "string", "minLength": 1, "maxLength": NOTE_LIMIT}
TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}


def reminder_paths() -> Json:
    found = {
        "operationId": "list_reminders",
        "summary": "List reminders, newest first",
        "parameters": [
            query("app", {"type": "string"}, "Only those of this app"),
            query("state", one_of(REMINDER_STATES), "Only reminders in this state"),
            limit(),
            after(),
        ],
        "responses": {
            "200": answer("A page of reminders", page("reminders", "Reminder")),
            **problems("400", "401", "421", "503"),
        },
    }
    when: Json = {"when": {**NEEDED, "description": "A time in words, like in 20 minutes, tomorrow 9am, 24 dec 18:00"}}
    zone: Json = {"tz": {**TEXT, "description": "The zone of that time, like Europe/London"}}
    made: Json = {
        **when,
        "text": {**NEEDED, "description": "What to be reminded of"},
        "to": {**TEXT, "description": "The channel"},
        "unless": {**TEXT, "description": "Not if an event of this type has come by then"},
        "where": {**TEXT, "description": "CEL: and only one of which this holds"},
        **zone,
        "id": {**TEXT, "description": "An id of your own: asking again for the same makes no second one"},
    }
    single = one("get_reminder", "One reminder, with its history", "id", "Reminder")
    single |= change(
        "move_reminder",
        "Give it another time, unless it was told or cancelled",
        {**when, **zone, **NOTE},
        "Reminder",
        *("404", "409", "422"),
        parameter="id",
        method="patch",
        required=("when",),
    )
    single |= change(
        "cancel_reminder",
        "It is not told, unless it was",
        NOTE,
        "Reminder",
        *("404", "409", "422"),
        parameter="id",
        method="delete",
    )
    making = change("make_reminder", "Make a reminder", made, "Reminder", "422", required=("when", "text"))
    return {"/v1/reminders": {"get": found, **making}, "/v1/reminders/{id}": single}


def reminder_schemas() -> Json:
    text, nullable = {"type": "string"}, {"type": ["string", "null"]}
    reminder: Json = {
        "id": text,
        "app": text,
        "state": one_of(REMINDER_STATES),
        "text": text,
        "to": {**text, "description": "The channel"},
        "unless": nullable,
        "where": nullable,
        "due_at": {**text, "description": "When it is told"},
        "zone": text,
        "made_at": text,
        "made_by": text,
        "changed_at": text,
        "changed_by": text,
        "told_at": nullable,
        "late": {**nullable, "description": "How late it was told, if it was late"},
        "run": {**nullable, "description": "The run that tells it"},
        "reason": {**nullable, "description": "Why it was not told"},
    }
    history = {"type": "array", "items": {"type": "object"}, "description": "Only where one is asked for"}
    return {"Reminder": object_of({**reminder, "history": history}, *reminder)}
