"""Examples for readers of the OpenAPI document. A view or a field can give its own (`About(…, example=…)`, `Verb(…, example=…)`); all
others are made from the schema, with a typical value for each key by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.http.schema import Json

MOMENT = "2026-08-01T08:00:00Z"
RUN = "22290ae6d7fc693079e167a06b"
EVENT = "ff29f843924b871a6b305d778a"
EFFECT = "5d0c4f7a1b9e3c2286d1f0a4b7"
DELIVERY = "22290ae6d7fc693079e167a06b-05d6fdd5f622"
# Of an enumeration, the first of these that it has. Otherwise its first value.
USUAL = (
    "live",
    "done",
    "delivered",
    "confirmed",
    "accepted",
    "started",
    "open",
    "reading",
    "met",
    "alive",
    "code",
    "ok",
    "passed",
    "committed",
    "fired",
    "transient",
    "idempotent",
    "queue_one",
    "latest",
    "schedule",
    "run",
    "kept",
    "pending",
)
# A typical value for a key, or several: the first that has the type of the key is taken. A key that may be null and is not here is null.
VALUES: dict[str, tuple[Any, ...]] = {
    "action": ("post_comment",),
    "after": ("120",),
    "agent": ("triage",),
    "alarm": ("waiting/desk/triage",),
    "answer": ("allow", {"approved": True}),
    "app": ("desk",),
    "approval": ("7e9ff74fcc8daf7d332145b62e",),
    "arguments": ([[8841, "Thank you"], {}],),
    "asked_at": (MOMENT,),
    "attempt": (1,),
    "attempts": (1,),
    "by": ("ada",),
    "changed_at": (MOMENT,),
    "changed_by": ("ada",),
    "channel": ("email",),
    "check": ("heartbeat/mail",),
    "claim": (1,),
    "committed_at": (MOMENT,),
    "count": (1,),
    "data": ({"ticket": 8841},),
    "delivery": (DELIVERY,),
    "duration": (0.4,),
    "effect": (EFFECT,),
    "event": (EVENT,),
    "event_at": (MOMENT,),
    "every": ("*/30 * * * *",),
    "expectation": ("nightly backup",),
    "finished_at": (MOMENT,),
    "from": (MOMENT,),
    "headers": ({"content-type": "application/json"},),
    "heartbeat": ("heartbeat",),
    "host": ("worker-1",),
    "id": ("t1",),
    "incident": (1,),
    "kept": ("fetch",),
    "key": (EVENT,),
    "kind": ("webhook",),
    "last_at": (MOMENT,),
    "local": ("2026-08-01 09:00",),
    "made_by": ("ada",),
    "message": ("no answer within 30 s", {"text": "Ticket 8841 is answered"}),
    "met_at": (MOMENT,),
    "name": ("morning",),
    "next": ("120",),
    "next_at": (MOMENT,),
    "note": ("fixed in version 1.4",),
    "opened_at": (MOMENT,),
    "operator": ("ada",),
    "output": ({"text": "Thank you"},),
    "owner": ("platform",),
    "pid": (4242,),
    "plan": ("replay run 22290ae6d7fc693079e167a06b of agent triage",),
    "process": ("3f2a91c04d1be20a",),
    "question": ("Refund 50 EUR to customer 17?",),
    "raw": ("eyJ0aWNrZXQiOiA4ODQxfQ==",),
    "read_at": (MOMENT,),
    "reason": ("met on time",),
    "rest": (30,),
    "result": ({"id": 17}, "quiet"),
    "root": (RUN,),
    "new_answer": ("ask",),
    "new_rule": ("large-refunds",),
    "old_answer": ("allow",),
    "old_rule": ("refunds",),
    "rule": ('cron("0 9 * * 1-5", tz="Europe/London")',),
    "run": (RUN,),
    "schedule": ("morning",),
    "session": ("isolated",),
    "settled_at": (MOMENT,),
    "since": (MOMENT,),
    "size": (512,),
    "source": ("/desk/tickets",),
    "started_at": (MOMENT,),
    "state": ("done",),
    "subject": ("8841",),
    "text": ("Ticket 8841 is answered",),
    "title": ("Mail",),
    "to": (MOMENT, "ops"),
    "token": (1,),
    "tries": (1,),
    "type": ("ticket.created",),
    "until": (MOMENT,),
    "value": ({"seen": 12},),
    "verb": ("replay",),
    "version": (3, "1.4"),
    "was": ("dead",),
    "what": ("an event of type wakeful.checkin by 03:00",),
    "when": ("tomorrow 9am",),
    "workers": (1,),
    "zone": ("Europe/London",),
}
# Keys that may be null, and usually are.
USUALLY_NULL = frozenset({"answer", "note", "reason", "text", "was"})
# Lists that are usually empty.
USUALLY_EMPTY = frozenset({"alarms", "changes", "children", "conflicts", "decisions", "failures", "remedies"})
# Objects that may be null, and that a reader wants to see.
SHOWN = frozenset({"became", "event", "holder", "last", "latest", "next", "outcome"})


def example_of(schema: Json, schemas: Mapping[str, Json], name: str = "") -> Any:
    """A value that fits a schema. `name` is the key that has the value."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    if schema.get("examples"):
        return schema["examples"][0]
    if "const" in schema:
        return schema["const"]
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        null = {"type": "null"} in choices and name not in SHOWN
        return None if null else example_of(next(one for one in choices if one != {"type": "null"}), schemas, name)
    if schema.get("enum"):
        return next((one for one in USUAL if one in schema["enum"]), schema["enum"][0])
    if "null" in kinds_of(schema) and name in USUALLY_NULL:
        return None
    for value in VALUES.get(name, ()):
        if fits(value, schema):
            return value
    return made(schema, schemas, name)


