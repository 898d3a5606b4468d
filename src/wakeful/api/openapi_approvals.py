"""The part of the OpenAPI document about questions to people."""

from __future__ import annotations

from wakeful.api.approvals import APPROVAL_STATES
from wakeful.api.openapi_output import NOTE
from wakeful.http.schema import Json, after, answer, change, limit, object_of, one, one_of, page, problems, query


def approval_paths() -> Json:
    found = {
        "operationId": "list_approvals",
        "summary": "List what runs ask people, newest first",
        "parameters": [query("state", one_of(APPROVAL_STATES), "Only questions in this state"), limit(), after()],
        "responses": {
            "200": answer("A page of questions", page("approvals", "Approval")),
            **problems("400", "401", "421", "503"),
        },
    }
    given = {"answer": {"description": "The answer: it must fit the question's schema"}}
    return {
        "/v1/approvals": {"get": found},
        "/v1/approvals/{id}": one("get_approval", "One question", "id", "Approval"),
        "/v1/approvals/{id}/answer": change(
            "answer_approval",
            "Answer a question: the run that asked it goes on. The first answer stands",
            given | NOTE,
            "Answered",
            "404",
            "409",
            "422",
            parameter="id",
            required=("answer",),
        ),
    }


def approval_schemas() -> Json:
    text, nullable = {"type": "string"}, {"type": ["string", "null"]}
    approval: Json = {
        "id": text,
        "app": text,
        "agent": text,
        "run": {**text, "description": "The run that asks, and waits for the answer"},
        "question": text,
        "to": {**nullable, "description": "Whom it asks"},
        "schema": {"type": ["object", "null"], "description": "JSON schema of the answer; null: any JSON will do"},
        "state": one_of(APPROVAL_STATES),
        "answer": {},
        "answered_by": nullable,
        "note": {**nullable, "description": "What who answered said; of an open one, why it is asked again"},
        "asked_at": nullable,
        "due_at": {**nullable, "description": "When the run stops waiting for it"},
        "answered_at": nullable,
    }
    return {
        "Approval": object_of(approval, *approval),
        "Answered": object_of({"id": text, "run": text, "answer": {}}, "id", "run", "answer"),
    }
