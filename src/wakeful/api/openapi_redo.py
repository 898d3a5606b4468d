"""The part of the OpenAPI document about dead letters and redoing."""

from __future__ import annotations

from wakeful.api.redo import SLICE
from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, answer, change, listing, object_of, one_of, problems, query, reference
from wakeful.operations.redo import MANY


def redo_paths() -> Json:
    text = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
    flag = {"type": "boolean", "default": False}
    note = {"note": {**text, "description": "Why"}}
    data = {"data": {"description": "Handed to the handler instead of the event's own data"}}
    again = {"again": {**flag, "description": "Also a run that is done, as a new one of its family"}}
    moment = {**text, "description": "RFC 3339, a date, or how long ago, like 2h"}
    chosen: Json = {
        "agent": {**text, "description": "Dead runs of this agent"},
        "error": {**text, "description": "Those whose error contains this"},
        "all": {**flag, "description": "All of them"},
        "until": {**moment, "description": "Only what had died before then: the until of the first answer"},
    }
    messages: Json = {"channel": {**text, "description": "Dead deliveries to this channel"}}
    messages |= {name: chosen[name] for name in ("error", "all", "until")}
    events: Json = {"type": text, "from": moment, "to": moment, "agent": text}
    events["denied"] = {**flag, "description": "Also those that policy denied to the agent"}
    many: Json = {
        "filter": {**object_of(chosen), "type": ["object", "null"], "additionalProperties": False},
        "deliveries": {**object_of(messages), "type": ["object", "null"], "additionalProperties": False},
        "plan": {**flag, "description": "Only say what would be done"},
        "yes": {**flag, "description": f"Also when there are more than {MANY:,}"},
        "rate": {"type": ["string", "number", "null"], "description": "So many a second, like 20/s, or max"},
        **note,
    }
    feeding = {
        "events": {
            **object_of(events, "type", "from", "agent"),
            "type": ["object", "null"],
            "additionalProperties": False,
        }
    }
    return {
        "/v1/dead": {
            "get": {
                "operationId": "list_dead",
                "summary": "Dead letters: runs grouped by agent and error, deliveries by channel and error",
                "parameters": [
                    query("agent", {"type": "string"}, "Only of this agent"),
                    query("error", {"type": "string"}, "Only those whose error contains this"),
                ],
                "responses": {
                    "200": answer("The groups", listing("groups", reference("DeadGroup"))),
                    **problems("400", "401", "421", "503"),
                },
            }
        },
        "/v1/runs/{id}/replay": change(
            "replay_run",
            "Let a run that is over go on",
            again | data | note,
            "RedoneRun",
            "404",
            "409",
            "422",
            parameter="id",
        ),
        "/v1/runs/{id}/discard": change(
            "discard_run", "Give up on a dead letter for good", note, "RedoneRun", "404", "409", parameter="id"
        ),
        "/v1/replay": change(
            "replay",
            f"Replay many dead letters, or hand stored events to an agent: up to {SLICE:,} in one request",
            many | feeding,
            "Redone",
            "404",
            "409",
        ),
        "/v1/discard": change(
            "discard",
            f"Give up on many dead letters for good: up to {SLICE:,} in one request",
            many,
            "Redone",
            "404",
            "409",
        ),
    }


def redo_schemas() -> Json:
    text, count, nullable = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["string", "null"]}
    group: Json = {
        "kind": one_of(("run", "delivery", "input")),
        "newest_error": text,
        "count": count,
        "last_at": nullable,
    }
    of_a_kind: Json = {
        "agent": {**text, "description": "Of runs"},
        "confirmed_effects": {**count, "description": "Of runs: what a replay would not repeat"},
        "runs": {"type": "array", "items": text},
        "channel": {**text, "description": "Of deliveries"},
        "deliveries": {"type": "array", "items": text},
        "error": {**text, "description": "Of runs and deliveries: what their errors have in common"},
        "app": {**text, "description": "Of inputs"},
        "source": {**text, "description": "Of inputs"},
        "quarantined": {**text, "description": "Of inputs: what kind of input"},
        "newest": {**text, "description": "Of inputs: the newest"},
    }
    plan: Json = {
        "count": {**count, "description": "plan of a filter: how many dead letters"},
        "groups": {"type": "array", "items": reference("DeadGroup")},
        "confirmed_effects": {**count, "description": "How many would be found and not repeated"},
        "confirmed_actions": {"type": "object", "additionalProperties": count, "description": "Of which actions"},
        "events": {**count, "description": "plan of events: how many are like that"},
        "new": {**count, "description": "How many of them the agent has not had"},
    }
    done: Json = {
        "redone": {**count, "description": "How many this request did"},
        "left": {**count, "description": "How many are left: send the same again until it is 0"},
        "already_had": count,
        "denied": count,
        "until": {**text, "description": "Give this as filter.until of the next request"},
        "from": text,
        "to": text,
    }
    return {
        "DeadGroup": object_of(group | of_a_kind, *group),
        "RedoneRun": object_of({"run": text, "was": text, "confirmed_effects": count}, "run", "was"),
        "Redone": object_of(plan | done),
    }
