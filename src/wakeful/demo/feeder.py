"""What comes in, and when: a steady mix, and now and then something that makes trouble.

Each event goes in by the one door (`app.emit`) and is answered when it is on disk; the answers are remembered here, to be
looked for in the store at the end. A webhook is answered likewise, over HTTP. Files go into a folder without any answer:
the worker that reads the folder must find them.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from wakeful.app import App
from wakeful.demo.bank import Way
from wakeful.demo.github import GitHub
from wakeful.model import Receipt

ROUND = 40.0
FEED_EVERY = 0.75
LAST_RUNS = 5.0  # what the last runs need after the last event
REFUSED = 401
HOSTS = ("web", "db", "cache", "queue", "mail")


class Feeder:
    """Makes events and sends them in. `say` tells of what is worth a line."""

    def __init__(self, app: App, inbox: Path, github: GitHub, say: Callable[[str], None] = print) -> None:
        self._app = app
        self._inbox = inbox
        self._github = github
        self._say = say
        self._numbers = defaultdict(lambda: itertools.count(1), P=itertools.count(101), T=itertools.count(501))
        self._last_payment: dict[str, Any] = {}
        self.receipts: list[Receipt] = []
        self.dropped: list[str] = []
        self.called = 0  # webhooks
        self.forged = 0  # and those of a caller that does not know the secret
        self.turned_away = 0
        self.duplicates = 0
        self.corrections: dict[str, dict[str, Any]] = {}  # what the data of a poisoned payment should have been
        self.over = asyncio.Event()

    async def play(self, elapsed: Callable[[], float], seconds: float | None, pace: float) -> None:
        """Feed, until shortly before the end."""
        last = math.inf if seconds is None else max(1.0, seconds - LAST_RUNS * pace)
        for at, send in self._schedule():
            if at * pace >= last:
                break
            await asyncio.sleep(max(0.0, at * pace - elapsed()))
            await send()
        self.over.set()

    def _schedule(self) -> Iterator[tuple[float, Callable[[], Awaitable[object]]]]:
        """When, at pace 1, and what: the steady mix, and beside it what comes in each round."""
        mix = (self.payment, self.ticket, self.payment, self.host, self.payment, self.ticket)
        regular = zip(itertools.count(0.0, FEED_EVERY), itertools.cycle(mix), strict=False)
        next_regular = next(regular)
        for number in itertools.count():
            for at, send in (
                (0.2, partial(self.refund, "transfer")),
                (1.2, self.file),
                (1.4, self.signed_webhook),
                (1.6, self.unmatched),
                (2.0, partial(self.refund, "card")),
                (2.6, self.poison),
                (3.2, partial(self.refund, "cheque")),
                (3.8, self.unknown_host),
                (4.2, self.forged_webhook),
                (5.0, self.again),
                (6.4, self.payment),
                (6.5, self.payment),
                (6.7, self.payment),
                (6.8, self.payment),
            ):
                while next_regular[0] < number * ROUND + at:
                    yield next_regular
                    next_regular = next(regular)
                yield number * ROUND + at, send

    # the steady mix

    async def payment(self) -> None:
        number, name = self._next("P")
        self._last_payment = {"id": name, "invoice": number, "amount": f"{number % 80 + 20}.50", "currency": "EUR"}
        await self._send("payment.received", self._last_payment)

    async def ticket(self) -> None:
        await self._send("ticket.created", {"id": self._next("T")[1], "text": "The export ends with an error."})

    async def host(self) -> None:
        number, event = self._next("H")
        host = f"{HOSTS[number % len(HOSTS)]}-{number}"
        await self._send("host.added", {"id": host, "shaky": number % 2 == 1}, event)

    # trouble

    async def poison(self) -> None:
        """Data that does not fit the agent's model."""
        data = {"id": self._next("P")[1], "invoice": 7, "amount": "plenty", "currency": "EUR"}
        self.corrections[str(data["id"])] = {**data, "amount": "27.50"}
        await self._send("payment.received", data)

    async def refund(self, way: Way) -> None:
        """The bank will pay it, and not answer in time."""
        number, name = self._next("R")
        await self._send("refund.requested", {"id": name, "amount": f"{number + 11}.50", "way": way})

    async def unknown_host(self) -> None:
        """A step of its run will fail, and would every time."""
        await self._send("host.added", {"id": self._next("old")[1]})

    async def unmatched(self) -> None:
        """An event that no agent handles."""
        await self._send("backup.finished", {"id": self._next("B")[1]})
        self._say("No agent handles backup.finished: it is kept and shown, not dropped.")

    async def again(self) -> None:
        """The last payment a second time, as webhooks do."""
        if await self._send("payment.received", self._last_payment) == "duplicate":
            self._say(f"Payment {self._last_payment['id']} was delivered a second time: still one run.")

    async def file(self, ending: str = ": an agent wakes on it.") -> None:
        """A file is dropped into the folder."""
        name = f"{self._next('note')[1]}.md"
        (self._inbox / name).write_text("Keys: the spare ones are with the porter.", encoding="utf-8")
        self.dropped.append(name)
        self._say(f"{name} was dropped into inbox/{ending}")

    async def signed_webhook(self) -> None:
        asked, status = await self.webhook()
        self._say(f"GitHub calls a webhook about {asked}: signed, stored, answered {status}.")

    async def webhook(self) -> tuple[str, int]:
        """A signed request comes in over HTTP: what it is about, and the status of the answer."""
        self.called += 1  # before the answer: a caller that is interrupted in between has called all the same
        asked, status, receipts = await self._github.open_pull_request()
        self.receipts += receipts
        return asked, status

    async def forged_webhook(self) -> None:
        """The same from a caller that does not know the secret."""
        status = await self._github.pretend()
        self.forged += 1
        self.turned_away += status == REFUSED
        self._say(f"A webhook with a wrong signature: answered {status}, kept in quarantine.")

    def _next(self, kind: str) -> tuple[int, str]:
        number = next(self._numbers[kind])
        return number, f"{kind}-{number}"

    async def _send(self, kind: str, data: dict[str, Any], event: str | None = None) -> str:
        receipt = await self._app.emit(kind, data, id=event or data["id"], subject=data["id"])
        if receipt.status == "duplicate":
            self.duplicates += 1
        else:
            self.receipts.append(receipt)
        return receipt.status
