"""Ten thousand deliveries to a real `wakeful serve` that is killed again and again: none is lost, and none is there twice.

The sender does what senders do: it sends until it hears a yes, sometimes once more although it heard one, and now and then under
a new id. What it heard a yes for is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crash.harness import Place
from support.command_line import CommandLine
from wakeful.testing.ports import free_port

SECRET = "a secret of the sender"
HOOKS = f"""
from wakeful import App, Run, webhook
from wakeful.verify import github

app = App("hooks")


@app.agent(webhook("/hooks/github", verify=github(secret="{SECRET}"), type="github.push"))
async def handle(run: Run) -> None: ...
"""
DELIVERIES = 10_000
SENDERS = 24
LIVES = 4
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
AGAIN = 0.15  # so often the sender sends once more what was taken


class Sender:
    """Everything there is to send, and what was heard of it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._chance = random.Random(7)
        self._numbers = itertools.count()
        self.taken = 0
        self.repeated = 0
        self.came = asyncio.Condition()

    async def send_all(self) -> None:
        await asyncio.gather(*(self._send() for _ in range(SENDERS)))

    async def until(self, taken: int) -> None:
        async with self.came:
            await self.came.wait_for(lambda: self.taken >= taken)

    async def _send(self) -> None:
        connection: Connection | None = None
        for number in self._numbers:
            if number >= DELIVERIES:
                break
            times = 1 + (self._chance.random() < AGAIN)
            while times:
                try:
                    if connection is None:
                        connection = await asyncio.open_connection("127.0.0.1", self._port)
                    status = await self._once(connection, number)
                except (OSError, asyncio.IncompleteReadError):
                    await self._hang_up(connection)
                    connection = None
                    await asyncio.sleep(0.01)  # a server that is being started: asked again, as a sender would
                    continue
                if status == "unavailable":
                    continue
                times -= 1
                self.repeated += status == "duplicate"
            async with self.came:
                self.taken += 1
                self.came.notify_all()
        await self._hang_up(connection)

    @staticmethod
    async def _hang_up(connection: Connection | None) -> None:
        if connection is not None:
            connection[1].close()
            with contextlib.suppress(OSError):
                await connection[1].wait_closed()

    async def _once(self, connection: Connection, number: int) -> str:
        reader, writer = connection
        body = json.dumps({"after": f"{number:040x}", "repository": {"full_name": "octo/shop"}}).encode()
        # Sometimes under an id that was never used: the signature tells that it is the same.
        delivery = f"{number}" if self._chance.random() < 0.9 else f"{number}-{self._chance.random()}"
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        head = (
            f"POST /hooks/github HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"X-GitHub-Event: push\r\nX-GitHub-Delivery: {delivery}\r\nX-Hub-Signature-256: sha256={signature}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length:")[2].partition("\r\n")[0])
        content = await reader.readexactly(length)
        if " 503 " in answer.partition("\r\n")[0]:
            return "unavailable"
        assert answer.startswith("http/1.1 202"), content
        (receipt,) = json.loads(content)["events"]
        assert len(receipt["runs"]) == 1
        return str(receipt["status"])


@contextlib.asynccontextmanager
async def serving(place: Place, port: int) -> AsyncIterator[CommandLine]:
    words = ("serve", "hooks.py", "--port", str(port), "--store", place.url, "--paused")
    server = await asyncio.to_thread(CommandLine, *words, folder=place.folder)
    try:
        await asyncio.to_thread(server.wait_for, "wakeful: webhook http://.*/hooks/github")
        yield server
    finally:
        await asyncio.to_thread(server.close)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_ten_thousand_deliveries_to_a_server_that_is_killed(place: Place, tmp_path: Path):
    (place.folder / "hooks.py").write_text(HOOKS, encoding="utf-8")
    port = free_port()
    sender = Sender(port)
    sending = asyncio.create_task(sender.send_all())
    try:
        for life in range(1, LIVES + 1):
            async with serving(place, port) as server:
                wait = sending if life == LIVES else asyncio.create_task(sender.until(DELIVERIES * life // LIVES))
                async with asyncio.timeout(120):
                    await asyncio.shield(wait)
                server.process.kill()  # between any commit and its answer, and any answer and the next
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert sender.taken == DELIVERIES
    events = await place.query("select count(*), count(distinct id) from wakeful_event")
    assert events == [(DELIVERIES, DELIVERIES)]
    runs = await place.query("select count(*), count(distinct event_seq) from wakeful_run where state = 'ready'")
    assert runs == [(DELIVERIES, DELIVERIES)]
    assert sender.repeated >= DELIVERIES * AGAIN / 2
    counted = await place.query("select sum(duplicates) from wakeful_event")
    assert counted[0][0] >= sender.repeated
