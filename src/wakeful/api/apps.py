"""Apps: those that have to do with this store, and one that is retired by a person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader, Store
from wakeful.http.change import read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse
from wakeful.http.security import ApiSettings
from wakeful.operations.retiring import StillServed, plan_retirement, retire


def app_routes(reader: Reader, store: Store, settings: ApiSettings) -> list[Route]:
    async def listing(_: Request) -> Response:
        return JsonResponse({"apps": await reader.listed_apps()})

    async def retire_one(request: Request) -> Response:
        change = await read_change(request, settings, ("plan", "live", "note"))
        fields = change.fields
        plan = await plan_retirement(reader, store, request.path_params["name"])
        if fields.flag("plan"):
            return JsonResponse(plan.to_json())
        await refuse_other_apps(settings, [request.path_params["name"]])
        try:
            done = await retire(reader, store, plan, by=change.by, note=fields.text("note"), live=fields.flag("live"))
        except StillServed as error:
            words = str(error).replace("--live", '"live": true')
            raise Problem(409, words, kind="still-served", title="Live workers serve it") from None
        return JsonResponse(done.to_json())

    return [
        Route("/v1/apps", listing, name="apps"),
        Route("/v1/apps/{name}/retire", retire_one, methods=["POST"], name="retire_app"),
    ]
