"""The part of the OpenAPI document about what runs put out and keep: deliveries and states."""

from __future__ import annotations

from wakeful.api.change import NOTE_LIMIT
from wakeful.api.deliveries import DELIVERY_STATES
from wakeful.api.schema import (
    Json,
    after,
    answer,
    change,
    limit,
    listing,
    object_of,
    one,
    one_of,
    page,
    problems,
    query,
    reference,
)

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
NOTE: Json = {"note": {**TEXT, "description": "Why"}}


def delivery_paths() -> Json:
    words = {
        "replay": "A dead delivery is tried again, under the same id",
        "discard": "A dead delivery shall not be sent",
    }
    found = {
        "operationId": "list_deliveries",
        "summary": "List messages to channels, newest first",
        "parameters": [
            query("channel", {"type": "string"}, "Only those to this channel"),
            query("state", one_of(DELIVERY_STATES), "Only deliveries in this state"),
            limit(),
            after(),
        ],
        "responses": {
            "200": answer("A page of deliveries", page("deliveries", "Delivery")),
            **problems("400", "401", "421", "503"),
        },
    }
    paths = {
        "/v1/deliveries": {"get": found},
        "/v1/deliveries/{id}": one("get_delivery", "One delivery", "id", "Delivery"),
    }
    for verb, summary in words.items():
        paths[f"/v1/deliveries/{{id}}/{verb}"] = change(
            f"{verb}_delivery", summary, NOTE, "RedoneDelivery", "404", "409", parameter="id"
        )
    return paths


def state_paths() -> Json:
    app = {"app": {**TEXT, "description": "Of which app, where it is not the one that this server runs"}}
    value = {"value": {"description": "The new state: it must fit the agent's model"}}
    app |= {"key": {**TEXT, "description": "What it keeps for this key, where the agent has key="}}
    named = query("app", {"type": "string"}, "Only those of this app")
    found = {
        "operationId": "list_states",
        "summary": "What agents keep from run to run",
        "parameters": [named],
        "responses": {
            "200": answer("The states", listing("states", reference("State"))),
            **problems("400", "401", "421", "503"),
        },
    }
    one_agent = one("get_state", "What one agent keeps, in each app that has it", "agent", "States")
    one_agent["get"]["parameters"].append(named)
    one_agent["get"]["responses"] |= problems("400")
    put = change(
        "set_state",
        "Set what an agent keeps: a run that has read the old one goes again with this",
        value | app | NOTE,
        "ChangedState",
        "404",
        "422",
        parameter="agent",
        method="put",
        required=("value",),
    )
    delete = change(
        "clear_state",
        "Clear what an agent keeps: the next run begins as the first one did",
        app | NOTE,
        "ChangedState",
        "404",
        parameter="agent",
        method="delete",
    )
    return {"/v1/states": {"get": found}, "/v1/states/{agent}": one_agent | put | delete}


def output_schemas() -> Json:
    text, count, nullable = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["string", "null"]}
    delivery: Json = {
        "id": text,
        "channel": text,
        "state": one_of(DELIVERY_STATES),
        "reason": nullable,
        "message": {},
        "subject": nullable,
        "error": {"type": ["object", "null"]},
        "tries": count,
        "due_at": nullable,
        "committed_at": nullable,
        "settled_at": nullable,
        "run": text,
        "agent": text,
    }
    state: Json = {
        "app": text,
        "agent": text,
        "key": text,
        "value": {"description": "null: nothing is kept"},
        "version": count,
        "changed_by": {**nullable, "description": "A run, or a person"},
        "changed_at": nullable,
        "note": {**nullable, "description": "What a person said about their change"},
        "run": {**nullable, "description": "The run that has it now: the next one waits for it"},
    }
    return {
        "Delivery": object_of(delivery, *delivery),
        "RedoneDelivery": object_of({"delivery": text, "was": {"const": "dead"}}, "delivery", "was"),
        "State": object_of(state, *state),
        "States": listing("states", reference("State")),
        "ChangedState": object_of({"app": text, "agent": text, "version": count}, "app", "agent", "version"),
    }
