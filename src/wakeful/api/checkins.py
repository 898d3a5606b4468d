"""Check-ins: `POST /v1/checkins/NAME`, typically from the last line of a script. The event and its sender are stored in
one transaction.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import AgentsPort, DoorPort
from wakeful.errors import NotFound
from wakeful.http.body import read_body
from wakeful.http.change import sender_of
from wakeful.http.foreign import refuse_forms
from wakeful.http.parameters import is_plain, read_parameters
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse
from wakeful.http.security import ApiSettings
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.operations.checking_in import app_expecting, check_in
from wakeful.resources.desk import Reads


def checkin_routes(door: DoorPort, reads: Reads, agents: AgentsPort, settings: ApiSettings) -> list[Route]:
    async def checkin(request: Request) -> Response:
        name = request.path_params["name"]
        given = read_parameters(request.query_params, ("id",))
        refuse_forms(request.headers)
        by = sender_of(request, settings)
        try:
            body = await read_body(request.headers.get("content-length"), request.receive, limit=settings.body_limit)
        except ClientDisconnect:
            return Response(status_code=400)  # the client disconnected; no one reads this
        data = read_json(body, depth=DEPTH_LIMIT, inside=("data",)) if body.strip() else None
        try:
            if not is_plain(name):
                message = "no such check-in is expected"
                raise NotFound(message)
            await app_expecting(reads, name, agents.name)
        except NotFound as error:
            raise Problem(404, str(error), kind="not-found", title="There is nothing of that name") from None
        receipt = await check_in(door, agents.name, name, data, given.get("id"), by=by)
        return JsonResponse({"events": [receipt.to_json()]}, status_code=202)

    return [Route("/v1/checkins/{name:path}", checkin, methods=["POST"], name="checkin")]
