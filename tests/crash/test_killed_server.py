"""`kill -9` of a real `wakeful serve`: while a worker lives on, every surface says that the webhook has no server any more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from crash.harness import Place
from support.command_line import WAKEFUL, CommandLine, environment
from wakeful.testing.ports import free_port
from wakeful.testing.waiting import until

HOOKS = """
from wakeful import App, Run, webhook
from wakeful.verify import none

app = App("hooks")


@app.agent(webhook("/hooks/shop", verify=none(), type="order"), owner="platform")
async def handle(run: Run) -> None: ...
"""


@contextlib.asynccontextmanager
async def started(place: Place, verb: str, port: int, ready: str) -> AsyncIterator[CommandLine]:
    words = (verb, "hooks.py", "--port", str(port), "--store", place.url)
    command = await asyncio.to_thread(CommandLine, *words, folder=place.folder)
    try:
        await asyncio.to_thread(command.wait_for, ready)
        yield command
    finally:
        await asyncio.to_thread(command.close)


async def asked(place: Place, *words: str) -> tuple[int, Any]:
    """The exit code and the answer of a command that only looks."""
    done = await asyncio.to_thread(
        subprocess.run,
        [str(WAKEFUL), *words, "--json", "--store", place.url],
        cwd=place.folder,
        env=environment(),
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.timeout(180)
async def test_a_webhook_server_that_is_killed_is_noticed(place: Place):
    (place.folder / "hooks.py").write_text(HOOKS, encoding="utf-8")
    port = free_port()

    async def state() -> str:
        return str((await asked(place, "sources"))[1]["sources"][0]["state"])

    async with (
        started(place, "worker", port, "wakeful: working"),
        started(place, "serve", 0, "wakeful: webhook http://.*/hooks/shop") as server,
    ):
        await until(lambda: place.query("select 1 from wakeful_server"))
        assert await state() == "reading"
        server.process.kill()

        async def unserved() -> bool:
            return await state() == "unserved"

        await until(unserved)
        code, found = await asked(place, "doctor")
        (finding,) = [one for one in found["findings"] if one["what"] == "sources"]
        assert (code, finding["verdict"]) == (1, "broken")
        assert "no server answers its requests" in finding["text"]
        ready = await asyncio.to_thread(httpx2.get, f"http://127.0.0.1:{port}/readyz", trust_env=False)
        assert ready.status_code == 200  # the worker does its work
        assert ready.json()["parts"]["webhooks"]["ok"] is False
