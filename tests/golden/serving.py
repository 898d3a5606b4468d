"""The HTTP side of the app over a store, in this process and at the frozen moment."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2

from golden.freezing import frozen
from golden.store import NOW
from support.tokens import TOKEN
from wakeful import App
from wakeful.loading import load_app

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "grace"}


@contextlib.asynccontextmanager
async def served(headers: dict[str, str] | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the app of this folder, which has no worker: nothing happens but what is asked for."""
    with frozen(NOW):
        app = cast("App", load_app("app.py"))
        async with app.running(worker=False, reading="never"):
            transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
            sent = HEADERS if headers is None else headers
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=sent) as http:
                yield http


def shown(method: str, path: str, response: httpx2.Response, **more: Any) -> str:
    """Status, kind and body of an answer, as JSON."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    whole = {
        "request": f"{method} {path}",
        "status": response.status_code,
        "content-type": response.headers.get("content-type"),
        "body": body,
        **more,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
