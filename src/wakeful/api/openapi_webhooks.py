"""The part of the OpenAPI document about the webhooks of this server's app."""

from __future__ import annotations

from collections.abc import Iterable

from wakeful.http.schema import Json, answer, problems, reference
from wakeful.triggers.endpoint import Endpoint


def webhook_paths(endpoints: Iterable[Endpoint]) -> Json:
    return {
        one.path: {
            "post": {
                "operationId": f"webhook{one.path.replace('/', '_')}",
                "summary": f"A webhook, verified as {one.verifier.name}",
                "security": [{}],
                "requestBody": {"required": True, "content": {"*/*": {"schema": {}}}},
                "responses": {
                    "202": answer("The result for each event", reference("Receipts")),
                    **problems("401", "403", "408", "413", "415", "421", "429", "503"),
                },
            }
        }
        for one in endpoints
    }
