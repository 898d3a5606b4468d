"""The HTTP paths of all resources over a real store."""

from __future__ import annotations

from typing import Any

import httpx2
from starlette.applications import Starlette

from support.tokens import TOKEN
from wakeful.http.problem import HANDLED, answer_with_problem
from wakeful.http.security import ApiSettings
from wakeful.resources import all_resources
from wakeful.resources.desk import AppSide, Desk, Reads
from wakeful.stores.store import DatabaseStore
from wakeful.surface.http import resource_routes


def http_over(store: DatabaseStore, side: AppSide | None = None) -> httpx2.AsyncClient:
    reads = Reads(store.database)
    routes = resource_routes(
        all_resources(), lambda by, note: Desk(reads, by, store, note, side), ApiSettings(token=TOKEN, guarded=reads)
    )
    app: Any = Starlette(routes=routes, exception_handlers=dict.fromkeys(HANDLED, answer_with_problem))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")
