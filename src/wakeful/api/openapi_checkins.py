"""The part of the OpenAPI document about check-ins."""

from __future__ import annotations

from wakeful.http.schema import Json, answer, in_path, operation, operator, problems, query, reference
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT


def checkin_paths() -> Json:
    identifier = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
    data = {"schema": {"description": "The event's data"}, "example": {"rows": 1200}}
    receipt = {"source": "/desk/checkins", "id": "2026-08-01", "status": "accepted", "runs": []}
    checkin = operation(
        "check_in",
        "checkins",
        "Report that the expected task of this name was done",
        {
            "202": answer("The result for the event", reference("Receipts"), example={"events": [receipt]}),
            **problems("400", "401", "404", "413", "421", "503"),
        },
        description="Creates an event of type wakeful.checkin, and answers after it is on disk.",
        parameters=[
            in_path("name", "nightly backup"),
            query("id", identifier, "The event id (default: a new one); a repeated id is a duplicate"),
            operator(),
        ],
        requestBody={"required": False, "content": {PLAIN: data}},
    )
    return {"/v1/checkins/{name}": {"post": checkin}}
