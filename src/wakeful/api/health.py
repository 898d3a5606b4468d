"""Liveness and readiness.

/healthz answers as long as the process can; it is for a supervisor that restarts processes. /readyz checks the store,
its schema and the background parts; it is for a load balancer, and for a monitor that must notice when no work is done.
A server whose database is down is alive but not ready; restarting it would not help.

Unauthenticated callers only learn "ready" or "not ready". The details (what is wrong, which database, which sources)
are for callers with the token, or, on a server without one, for programs of this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.readiness import READY_WITHIN, Ask, Readiness
from wakeful.errors import SchemaMismatch, StoreUnavailable
from wakeful.http.reply import JsonResponse
from wakeful.http.security import IS_KNOWN, TRIES

# Parts of the process that have not reported for long, and for how many seconds.
Silent = Callable[[], Mapping[str, float]]


# The number of sources of the process in each state.
SourceStates = Callable[[], Mapping[str, int]]


def health_routes(
    health: Ask, ready_within: float = READY_WITHIN, silent: Silent = dict, sources: SourceStates = dict
) -> list[Route]:
    store = Readiness(health, ready_within)

    async def alive(_: Request) -> Response:
        return JsonResponse({"status": "alive"})

    async def ready(request: Request) -> Response:
        is_ready, details = await _look(request)
        answer = {"status": "ready" if is_ready else "not ready", **(details if request.scope.get(IS_KNOWN) else {})}
        return JsonResponse(answer, status_code=200 if is_ready else 503)

    async def _look(request: Request) -> tuple[bool, dict[str, Any]]:
        health = await store.ask()
        if isinstance(health, SchemaMismatch):
            return False, {"parts": {"store": {"ok": True}, "schema": {"ok": False, "detail": str(health)}}}
        if isinstance(health, StoreUnavailable | TimeoutError):
            # The reason may name the database, and many systems store probe answers: it goes only to the log.
            is_locked = isinstance(health, StoreUnavailable) and health.locked
            detail = str(health) if is_locked else "the store does not answer"
            return False, {"parts": {"store": {"ok": False, "detail": detail}}}
        note = {"note": health["note"]} if "note" in health else {}
        parts = {name: part for name, part in health.items() if name != "note"}
        if (
            states := sources()
        ):  # a failing source does not make the process unready: the rest works, and the source raises an alarm
            parts = {**parts, "sources": {"ok": "failing" not in states, **states}}
        tries = request.scope.get(TRIES)
        if tries is not None and tries.wrong:
            parts = {**parts, "tokens": {"ok": True, "wrong": tries.wrong, "slowed": tries.slowed}}
        if quiet := silent():
            silences = {part: {"ok": False, "detail": silence(since)} for part, since in quiet.items()}
            return False, {"parts": {**parts, **silences}}
        return True, {**note, "parts": parts}

    return [Route("/healthz", alive, name="healthz"), Route("/readyz", ready, name="readyz")]


def silence(since: float) -> str:
    return "has ended" if math.isinf(since) else f"has not looked for {since:.0f} seconds"
