"""The part of the OpenAPI document about schedules."""

from __future__ import annotations

from typing import get_args

from wakeful.api.schedules import COUNT_DEFAULT, COUNT_LARGEST
from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, after, answer, change, limit, object_of, one_of, page, problems, query, reference
from wakeful.model import EVENT_STATES, SCHEDULE_STATES
from wakeful.operations.scheduling import OPTIONS
from wakeful.triggers.schedule import NAME_LIMIT, CatchUp, ScheduleOverlap

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
NAME: Json = {"type": "string", "minLength": 1, "maxLength": NAME_LIMIT, "description": "Printable, without /"}
WORDS = {
    "cron": "The five fields of crontab, or @daily and its like",
    "every": "An interval, like 30m",
    "at": "Once, like 2026-12-24T18:00",
    "tz": "Whose clock, like Europe/London",
    "active": "With every: only in these hours, like 08:00-20:00",
    "days": "With every: only on these days, like mon-fri",
    "overlap": "While the run before is not over",
    "catch_up": "Of what was due while nobody was there",
    "grace": "How late the latest of them may still be done, like 1h",
    "max_age": "With catch_up all: no older than this",
    "max_count": "With catch_up all: no more than so many",
    "jitter": "Fire up to so much later, always by the same",
    "expires": "What has not begun so long after its instant never does",
    "starts_within": "Later than that, somebody hears that it has not begun",
    "ends_within": "Longer than that, somebody hears that it is not over",
}


def options() -> Json:
    """What a schedule is made of; exactly one of cron, every and at says when."""
    fields: Json = {name: {**TEXT, "description": WORDS[name]} for name in OPTIONS}
    fields["max_count"] = {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": 100_000,
        "description": WORDS["max_count"],
    }
    fields["overlap"] = {"enum": [*get_args(ScheduleOverlap), None], "description": WORDS["overlap"]}
    fields["catch_up"] = {"enum": [*get_args(CatchUp), None], "description": WORDS["catch_up"]}
    return fields


def schedule_paths() -> Json:
    app = query("app", {"type": "string"}, "Of which app, where it is not the one that this server runs")
    note: Json = {"note": {**TEXT, "description": "Why"}}
    data: Json = {"data": {"description": "What its events carry"}}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    listing = {
        "operationId": "list_schedules",
        "summary": "List schedules, by app and name",
        "parameters": [
            query("app", {"type": "string"}, "Only those of this app"),
            query("agent", {"type": "string"}, "Only those of this agent"),
            query("state", one_of(SCHEDULE_STATES), "Only those in this state"),
            query("all", {"type": "boolean", "default": False}, "Reminders and removed ones too"),
            limit(),
            after(),
        ],
        "responses": {
            "200": answer("A page of schedules", page("schedules", "Schedule")),
            **problems("400", "401", "421", "503"),
        },
    }
    made = {"name": NAME, "agent": {"type": "string", "minLength": 1, "maxLength": NOTE_LIMIT}}
    show = {
        "operationId": "get_schedule",
        "summary": "One schedule, with what became of its instants, who changed it, and its alarms",
        "parameters": [name, app],
        "responses": {
            "200": answer("Found", reference("ScheduleDetail")),
            **problems("400", "401", "404", "421", "503"),
        },
    }
    count: Json = {"type": "integer", "minimum": 1, "maximum": COUNT_LARGEST, "default": COUNT_DEFAULT}
    upcoming = {
        "operationId": "next_of_schedule",
        "summary": "Its next instants, by its rule",
        "parameters": [name, app, query("count", count, "How many")],
        "responses": {
            "200": answer("The instants", reference("Instants")),
            **problems("400", "401", "404", "421", "503"),
        },
    }
    verbs: Json = {
        f"/v1/schedules/{{name}}/{verb}": change(
            f"{verb}_schedule", summary, note, schema, "404", "409", parameter="name"
        )
        for verb, summary, schema in (
            ("fire", "Fire it now, beside its instants", "FiredSchedule"),
            ("pause", "Fire nothing until it is resumed; what would be due is skipped", "ScheduleDetail"),
            ("resume", "Fire again, from now on", "ScheduleDetail"),
        )
    }
    return {
        "/v1/schedules": {
            "get": listing,
            **change(
                "add_schedule",
                "Make a schedule for an agent of this server's app",
                made | options() | data | note,
                "ScheduleDetail",
                "404",
                "409",
                "422",
                required=("name", "agent"),
            ),
        },
        "/v1/schedules/{name}": {
            "get": show,
            **change(
                "edit_schedule",
                "Change what is given of a schedule that was made at run time; null takes an option away",
                {"agent": TEXT} | options() | data | note,
                "ScheduleDetail",
                "404",
                "409",
                "422",
                parameter="name",
                method="patch",
            ),
            **change(
                "remove_schedule",
                "Remove a schedule that was made at run time; its history stays",
                note,
                "ScheduleDetail",
                "404",
                "409",
                parameter="name",
                method="delete",
            ),
        },
        "/v1/schedules/{name}/next": {"get": upcoming},
        **verbs,
    }


