"""Pauses: what is paused, shown and changed by a person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Agents, Reader, Store
from wakeful.http.change import Change, bad_body, read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import read_parameters
from wakeful.http.reply import JsonResponse
from wakeful.http.security import ApiSettings
from wakeful.operations.pausing import ALL, apps_to_change
from wakeful.rate import Rate
from wakeful.stores.verbs.pauses import ChangePause


def pause_routes(reader: Reader, store: Store, agents: Agents, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        app = read_parameters(request.query_params, ("app",)).get("app")
        return JsonResponse({"pauses": [one for one in await reader.pauses() if app in {None, one["app"]}]})

    async def pause(request: Request) -> Response:
        change = await read_change(request, settings, ("agent", "all", "app", "note"))
        return await changed(change, paused=True)

    async def resume(request: Request) -> Response:
        change = await read_change(request, settings, ("agent", "all", "app", "note", "rate"))
        return await changed(change, paused=False)

    async def changed(change: Change, *, paused: bool) -> Response:
        """An agent of this server's app must be in its code; one of another app must be known here."""
        fields = change.fields
        agent, rate = fields.text("agent"), fields.text("rate")
        if (agent is None) != fields.flag("all"):
            raise bad_body('which one? Give "agent", or "all": true', "agent")
        try:
            if rate is not None:
                Rate.read(rate)
        except ValueError as error:
            raise bad_body(str(error), "rate") from None
        app = fields.text("app") or agents.name
        if agent is not None and app == agents.name:
            agents.refuse_unknown(agent)
        elif agent is not None:
            await apps_to_change(reader, agent, app)
        if not paused:
            await refuse_other_apps(settings, [app])
        asked = ChangePause(app, agent or ALL, paused, rate=rate, by=change.by, note=fields.text("note"))
        was = await store.do(asked)
        return JsonResponse({"app": app, "agent": agent, "paused": paused, "was_paused": was.paused})

    return [
        Route("/v1/pauses", listing, name="pauses"),
        Route("/v1/pause", pause, methods=["POST"], name="pause"),
        Route("/v1/resume", resume, methods=["POST"], name="resume"),
    ]
