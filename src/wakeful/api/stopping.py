"""Runs that are to stop, and runs that begin in the middle of another."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Agents, Reader, Store
from wakeful.api.redo import edited_data
from wakeful.errors import InvalidData
from wakeful.http.change import read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import is_plain
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.operations.forking import plan_fork
from wakeful.stores.verbs.cancel import CancelRun


def stopping_routes(reader: Reader, store: Store, agents: Agents, settings: ApiSettings) -> list[Route]:
    async def cancel(request: Request) -> Response:
        change = await read_change(request, settings, ("note",))
        identifier = request.path_params["id"]
        run = await reader.run(identifier) if is_plain(identifier) else None
        asked = None if run is None else CancelRun(run["id"], by=change.by, note=change.fields.text("note"))
        cancelled = None if asked is None else await store.do(asked)
        if cancelled is None:
            return found(None, "run")
        if cancelled.refused is not None:
            title = "This run cannot be cancelled"
            raise Problem(409, f"run {cancelled.run} {cancelled.refused}", kind="over", title=title)
        return JsonResponse({"run": cancelled.run, "was": cancelled.was, "state": cancelled.now})

    async def fork(request: Request) -> Response:
        change = await read_change(request, settings, ("from", "data", "steps", "note"))
        step, note = change.fields.text("from"), change.fields.text("note")
        if step is None:
            raise change.fields.refusal("from", "is missing: the first step that is done anew, like fetch#2")
        identifier = request.path_params["id"]
        run = await reader.run(identifier) if is_plain(identifier) else None
        if run is None:
            return found(None, "run")
        await refuse_other_apps(settings, [run["app"]], people=True)
        plan = plan_fork(run, step)
        edited_data(change.fields, run, agents)
        try:
            edit = {name: change.fields.given[name] for name in ("data", "steps") if name in change.fields.given}
            asked = plan.request(edit, by=change.by, note=note)
        except InvalidData as error:
            title = "The edit does not fit"
            raise Problem(422, str(error), kind="data-does-not-fit", title=title, field="steps") from None
        forked = await store.do(asked)
        if forked is None:
            return found(None, "run")
        if forked.refused is not None:
            raise Problem(409, f"run {run['id']} {forked.refused}", kind="not-over", title="This run cannot be forked")
        return JsonResponse({"run": forked.run, "was": forked.was, "kept": [one["name"] for one in plan.kept]})

    return [
        Route("/v1/runs/{id}/cancel", cancel, methods=["POST"], name="cancel_run"),
        Route("/v1/runs/{id}/fork", fork, methods=["POST"], name="fork_run"),
    ]