def schedule_schemas() -> Json:
    text, nullable, number = {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer"}
    seconds: Json = {"type": ["number", "null"], "description": "Seconds"}
    instant: Json = {
        "at": {**text, "format": "date-time"},
        "local": {**text, "description": "What the clock on the wall shows then"},
        "zone": text,
    }
    row: Json = {
        "state": {**text, "enum": ["fired", "missed", "coalesced", "skipped", "superseded"]},
        "reason": nullable,
        "from": {**text, "description": "The first instant"},
        "to": {**text, "description": "And the last"},
        "count": number,
        "revision": {**number, "description": "Of its definition"},
        "run": {**nullable, "description": "That was started, or into which they went"},
        "run_state": {**nullable, "description": "null: there is none, or it was removed"},
        "settled_at": text,
        "redone": {**number, "description": "How many of them a backfill did later"},
    }
    cadence: Json = {
        "firings": {**number, "description": "How many of the last ones were looked at"},
        "late": {**seconds, "description": "Seconds, of the last firing"},
        "typically_late": {**seconds, "description": "Seconds, the median"},
        "configured": {**seconds, "description": "Seconds between instants over that stretch"},
        "real": {**seconds, "description": "Seconds between firings"},
        "drift": {"type": ["number", "null"], "description": "0.4: the real interval is longer by 40 %"},
    }
    last: Json = {**instant, "fired_at": text, "run": nullable, "state": nullable}
    queued: Json = {"from": text, "to": text, "count": number, "waits_for": nullable}
    schedule: Json = {
        "app": text,
        "name": text,
        "agent": text,
        "origin": {**text, "enum": ["code", "runtime", "reminder", "heartbeat"]},
        "state": one_of(SCHEDULE_STATES),
        "revision": number,
        "rule": {**text, "description": "As code would write it, with its zone"},
        "zone": text,
        "options": {"type": "object", "description": "overlap, catch_up and the rest; durations in seconds"},
        "owner": nullable,
        "next": _maybe(instant),
        "due_at": {**nullable, "description": "When that is fired: with its jitter"},
        "last": _maybe(last),
        "queued": {**_maybe(queued), "description": "Instants that wait for a run"},
        "latest": {**_maybe(row), "description": "The last row of the ledger"},
        "cadence": object_of(cadence, *cadence),
        "counts": {"type": "object", "description": "How many of the last instants became what, since when"},
        "created_at": text,
        "changed_at": text,
        "changed_by": text,
    }
    changed: Json = {
        "revision": number,
        "verb": text,
        "operator": text,
        "note": nullable,
        "rule": nullable,
        "changed_at": text,
    }
    detail: Json = {
        "data": {},
        "occurrences": {"type": "array", "items": object_of(row, *row), "description": "The latest first"},
        "changes": {"type": "array", "items": object_of(changed, *changed), "description": "The latest first"},
        "alarms": {"type": "array", "items": {"type": "object"}},
    }
    upcoming = object_of({**instant, "due_at": text}, *instant, "due_at")
    instants: Json = {
        "app": text,
        "name": text,
        "state": one_of(SCHEDULE_STATES),
        "rule": text,
        "zone": text,
        "next": {"type": "array", "items": upcoming},
    }
    fired: Json = {
        "app": text,
        "name": text,
        "event": {**text, "description": "The id of its event"},
        "status": one_of(EVENT_STATES),
        "runs": {"type": "array", "items": text},
    }
    return {
        "Schedule": object_of(schedule, *schedule),
        "ScheduleDetail": object_of(schedule | detail, *schedule, *detail),
        "Instants": object_of(instants, *instants),
        "FiredSchedule": object_of(fired, *fired),
    }


def _maybe(properties: Json) -> Json:
    return {**object_of(properties, *properties), "type": ["object", "null"]}
