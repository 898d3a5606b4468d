"""Is it alive, and is it ready?

/healthz answers as long as the process can: whoever restarts processes asks here. /readyz asks the store and its schema, and
whether what runs in the background still looks: whoever sends traffic asks here, and whoever must hear that nobody works. A
server whose database is gone is alive and not ready; restarting it would not help.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api.ports import Reader
from wakeful.api.reply import JsonResponse
from wakeful.errors import SchemaMismatch, StoreUnavailable

READY_WITHIN = 5.0


# Parts of the process that have not looked for long, and for how many seconds.
Silent = Callable[[], Mapping[str, float]]


# How many sources of the process are in which state.
SourceStates = Callable[[], Mapping[str, int]]


def health_routes(
    reader: Reader, ready_within: float = READY_WITHIN, silent: Silent = dict, sources: SourceStates = dict
) -> list[Route]:
    async def alive(_: Request) -> Response:
        return JsonResponse({"status": "alive"})

    async def ready(_: Request) -> Response:
        try:
            async with asyncio.timeout(ready_within):
                parts = await reader.health()
        except SchemaMismatch as error:
            return _not_ready({"store": {"ok": True}, "schema": {"ok": False, "detail": str(error)}})
        except (StoreUnavailable, TimeoutError) as error:
            # Asked without a token, so the reason, which may name the database, goes to the log only.
            told = str(error) if isinstance(error, StoreUnavailable) and error.locked else "the store does not answer"
            return _not_ready({"store": {"ok": False, "detail": told}})
        note = {"note": parts["note"]} if "note" in parts else {}
        parts = {name: part for name, part in parts.items() if name != "note"}
        if states := sources():  # one that fails makes nobody unready: the rest goes on, and it raises an alarm
            parts = {**parts, "sources": {"ok": "failing" not in states, **states}}
        if quiet := silent():
            return _not_ready(
                {**parts, **{part: {"ok": False, "detail": silence(since)} for part, since in quiet.items()}}
            )
        return JsonResponse({"status": "ready", **note, "parts": parts})

    return [Route("/healthz", alive, name="healthz"), Route("/readyz", ready, name="readyz")]


def silence(since: float) -> str:
    return "has ended" if math.isinf(since) else f"has not looked for {since:.0f} seconds"


def _not_ready(parts: dict[str, Any]) -> Response:
    return JsonResponse({"status": "not ready", "parts": parts}, status_code=503)
