"""`POST /v1/agents/AGENT/runs`: run an agent now, regardless of its triggers. The HTTP form of `wakeful run`."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import AgentsPort, DoorPort, ResultsPort
from wakeful.api.waiting import answer_with_outputs, read_wait
from wakeful.errors import NotFound
from wakeful.http.body import read_body
from wakeful.http.change import sender_of
from wakeful.http.foreign import refuse_forms
from wakeful.http.parameters import is_plain, read_parameters
from wakeful.http.reply import JsonResponse
from wakeful.http.security import ApiSettings
from wakeful.intake.cloudevents import new_event
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.stores.verbs.sending import SentBy


def agent_routes(door: DoorPort, agents: AgentsPort, results: ResultsPort | None, settings: ApiSettings) -> list[Route]:
    async def start(request: Request) -> Response:
        given = read_parameters(request.query_params, ("id", "wait"))
        wait = read_wait(given)
        refuse_forms(request.headers)
        by = sender_of(request, settings)
        try:
            body = await read_body(request.headers.get("content-length"), request.receive, limit=settings.body_limit)
        except ClientDisconnect:
            return Response(status_code=400)  # the client disconnected; no one reads this
        data = read_json(body, depth=DEPTH_LIMIT, inside=("data",)) if body.strip() else None
        agent = request.path_params["agent"]
        if not is_plain(agent):
            raise NotFound("there is no such agent")
        agents.refuse_unknown(agent)
        event = new_event("wakeful.run", data, source=f"/{agents.name}/run", id=given.get("id"))
        receipts = await door.accept([event], agent=agent, by="app", sent=SentBy(by, "run", f"agent {agent}"))
        if wait is None:
            return JsonResponse({"events": [receipt.to_json() for receipt in receipts]}, status_code=202)
        status, answer = await answer_with_outputs(receipts, results, wait)
        return JsonResponse(answer, status_code=status)

    return [Route("/v1/agents/{agent}/runs", start, methods=["POST"], name="start_run")]
