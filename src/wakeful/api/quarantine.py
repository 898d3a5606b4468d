"""Quarantine: what could not be verified or read is looked at, released after a fix, or discarded.

A release needs the code of the app, so a server releases what belongs to its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader, Store
from wakeful.errors import StoreUnavailable, did_you_mean
from wakeful.http.change import read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import bad_cursor, bad_parameter, is_plain, read_limit, read_parameters, read_state
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.operations.quarantine import Settled, discard, release
from wakeful.redaction import redact_base64
from wakeful.stores.verbs.take_in import QuarantineKind
from wakeful.triggers.releasing import Releasing

KINDS: tuple[str, ...] = get_args(QuarantineKind)
STATES = ("kept", "released", "discarded")


def quarantine_routes(
    reader: Reader, store: Store, releasing: Callable[[], Releasing | None], settings: ApiSettings
) -> list[Route]:
    async def listing(request: Request) -> Response:
        given = read_parameters(request.query_params, ("app", "source", "kind", "state", "limit", "after"))
        kind = given.get("kind")
        if kind is not None and kind not in KINDS:
            raise bad_parameter(f"there is no such kind.{did_you_mean(kind, KINDS)}", "kind")
        try:
            page = await reader.quarantine(
                app=given.get("app"),
                source=given.get("source"),
                kind=kind,
                state=read_state(given, STATES),
                limit=read_limit(given),
                after=given.get("after"),
            )
        except ValueError:
            raise bad_cursor() from None
        return JsonResponse(page)

    async def known(request: Request) -> dict[str, Any] | None:
        key = request.path_params["key"]
        return await reader.quarantined(key) if is_plain(key) else None

    async def one(request: Request) -> Response:
        held = await known(request)
        if held is None:
            return found(None, "input")
        raw = None if held["raw"] is None else redact_base64(held["raw"])
        return found({name: held[name] for name in held if name != "received"} | {"raw": raw}, "input")

    async def let_in(request: Request) -> Response:
        change = await read_change(request, settings, ("trust", "note"))
        trust, note = change.fields.flag("trust"), change.fields.text("note")
        held, sources = await known(request), releasing()
        if held is None:
            return found(None, "input")
        await refuse_other_apps(settings, [held["app"]])
        if sources is None:
            message = "the app is not running here"
            raise StoreUnavailable(message)
        return answer(await release(store, sources, held, by=change.by, note=note, trust=trust))

    async def drop(request: Request) -> Response:
        change = await read_change(request, settings, ("note",))
        note = change.fields.text("note")
        held = await known(request)
        if held is None:
            return found(None, "input")
        return answer(await discard(store, held, by=change.by, note=note))

    return [
        Route("/v1/quarantine", listing, name="quarantine"),
        Route("/v1/quarantine/{key}", one, name="quarantined"),
        Route("/v1/quarantine/{key}/release", let_in, methods=["POST"], name="release_quarantined"),
        Route("/v1/quarantine/{key}/discard", drop, methods=["POST"], name="discard_quarantined"),
    ]


def answer(settled: Settled) -> Response:
    if settled.wrong is not None:
        detail = f"{settled.key} still cannot be taken in, and stays: {settled.wrong}"
        raise Problem(422, detail, kind="still-wrong", title="It still cannot be taken in")
    if settled.refused is not None:
        raise Problem(409, settled.refused, kind="not-kept", title="This is not for you to settle")
    return JsonResponse(settled.to_json())
