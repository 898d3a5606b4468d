"""The part of the OpenAPI document about what agents keep from run to run."""

from __future__ import annotations

from wakeful.http.change import NOTE_LIMIT
from wakeful.http.schema import Json, answer, change, listing, object_of, one, problems, query, reference

TEXT: Json = {"type": ["string", "null"], "minLength": 1, "maxLength": NOTE_LIMIT}
NOTE: Json = {"note": {**TEXT, "description": "Why"}}


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
        "State": object_of(state, *state),
        "States": listing("states", reference("State")),
        "ChangedState": object_of({"app": text, "agent": text, "version": count}, "app", "agent", "version"),
    }
