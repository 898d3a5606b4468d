"""The part of the OpenAPI document about starting runs and waiting for their outputs."""

from __future__ import annotations

from wakeful.http.schema import Json, answer, in_path, operation, operator, problems, query, reference
from wakeful.intake.cloudevents import PLAIN, TEXT_LIMIT
from wakeful.surface.examples import RUN


def wait_parameter() -> Json:
    text = {"type": "string", "pattern": r"^[0-9]+(ms|s|m)$", "examples": ["10s"]}
    return query("wait", text, "Answer when the runs are finished, or after this time, at most 60s")


def agent_paths() -> Json:
    identifier = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
    data = {"schema": {"description": "The run's data"}, "example": {"ticket": 8841}}
    receipt = {"source": "/desk/run", "id": "8841", "status": "accepted", "runs": [RUN]}
    result = {**receipt, "outputs": {RUN: {"text": "Thank you"}}}
    start = operation(
        "start_run",
        "runs",
        "Run an agent now, regardless of its triggers",
        {
            "200": answer("The run is finished", reference("Results"), example={"events": [result]}),
            "202": answer("The result for the event", reference("Receipts"), example={"events": [receipt]}),
            **problems("400", "401", "404", "413", "415", "421", "503"),
        },
        description="Creates an event of type wakeful.run for this agent only, and answers after it is on disk.",
        parameters=[
            in_path("agent", "triage"),
            query("id", identifier, "The event id (default: a new one); a repeated id refers to the same run"),
            wait_parameter(),
            operator(),
        ],
        requestBody={"required": False, "content": {PLAIN: data}},
    )
    return {"/v1/agents/{agent}/runs": {"post": start}}
