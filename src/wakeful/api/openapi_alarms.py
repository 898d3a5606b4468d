"""The part of the OpenAPI document about alarms."""

from __future__ import annotations

from wakeful.api.alarms import ALARM_STATES
from wakeful.api.change import NOTE_LIMIT
from wakeful.api.schema import Json, answer, change, listing, object_of, one, one_of, problems, query, reference

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
NOTE: Json = {"note": {**TEXT, "description": "Why"}}
SPAN: Json = {"for": {"type": "string", "minLength": 1, "description": "How long, like 2h"}}


def alarm_paths() -> Json:
    found = {
        "operationId": "list_alarms",
        "summary": "List alarms, the latest first",
        "parameters": [query("state", one_of(ALARM_STATES), "Only alarms in this state")],
        "responses": {
            "200": answer("The alarms", listing("alarms", reference("Alarm"))),
            **problems("400", "401", "421", "503"),
        },
    }
    key = "key"
    return {
        "/v1/alarms": {"get": found},
        "/v1/alarms/{key}": one("get_alarm", "One alarm, and what people did about it", key, "AlarmWithChanges"),
        "/v1/alarms/{key}/acknowledge": change(
            "acknowledge_alarm",
            "Somebody knows: it is told no more until it resolves",
            NOTE,
            "AlarmWithChanges",
            "404",
            "409",
            parameter=key,
        ),
        "/v1/alarms/{key}/mute": change(
            "mute_alarm",
            "It is not told for some time",
            NOTE | SPAN,
            "AlarmWithChanges",
            "404",
            "409",
            parameter=key,
            required=("for",),
        ),
        "/v1/alarms/{key}/resolve": change(
            "resolve_alarm", "It is over", NOTE, "AlarmWithChanges", "404", "409", parameter=key
        ),
    }


def alarm_schemas() -> Json:
    text, nullable, number = {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer"}
    alarm: Json = {
        "key": text,
        "app": text,
        "state": one_of(ALARM_STATES),
        "text": text,
        "count": {**number, "description": "How often it was raised in this incident"},
        "opened_at": text,
        "last_at": text,
        "agent": nullable,
        "owner": nullable,
        "incident": {**number, "description": "How often it has opened"},
        "loud": {"type": "boolean", "description": "It cannot be muted"},
        "told": {**number, "description": "How often somebody was told of this incident"},
        "told_at": nullable,
        "tell_at": {**nullable, "description": "When somebody is told next"},
        "acknowledged_at": nullable,
        "acknowledged_by": nullable,
        "note": nullable,
        "muted_until": nullable,
        "resolved_at": nullable,
    }
    # A server of an older version, behind the same address, does not know these.
    added: Json = {
        "subject": {**text, "description": "The alarm in one short sentence"},
        "do": {**nullable, "description": "What a person can do about it"},
        "to": {**nullable, "description": "The channel that it names, which goes before the owner's"},
        "remind_at": {**nullable, "description": "When it is told once more, where it is not told at a rate"},
        "ending": {**nullable, "description": "How it ended, where that is known"},
    }
    done: Json = {"verb": text, "by": text, "note": nullable, "at": text}
    changes: Json = {"changes": {"type": "array", "items": object_of(done, *done)}}
    return {
        "Alarm": object_of(alarm | added, *alarm),
        "AlarmWithChanges": object_of(alarm | added | changes, *alarm, "changes"),
    }
