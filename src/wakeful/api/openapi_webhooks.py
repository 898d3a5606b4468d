"""The part of the OpenAPI document about the webhooks of this server's app."""

from __future__ import annotations

from collections.abc import Iterable

from wakeful.http.schema import Json, answer, operation, problems, reference
from wakeful.surface.examples import RUN
from wakeful.triggers.endpoint import Endpoint


def webhook_paths(endpoints: Iterable[Endpoint]) -> Json:
    return {one.path: {"post": _webhook(one)} for one in endpoints}


def _webhook(one: Endpoint) -> Json:
    receipt = {"source": one.source, "id": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "status": "accepted", "runs": [RUN]}
    body = {
        "schema": {"description": "The body as the sender signs it"},
        "example": {"action": "opened", "number": 8841},
    }
    return operation(
        f"webhook{one.path.replace('/', '_')}",
        "webhooks",
        f"A webhook, verified as {one.verifier.name}",
        {
            "200": answer("The text that this sender expects", {"type": "string"}, "text/plain", example="3eZbrw1aB1"),
            "202": answer("The result for each event", reference("Receipts"), example={"events": [receipt]}),
            **problems("401", "403", "408", "413", "415", "421", "429", "503"),
        },
        security=[{}],
        requestBody={"required": True, "content": {"*/*": body}},
    )
