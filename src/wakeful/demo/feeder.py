"""The events and their times: a steady mix, and now and then an event that causes trouble.

Each event is sent with `app.emit` and acknowledged once it is on disk; the receipts are kept, to be compared with the store at the
end. A webhook is acknowledged by an HTTP answer in the same way. Files are dropped into a folder without an acknowledgement: the worker that
reads the folder must find them.
"""

from __future__ import annotations

import asyncio
import heapq
import hmac
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from wakeful.app import App
from wakeful.demo.app import HOOK, HOOK_SECRET
from wakeful.demo.stage import Stage
from wakeful.model import Receipt

ROUND = 40.0
FEED_EVERY = 0.75
LAST_RUNS = 5.0  # seconds that the last runs need after the last event
REFUSED = 401
HOSTS = ("web", "db", "cache", "queue", "mail")

Sending = tuple[float, Callable[[], Awaitable[object]]]  # when, in seconds at pace 1, and what


class Feeder:
    """Creates and sends events."""

    def __init__(self, app: App, inbox: Path, http: httpx2.AsyncClient, stage: Stage) -> None:
        self._app, self._inbox, self._http, self._stage = app, inbox, http, stage
        self._say = partial(stage.say, minor=True)
        self._numbers = defaultdict(lambda: itertools.count(1), P=itertools.count(101), T=itertools.count(501))
        self._last_payment: dict[str, Any] = {}
        self.receipts: list[Receipt] = []
        self.dropped: list[str] = []  # files
        self.called = 0  # webhooks
        self.forged = 0  # webhooks of a caller without the secret
        self.turned_away = 0
        self.over = asyncio.Event()

    async def play(self) -> None:
        """Feed, until shortly before the end."""
        seconds, pace = self._stage.seconds, self._stage.pace
        last = math.inf if seconds is None else max(1.0, seconds - LAST_RUNS * pace)
        for at, send in heapq.merge(self._regular(), self._trouble(), key=lambda sending: sending[0]):
            if at * pace >= last:
                break
            await asyncio.sleep(max(0.0, at * pace - self._stage.elapsed))
            await send()
        self.over.set()

    def _regular(self) -> Iterator[Sending]:
        ticket = partial(self.event, "ticket.created", "T", text="The export ends with an error.")
        mix = (self.payment, ticket, self.payment, self.host, self.payment, ticket)
        return zip(itertools.count(0.0, FEED_EVERY), itertools.cycle(mix), strict=False)

    def _trouble(self) -> Iterator[Sending]:
        """Each kind once per round."""
        refund = partial(self.event, "refund.requested", "R", amount="12.50")  # paid, but not answered in time
        trouble: tuple[Sending, ...] = (
            (0.2, partial(refund, way="transfer")),
            (1.2, self.file),
            (1.4, self.webhook),
            (1.6, self.unmatched),
            (2.0, partial(refund, way="card")),
            (2.6, partial(self.payment, "plenty")),  # does not fit the agent's model
            (3.2, partial(refund, way="cheque")),
            (3.8, partial(self.event, "host.added", "old")),  # its run fails in a step, every time
            (4.2, self.forged_webhook),
            (5.0, self.again),
            *((at, self.payment) for at in (6.4, 6.5, 6.7, 6.8)),  # enough for a kill in the middle of their runs
        )
        for begin in itertools.count(0.0, ROUND):
            yield from ((begin + at, send) for at, send in trouble)

    async def event(self, kind: str, prefix: str, **data: Any) -> None:
        """Send an event about the next thing of this prefix."""
        await self._send(kind, {"id": self._next(prefix)[1], **data})

    async def payment(self, amount: str | None = None) -> None:
        number, name = self._next("P")
        data = {"id": name, "invoice": number, "amount": amount or f"{number % 80 + 20}.50", "currency": "EUR"}
        self._last_payment = data
        await self._send("payment.received", data)

    async def host(self) -> None:
        number, event = self._next("H")
        host = f"{HOSTS[number % len(HOSTS)]}-{number}"
        await self._send("host.added", {"id": host, "shaky": number % 2 == 1}, event)

    async def unmatched(self) -> None:
        """Send an event that no agent handles."""
        await self.event("backup.finished", "B")
        self._say("No agent handles backup.finished: it is kept and shown, not dropped.")

    async def again(self) -> None:
        """Send the last payment a second time, as webhooks do."""
        if await self._send("payment.received", self._last_payment) == "duplicate":
            self._say(f"Payment {self._last_payment['id']} was delivered a second time: still one run.")

    async def file(self, ending: str = ": an agent wakes on it.") -> None:
        """Drop a file into the folder."""
        name = f"{self._next('note')[1]}.md"
        (self._inbox / name).write_text("Keys: the spare ones are with the porter.", encoding="utf-8")
        self.dropped.append(name)
        self._say(f"{name} was dropped into inbox/{ending}")

    async def webhook(self, words: str = "GitHub calls a webhook about {}: signed, stored, answered {}.") -> None:
        """Send a signed request to the HTTP side of the app, without a network."""
        number = 6 + self._next("shop")[0]
        self.called += 1  # counted before the answer: an interrupted call has been made all the same
        answer = await self._call(number, os.environ[HOOK_SECRET])
        self.receipts += [Receipt.from_json(one) for one in answer.json()["events"]] if answer.is_success else []
        self._say(words.format(f"shop#{number}", answer.status_code))

    async def forged_webhook(self) -> None:
        """Send a request with a wrong signature."""
        status = (await self._call(6, "password")).status_code
        self.forged += 1
        self.turned_away += status == REFUSED
        self._say(f"A webhook with a wrong signature: answered {status}, kept in quarantine.")

    # sending

    def _next(self, kind: str) -> tuple[int, str]:
        number = next(self._numbers[kind])
        return number, f"{kind}-{number}"

    async def _send(self, kind: str, data: dict[str, Any], event: str | None = None) -> str:
        receipt = await self._app.emit(kind, data, id=event or data["id"], subject=data["id"])
        self.receipts.append(receipt)
        return receipt.status

    async def _call(self, number: int, secret: str) -> httpx2.Response:
        """The webhook, as GitHub calls it about a new pull request."""
        repository = {"name": "shop", "full_name": "octo/shop"}
        body = json.dumps({"action": "opened", "number": number, "repository": repository}).encode()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": "pull_request",
            "X-GitHub-Delivery": f"delivery-{number}",
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest(),
        }
        return await self._http.post(HOOK, content=body, headers=headers)
