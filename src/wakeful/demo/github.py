"""A webhook of the demonstration, from both sides: the app's own HTTP server on a free port of this machine, and a caller that
signs like GitHub.

The server is in the director's process, as `wakeful serve` would be beside `wakeful worker`: it answers whether a worker is
alive or not, for what it answered is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator

import httpx2
import uvicorn

from wakeful.app import App
from wakeful.demo.app import HOOK, HOOK_SECRET
from wakeful.model import Receipt
from wakeful.tokens import new_token

HOST = "127.0.0.1"
LONGEST = 30.0  # for an answer, on a machine that has other things to do
REPOSITORY = "shop"


class Server(uvicorn.Server):
    """uvicorn, without a say over signals: those are the director's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class GitHub:
    """Sends webhooks."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._numbers = itertools.count(7)

    async def open_pull_request(self) -> tuple[str, int, list[Receipt]]:
        """Ask for a review: of what, and what was answered."""
        number = next(self._numbers)
        answer = await self._post(number, os.environ[HOOK_SECRET])
        receipts = [Receipt.from_json(one) for one in answer.json()["events"]] if answer.is_success else []
        return f"{REPOSITORY}#{number}", answer.status_code, receipts

    async def pretend(self) -> int:
        """Another caller signs with what might be the secret; the status of the answer."""
        return (await self._post(6, "password")).status_code

    async def _post(self, number: int, secret: str) -> httpx2.Response:
        body = json.dumps({
            "action": "opened",
            "number": number,
            "pull_request": {"title": "Mend the basket"},
            "repository": {"name": REPOSITORY, "full_name": f"octo/{REPOSITORY}"},
        }).encode()  # fmt: skip
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": f"delivery-{number}",
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest(),
        }
        return await self._http.post(HOOK, content=body, headers=headers)


@contextlib.asynccontextmanager
async def github_beside(app: App) -> AsyncIterator[GitHub]:
    """Serve a running app, under a secret that no other program knows, and let GitHub know where."""
    os.environ[HOOK_SECRET] = secrets.token_hex(16)
    # Only webhooks are called, and the token is for the rest: no other program of this machine has it.
    server = Server(uvicorn.Config(app.asgi(token=new_token()), log_config=None, access_log=False, lifespan="off"))
    with socket.create_server((HOST, 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        address = f"http://{HOST}:{listener.getsockname()[1]}"
        try:
            async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=LONGEST) as http:
                yield GitHub(http)
        finally:
            server.should_exit = True
            await serving
