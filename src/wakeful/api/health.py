"""Is it alive, and is it ready?

/healthz answers as long as the process can: whoever restarts processes asks here. /readyz asks the store and its schema:
whoever sends traffic asks here. A server whose database is gone is alive and not ready; restarting it would not help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader
from wakeful.api.reply import JsonResponse
from wakeful.errors import SchemaMismatch, StoreUnavailable

READY_WITHIN = 5.0


def health_routes(
    reader: Reader, ready_within: float = READY_WITHIN, *, red: Callable[[], str | None] = lambda: None
) -> list[Route]:
    """`red`: what else keeps it from being ready, if anything does."""

    async def alive(_: Request) -> Response:
        return JsonResponse({"status": "alive"})

    async def ready(_: Request) -> Response:
        try:
            async with asyncio.timeout(ready_within):
                parts = await reader.health()
        except SchemaMismatch as error:
            return _not_ready({"store": {"ok": True}, "schema": {"ok": False, "detail": str(error)}})
        except (StoreUnavailable, TimeoutError):
            # Asked without a token, so the reason, which may name the database, goes to the log only.
            return _not_ready({"store": {"ok": False, "detail": "the store does not answer"}})
        if (reason := red()) is not None:
            return _not_ready({"store": {"ok": True}, "watch": {"ok": False, "detail": reason}})
        return JsonResponse({"status": "ready", "parts": parts})

    return [Route("/healthz", alive, name="healthz"), Route("/readyz", ready, name="readyz")]


def _not_ready(parts: dict[str, Any]) -> Response:
    return JsonResponse({"status": "not ready", "parts": parts}, status_code=503)
