"""The OpenAPI 3.1 document of the API, at /v1/openapi.json. Most of it is generated: from resources, and from the views of other
answers. Tests compare it with the routes, and with what a server answers.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.openapi_checkins import checkin_paths
from wakeful.api.openapi_events import event_paths, event_schemas
from wakeful.api.openapi_problems import problem_responses
from wakeful.api.openapi_waiting import agent_paths
from wakeful.api.openapi_webhooks import webhook_paths
from wakeful.api.ports import WebhooksPort
from wakeful.api.views import Health, OpenApi, Problem, Receipts, Results
from wakeful.http.reply import JsonResponse
from wakeful.http.schema import Json, answer, in_path, operation, problems, query, reference
from wakeful.resources import all_resources
from wakeful.surface.examples import EVENT, RUN, with_examples
from wakeful.surface.openapi import resource_paths, resource_schemas, schema_of, view_schemas
from wakeful.why.story import Story

VIEWS: tuple[type, ...] = (Receipts, Results, Story, Health, Problem)
DESCRIPTION = (
    "Send events; read runs, events, effects, deliveries, states, alarms and their stories; replay failed work. "
    "Errors are problem+json (RFC 9457)."
)


def openapi_routes(webhooks: WebhooksPort | None = None) -> list[Route]:
    async def show(_: Request) -> Response:
        whole = document()
        if webhooks is not None:
            whole = {**whole, "paths": {**whole["paths"], **webhook_paths(webhooks.endpoints.values())}}
        return JsonResponse(whole)

    return [Route("/v1/openapi.json", show, name="openapi")]


@lru_cache(maxsize=1)
def document() -> Json:
    """The whole document."""
    schemas = _schemas()
    paths = _merged(_paths(), resource_paths(all_resources()))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Wakeful", "version": _version(), "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": _guarded(with_examples(paths, schemas)),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "WAKEFUL_TOKEN, if one is set"}
            },
            "schemas": schemas,
            "responses": problem_responses(),
        },
    }


def _version() -> str:
    try:
        return version("wakeful")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0"


def _paths() -> Json:
    return {
        **event_paths(),
        **_why_paths(),
        **agent_paths(),
        **checkin_paths(),
        "/v1/openapi.json": {"get": _this_document()},
        **_health_paths(),
    }


def _why_paths() -> Json:
    identifier = {"type": "string", "minLength": 1}
    by_query = operation(
        "why_by_query",
        "why",
        "Explain what happened to an event, a run, a delivery or a schedule whose id does not fit in a path",
        {"200": answer("The story", reference("Story")), **problems("400", "401", "404", "421", "503")},
        parameters=[
            {**query("id", identifier, "Id of an event, a run or a delivery"), "required": True, "example": EVENT}
        ],
    )
    by_path = operation(
        "why",
        "why",
        "Explain what happened to an event, a run, an effect, a delivery, an alarm, a schedule or a reminder",
        {"200": answer("Found", reference("Story")), **problems("401", "404", "421", "503")},
        parameters=[in_path("identifier", RUN)],
    )
    return {"/v1/why": {"get": by_query}, "/v1/why/{identifier}": {"get": by_path}}


def _this_document() -> Json:
    example = {
        "openapi": "3.1.0",
        "info": {"title": "Wakeful", "version": _version(), "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": {"/healthz": {"get": {"operationId": "healthz"}}},
        "components": {"schemas": {}},
    }
    responses = {"200": answer("OpenAPI 3.1", schema_of(OpenApi), example=example), **problems("401", "421")}
    return operation("openapi", "document", "This document", responses)


def _health_paths() -> Json:
    parts = {"store": "postgres", "schema": 20, "sources": {"ok": True, "reading": 2}}
    down = {"store": {"ok": False, "detail": "the store does not answer"}}
    return {
        "/healthz": {
            "get": operation(
                "healthz",
                "health",
                "Whether the process is alive",
                {"200": answer("Alive", reference("Health"), example={"status": "alive"}), **problems("421")},
                security=[{}],
            )
        },
        "/readyz": {
            "get": operation(
                "readyz",
                "health",
                "Whether the store answers and its schema is right",
                {
                    "200": answer("Ready", reference("Health"), example={"status": "ready", "parts": parts}),
                    "503": answer(
                        "Not ready; names the part", reference("Health"), example={"status": "not ready", "parts": down}
                    ),
                    **problems("421"),
                },
                description="Callers with the token see each part, others only the status.",
                security=[{}, {"token": []}],
            )
        },
    }


def _merged(paths: Json, others: Json) -> Json:
    """Paths that are not resources, and paths of resources; one path may have methods of both."""
    return paths | {path: paths.get(path, {}) | methods for path, methods in others.items()}


def _guarded(paths: Json) -> Json:
    """Add the answers of the guard, which comes before all paths, to the answers of each path."""
    for methods in paths.values():
        for method, operation_ in methods.items():
            also = ["403"] + (["429"] if "401" in operation_["responses"] else [])
            also += [] if method == "get" else ["415"]
            operation_["responses"] = {**problems(*also), **operation_["responses"]}
    return paths


def _schemas() -> Json:
    made = view_schemas(VIEWS)
    # A story refers to views of resources: those are described with their resource.
    own = {view.__name__: made[view.__name__] for view in VIEWS}
    return {**event_schemas(), **own, **resource_schemas(all_resources())}
