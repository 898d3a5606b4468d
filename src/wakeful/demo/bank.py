"""The bank of the demonstration: a service outside of Wakeful, in a process of its own, that pays refunds.

It books a refund at once but answers slowly: the first call about a refund times out. So every refund here was paid although its
call failed. How the outcome can be found out depends on the kind of payment:

    transfer   the bank deduplicates by id: a second request with the same id pays nothing and is answered
    card       no deduplication, but booked refunds can be looked up
    cheque     neither: a second request is a second cheque. Only a person with the bank statement knows

A request and an answer are one line of JSON each. The bank writes each request and each booking to its book, `bank.log`, before it
answers.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
from pathlib import Path
from typing import Literal

from wakeful.demo.outside import add_line
from wakeful.demo.processes import told_to_end

PORT = "WAKEFUL_DEMO_BANK"
HOST = "127.0.0.1"

Way = Literal["transfer", "card", "cheque"]


async def pay(reference: str, key: str | None = None) -> str | None:
    """Pay a refund. Returns the booking number."""
    return await _ask("pay", reference, key)


async def look(reference: str) -> str | None:
    """The booking number for this reference, if there is one."""
    return await _ask("look", reference, None)


async def _ask(verb: str, reference: str, key: str | None) -> str | None:
    reader, writer = await asyncio.open_connection(HOST, int(os.environ[PORT]))
    try:
        writer.write(json.dumps([verb, reference, key]).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionError("the bank hung up without an answer")
    booking: str | None = json.loads(line)
    return booking


class Bank:
    """Serves requests, one per connection."""

    def __init__(self, book: Path) -> None:
        self._book = book
        self._numbers = itertools.count(7001)
        self._bookings: dict[str, str] = {}  # by the key of a transfer, and by the reference of each

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Execute a request, then answer. The first request about a refund is never answered."""
        try:
            verb, reference, key = json.loads(await reader.readline())
            is_first = verb == "pay" and reference not in self._bookings
            add_line(self._book, what="asked" if verb == "pay" else "looked", reference=reference)
            if verb == "pay" and key not in self._bookings:
                self._bookings[reference] = self._bookings[key or reference] = f"B-{next(self._numbers)}"
                add_line(self._book, what="booked", reference=reference)
            if is_first:
                await reader.read()  # until the caller has hung up
                add_line(self._book, what="unheard", reference=reference)
            else:
                writer.write(json.dumps(self._bookings.get(key or reference)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the caller hung up in the middle of a line
        finally:
            writer.close()


async def run(book: Path, listener: int) -> None:
    """Serve until told to end, on a port that the director has opened."""
    server = await asyncio.start_server(Bank(book).serve, sock=socket.socket(fileno=listener))
    await told_to_end()
    server.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
