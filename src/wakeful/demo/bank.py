"""The bank of the demonstration: a service outside of Wakeful, in a process of its own, that pays refunds.

It books a refund at once, and it is slow to answer: the caller that asks first about a refund has hung up before the
answer is there. So every refund here was done although its call failed. What can be known afterwards depends on the way
it is paid:

    transfer   the bank knows an id again: asked a second time under the same one, it pays nothing, and answers
    card       it does not, but it can be asked which refund it has booked
    cheque     neither: a second request is a second cheque. Only a person, with the statement in hand, can tell

One line of JSON comes in and one goes out. The bank writes down each request and each booking in its book, `bank.log`,
before any answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wakeful.demo.lines import Lines, add_line
from wakeful.demo.orders import told_to_end

VARIABLE = "WAKEFUL_DEMO_BANK"
HOST = "127.0.0.1"

Way = Literal["transfer", "card", "cheque"]


async def pay(way: Way, reference: str, amount: str, key: str | None = None) -> str:
    """Have a refund paid; the number of the booking."""
    return str(await _ask({"do": "pay", "way": way, "reference": reference, "amount": amount, "key": key}))


async def look(reference: str) -> str | None:
    """The number of a booking, if there is one under this reference."""
    booking: str | None = await _ask({"do": "look", "reference": reference})
    return booking


async def _ask(request: dict[str, Any]) -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(os.environ[VARIABLE]))
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionError("the bank hung up without an answer")
    return json.loads(line)


class Bank:
    """Takes requests, one connection for each."""

    def __init__(self, book: Path) -> None:
        self._book = book
        self._numbers = itertools.count(7001)
        self._bookings: dict[str, str] = {}  # by the key of a transfer, and by the reference of each

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what is asked, then answer; but the first request about a refund is never answered."""
        try:
            request = json.loads(await reader.readline())
            reference = request["reference"]
            if request["do"] == "look":
                self._write("looked", reference)
                answer = self._bookings.get(reference)
            else:
                is_first = reference not in self._bookings
                answer = self._pay(reference, request["key"])
                if is_first:
                    await reader.read()  # until the other side has hung up
                    self._write("unheard", reference)
                    return
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the caller hung up in the middle of a line
        finally:
            writer.close()

    def _pay(self, reference: str, key: str | None) -> str:
        self._write("asked", reference)
        if key is not None and key in self._bookings:
            self._write("known", reference)
            return self._bookings[key]
        booking = f"B-{next(self._numbers)}"
        self._write("booked", reference)
        self._bookings |= {name: booking for name in (reference, key) if name is not None}
        return booking

    def _write(self, what: str, reference: str) -> None:
        add_line(self._book, {"what": what, "reference": reference})


@dataclass(slots=True)
class Page:
    """What the book says about one refund."""

    asked: int = 0
    booked: int = 0
    known: int = 0
    looked: int = 0
    unheard: int = 0

    def add(self, what: str) -> None:
        setattr(self, what, getattr(self, what) + 1)


class Book:
    """Reads the bank's book as it grows: counted where neither the worker nor the store can touch it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)
        self._total = Page()
        self.pages: dict[str, Page] = {}

    def read(self) -> None:
        """Take in the lines that were added since the last time."""
        for line in self._lines.added():
            self.pages.setdefault(line["reference"], Page()).add(line["what"])
            self._total.add(line["what"])

    def page(self, reference: str) -> Page:
        """What there is about a refund, be it nothing."""
        return self.pages.get(reference, Page())

    def total(self) -> Page:
        return self._total


async def run(book: Path) -> None:
    """Open until it is told to end. The first line on standard output is the port."""
    server = await asyncio.start_server(Bank(book).serve, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 the director reads it
    await told_to_end()
    server.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