def made(schema: Json, schemas: Mapping[str, Json], name: str) -> Any:
    """A value of the schema's type."""
    kinds = kinds_of(schema)
    if "null" in kinds and not (kinds[0] == "object" and name in SHOWN):
        return None
    match kinds[0] if kinds else None:
        case "object" if "properties" in schema:
            keys = schema.get("required") or schema["properties"]
            return {key: example_of(schema["properties"][key], schemas, key) for key in keys}
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return {"triage": example_of(schema["additionalProperties"], schemas, "count")}
        case "object":
            return {}
        case "array":
            items = schema.get("items", {})
            empty = name in USUALLY_EMPTY and kinds_of(items) != ["string"]
            return [] if empty else [example_of(items, schemas, name.removesuffix("s"))]
        case "string":
            return MOMENT if schema.get("format") == "date-time" else "…"
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case _:
            return None


def kinds_of(schema: Json) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def fits(value: Any, schema: Json) -> bool:
    """Whether a value of the table has the type of a key. A key without a type takes any value; a key for times, a time."""
    types: dict[type, tuple[str, ...]] = {str: ("string",), int: ("integer", "number"), float: ("number",)}
    kinds = kinds_of(schema)
    if not kinds:
        return "description" in schema
    if schema.get("format") == "date-time" and value != MOMENT:
        return False
    if isinstance(value, dict):
        return "object" in kinds and "properties" not in schema
    if isinstance(value, list):
        return False  # its items may be of any type
    return not set(types[type(value)]).isdisjoint(kinds)


def with_examples(paths: Json, schemas: Mapping[str, Json]) -> Json:
    """Add an example to each answer in JSON and to each body that has none."""
    for item in paths.values():
        for operation in item.values():
            bodies = list(operation.get("requestBody", {}).get("content", {}).values())
            answers = [
                content
                for answer in operation["responses"].values()
                for kind, content in answer.get("content", {}).items()
                if kind == "application/json"
            ]
            for content in (*bodies, *answers):
                if content.keys().isdisjoint({"example", "examples"}):
                    content["example"] = example_of(content["schema"], schemas)
    return paths
