"""Events that come in by themselves: a steady mix, and now and then one that makes trouble.

Each goes in by the one door (`app.emit`) and is answered when it is on disk; what was answered is remembered here, to be
looked for in the store at the end. A webhook is answered likewise, over HTTP. Files go into a folder, and nobody answers:
whoever reads it must find them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wakeful.app import App
from wakeful.demo.app import UNKNOWN
from wakeful.demo.bank import Way
from wakeful.demo.github import GitHub
from wakeful.model import Receipt

TEXTS = (
    "The export ends with an error after ten minutes. It worked last week.",
    "The invoice shows the wrong VAT rate. The country is right.",
    "How can a report be sent every Monday. It is sent daily now.",
    "Search is slow since the update. Other pages are fine.",
)
NOTES = (
    "Keys: the spare ones are with the porter.",
    "Meeting moved to Thursday, same room.",
    "Printer on the second floor is out of toner again.",
)
REFUSED = 401
HOSTS = ("web", "db", "cache", "queue", "mail")
MIX = ("payment", "ticket", "payment", "host", "payment", "ticket")


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event on its way in."""

    type: str
    subject: str
    data: dict[str, Any]
    id: str


class Feeder:
    """Makes events and sends them in."""

    def __init__(self, app: App, inbox: Path, github: GitHub) -> None:
        self._app = app
        self._inbox = inbox
        self._github = github
        self._mix = itertools.cycle(MIX)
        self._payments = itertools.count(101)
        self._tickets = itertools.count(501)
        self._hosts = itertools.count(1)
        self._unknown = itertools.count(1)
        self._refunds = itertools.count(1)
        self._others = itertools.count(1)
        self._notes = itertools.count(1)
        self._last_payment: Incoming | None = None
        self.receipts: list[Receipt] = []
        self.dropped: list[str] = []
        self.called = 0  # webhooks
        self.forged = 0  # and those of somebody who does not know the secret
        self.turned_away = 0
        self.duplicates = 0
        self.corrections: dict[str, dict[str, Any]] = {}  # what the data of a poisoned payment should have been

    async def regular(self) -> None:
        """The next event of the steady mix."""
        match next(self._mix):
            case "payment":
                await self.payment()
            case "ticket":
                number = next(self._tickets)
                ticket = f"T-{number}"
                text = TEXTS[number % len(TEXTS)]
                await self._send(Incoming("ticket.created", ticket, {"id": ticket, "text": text}, ticket))
            case "host":
                number = next(self._hosts)
                await self._host(f"{HOSTS[number % len(HOSTS)]}-{number}", shaky=number % 2 == 1)

    async def payment(self) -> None:
        number = next(self._payments)
        data = {"id": f"P-{number}", "invoice": number, "amount": f"{number % 80 + 20}.50", "currency": "EUR"}
        self._last_payment = Incoming("payment.received", f"P-{number}", data, f"P-{number}")
        await self._send(self._last_payment)

    async def poison(self) -> None:
        """Data that does not fit the agent's model."""
        payment = f"P-{next(self._payments)}"
        data = {"id": payment, "invoice": 7, "amount": "plenty", "currency": "EUR"}
        self.corrections[payment] = {**data, "amount": "27.50"}
        await self._send(Incoming("payment.received", payment, data, payment))

    async def refund(self, way: Way) -> None:
        """The bank will pay it, and not answer in time."""
        number = next(self._refunds)
        data = {"id": f"R-{number}", "amount": f"{number + 11}.50", "way": way}
        await self._send(Incoming("refund.requested", f"R-{number}", data, f"R-{number}"))

    async def unknown_host(self) -> None:
        """A step of its run will fail, and would every time."""
        await self._host(f"{UNKNOWN}{next(self._unknown)}", shaky=False)

    async def unmatched(self) -> str:
        """An event that no agent handles."""
        number = next(self._others)
        await self._send(Incoming("backup.finished", f"B-{number}", {"id": f"B-{number}"}, f"B-{number}"))
        return "backup.finished"

    def file(self) -> str:
        """A file is dropped into the folder; its name."""
        number = next(self._notes)
        name = f"note-{number}.md"
        (self._inbox / name).write_text(NOTES[number % len(NOTES)], encoding="utf-8")
        self.dropped.append(name)
        return name

    async def webhook(self) -> tuple[str, int]:
        """A signed request comes in over HTTP: what it is about, and the status of the answer."""
        self.called += 1  # before the answer: whoever is interrupted in between has called all the same
        asked, status, receipts = await self._github.open_pull_request()
        self.receipts += receipts
        return asked, status

    async def forged_webhook(self) -> int:
        """The same from somebody who does not know the secret; the status of the answer."""
        status = await self._github.pretend()
        self.forged += 1
        self.turned_away += status == REFUSED
        return status

    async def again(self) -> str | None:
        """The last payment a second time, as webhooks do."""
        if self._last_payment is None:
            return None
        receipt = await self._send(self._last_payment)
        return self._last_payment.subject if receipt.status == "duplicate" else None

    async def _host(self, host: str, *, shaky: bool) -> None:
        event = f"H-{next(self._others)}"
        await self._send(Incoming("host.added", host, {"id": host, "shaky": shaky}, event))

    async def _send(self, event: Incoming) -> Receipt:
        receipt = await self._app.emit(event.type, event.data, id=event.id, subject=event.subject)
        if receipt.status == "duplicate":
            self.duplicates += 1
        else:
            self.receipts.append(receipt)
        return receipt
