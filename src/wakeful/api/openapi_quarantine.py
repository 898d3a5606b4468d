"""The part of the OpenAPI document about quarantine."""

from __future__ import annotations

from typing import get_args

from wakeful.api.quarantine import KINDS, STATES
from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, after, answer, change, limit, object_of, one, one_of, page, problems, query
from wakeful.stores.verbs.quarantine_room import WhyCut

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
NOTE: Json = {"note": {**TEXT, "description": "Why"}}
TRUST: Json = {"trust": {"type": "boolean", "default": False, "description": "Do not verify the sender again"}}


def quarantine_paths() -> Json:
    app = query("app", {"type": "string"}, "Of which app")
    kept = {
        "operationId": "list_quarantine",
        "summary": "List what could not be verified or read, newest first",
        "parameters": [
            app,
            query("source", {"type": "string"}, "Only what came from this source"),
            query("kind", one_of(KINDS), "Only what could not be verified, or not be read"),
            query("state", one_of(STATES), "Only what is in this state"),
            limit(),
            after(),
        ],
        "responses": {"200": answer("A page of it", quarantine_page()), **problems("400", "401", "421", "503")},
    }
    return {
        "/v1/quarantine": {"get": kept},
        "/v1/quarantine/{key}": one(
            "get_quarantined",
            "One of them, with its bytes, by its key or the beginning of it",
            "key",
            "QuarantinedDetail",
        ),
        "/v1/quarantine/{key}/release": change(
            "release_quarantined",
            "Have its source read it again, and let in what comes out",
            TRUST | NOTE,
            "SettledInput",
            "404",
            "409",
            "422",
            parameter="key",
        ),
        "/v1/quarantine/{key}/discard": change(
            "discard_quarantined", "Nothing comes of it", NOTE, "SettledInput", "404", "409", parameter="key"
        ),
    }


CUT: Json = {
    "count": {"type": "integer"},
    "bytes": {"type": "integer"},
    "since": {"type": "string", "description": "When the first was removed"},
    "last_at": {"type": "string"},
}


def quarantine_page() -> Json:
    """A page of quarantine, with the room that the unverified take. A server of an older version does not know that."""
    shown = page("quarantine", "Quarantined")
    text: Json = {"type": "string"}
    where: Json = {"app": text, "source": text, "why": one_of(get_args(WhyCut))}
    room: Json = {
        "held": {"type": "integer", "description": "Bytes that the unverified take now"},
        "cut": {
            "type": "array",
            "description": "What was removed of them, so that they stay below their ceiling",
            "items": object_of(where | CUT, *where, *CUT),
        },
    }
    shown["properties"]["unverified"] = object_of(room, *room)
    return shown


def quarantine_schemas() -> Json:
    text, nullable, number = {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer"}
    became: Json = {"key": text, "events": number}
    kept: Json = {
        "key": text,
        "app": text,
        "source": text,
        "kind": one_of(KINDS),
        "state": one_of(STATES),
        "reason": nullable,
        "size": {**number, "description": "Bytes"},
        "came": {**number, "description": "How often"},
        "first_at": text,
        "became": {"type": ["object", "null"], "properties": became, "description": "The first event made of it"},
        "settled_by": nullable,
        "settled_at": nullable,
        "note": nullable,
        "event": object_of({"source": text, "id": text}, "source", "id"),
    }
    whole: Json = {
        "headers": {"type": ["object", "null"], "description": "What came along, without credentials"},
        "raw": {**nullable, "contentEncoding": "base64", "description": "The bytes as they came"},
    }
    known: Json = {
        "form": {
            **nullable,
            "description": "raw, event (read by its source, and written down by Wakeful), or null: not known",
        }
    }
    settled: Json = {"key": text, "state": one_of(STATES), "events": {"type": "array", "items": {"type": "object"}}}
    return {
        "Quarantined": object_of(kept, *kept),
        "QuarantinedDetail": object_of(kept | whole | known, *kept, *whole),
        "SettledInput": object_of(settled, *settled),
    }
