"""States: what agents keep from run to run, shown and changed by a person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Agents, Reader, Store
from wakeful.errors import NotFound, Persistent
from wakeful.http.change import Change, read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import is_plain, read_parameters
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.stores.verbs.state import ChangeState
from wakeful.values import to_text


def state_routes(reader: Reader, store: Store, agents: Agents, settings: ApiSettings) -> list[Route]:
    async def listing(request: Request) -> Response:
        app = read_parameters(request.query_params, ("app",)).get("app")
        return JsonResponse({"states": [one for one in await reader.states() if app in {None, one["app"]}]})

    async def show(request: Request) -> Response:
        app = read_parameters(request.query_params, ("app",)).get("app")
        agent = request.path_params["agent"]
        kept = await reader.states(agent) if is_plain(agent) else []
        states = [one for one in kept if app in {None, one["app"]}]
        return found({"states": states} if states else None, "agent with a state")

    async def put(request: Request) -> Response:
        change = await read_change(request, settings, ("value", "app", "key", "note"))
        if "value" not in change.fields.given:
            raise change.fields.refusal("value", "is missing: it is the new state, as JSON")
        try:
            text = to_text(change.fields.given["value"], what="the state")
        except Persistent as error:
            raise misfit(error) from None
        return await changed(request, change, text)

    async def delete(request: Request) -> Response:
        return await changed(request, await read_change(request, settings, ("app", "key", "note")), None)

    async def changed(request: Request, change: Change, text: str | None) -> Response:
        """An agent of this server's app is checked by its code; one of another app must be known here."""
        agent, app, note = request.path_params["agent"], change.fields.text("app"), change.fields.text("note")
        if app in {None, agents.name}:
            app = agents.name
            try:
                agents.refuse_misfit_state(agent, text)
            except Persistent as error:
                raise misfit(error) from None
        elif not is_plain(agent) or app not in {one["app"] for one in await reader.states(agent)}:
            message = "no agent of that name and app keeps a state here: GET /v1/states lists those that do"
            raise NotFound(message)
        await refuse_other_apps(settings, [app])
        key = change.fields.text("key") or ""
        version = await store.do(ChangeState(str(app), agent, key, text, by=change.by, note=note))
        return JsonResponse({"app": app, "agent": agent, "version": version})

    return [
        Route("/v1/states", listing, name="states"),
        Route("/v1/states/{agent}", show, name="state"),
        Route("/v1/states/{agent}", put, methods=["PUT"], name="set_state"),
        Route("/v1/states/{agent}", delete, methods=["DELETE"], name="clear_state"),
    ]


def misfit(error: Persistent) -> Problem:
    title = "The state does not fit"
    return Problem(422, str(error), kind="state-does-not-fit", title=title, field="value")
