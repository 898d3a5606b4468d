"""The HTTP API as one Starlette app. Plain routes and plain ASGI, so that accepting an event costs little beyond the store.

Guard (Host, token) ──► routes ──► Door, Reads, Doer
                          └─ errors ──► problem+json
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from wakeful.api.agents import agent_routes
from wakeful.api.approve import Redacted, approve_routes
from wakeful.api.checkins import checkin_routes
from wakeful.api.events import event_routes
from wakeful.api.health import Silent, SourceStates, health_routes
from wakeful.api.openapi import openapi_routes
from wakeful.api.ports import AgentsPort, DoorPort, ResultsPort, WebhooksPort
from wakeful.api.webhooks import webhook_routes
from wakeful.api.why import why_routes
from wakeful.http.problem import HANDLED, answer_with_problem
from wakeful.http.security import ApiSettings, Guard, refuse_open_binding
from wakeful.resources import all_resources
from wakeful.resources.desk import AppSide, Desk, Reads
from wakeful.stores.request import Actor, Doer
from wakeful.surface.http import resource_routes
from wakeful.triggers.releasing import Releasing


def create_api(
    door: DoorPort,
    reads: Reads,
    store: Doer,
    agents: AgentsPort,
    *,
    schedules: Any = None,
    reminders: Any = None,
    results: ResultsPort | None = None,
    settings: ApiSettings | None = None,
    extra_routes: Sequence[BaseRoute] = (),
    silent: Silent = dict,
    webhooks: WebhooksPort | None = None,
    sources: SourceStates = dict,
    releasing: Callable[[], Releasing | None] = lambda: None,
    arrival: Any = None,
    redacted: Redacted = lambda arguments: arguments,
) -> Starlette:
    """The API over a door, a reader and a store.

    `schedules` and `reminders` create and change those; `results` waits for runs. Routes of `webhooks` come before the
    API's own, `extra_routes` (metrics, the console) after them. `silent` names the parts of the process that have not
    reported for long, `sources` counts its sources by state, and `releasing` rebuilds events from quarantined input
    with the app's code. `redacted` hides the arguments that the policy in force redacts.
    """
    settings = settings or ApiSettings()
    refuse_open_binding(settings)
    side = AppSide(agents, schedules, reminders, door, results, releasing, arrival=arrival)

    def desk_of(by: Actor, note: str | None) -> Desk:
        return Desk(reads, by, store, note, side)

    routes: list[BaseRoute] = [
        *([] if webhooks is None else webhook_routes(webhooks)),
        *event_routes(door, settings.body_limit, results),
        *why_routes(reads),
        *agent_routes(door, agents, results, settings),
        *checkin_routes(door, reads, agents, settings),
        *resource_routes(all_resources(), desk_of, settings),
        *approve_routes(desk_of, settings, redacted),
        *openapi_routes(webhooks),
        *health_routes(reads.health, silent=silent, sources=sources),
        *extra_routes,
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, settings=settings)],
        exception_handlers=dict.fromkeys(HANDLED, answer_with_problem),
    )
    # A redirect that adds or removes a slash would turn a POST into a GET in some clients: answer 404 instead.
    app.router.redirect_slashes = False
    return app
