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
    """Have a refund paid; the number of the booking."""
    return await _ask("pay", reference, key)


async def look(reference: str) -> str | None:
    """The number of a booking, if there is one under this reference."""
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
    """Takes requests, one connection for each."""

    def __init__(self, book: Path) -> None:
        self._book = book
        self._numbers = itertools.count(7001)
        self._bookings: dict[str, str] = {}  # by the key of a transfer, and by the reference of each

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what is asked, then answer; but the first request about a refund is never answered."""
        try:
            verb, reference, key = json.loads(await reader.readline())
            is_first = verb == "pay" and reference not in self._bookings
            add_line(self._book, what="asked" if verb == "pay" else "looked", reference=reference)
            if verb == "pay" and key not in self._bookings:
                self._bookings[reference] = self._bookings[key or reference] = f"B-{next(self._numbers)}"
                add_line(self._book, what="booked", reference=reference)
            if is_first:
                await reader.read()  # until the other side has hung up
                add_line(self._book, what="unheard", reference=reference)
            else:
                writer.write(json.dumps(self._bookings.get(key or reference)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the caller hung up in the middle of a line
        finally:
            writer.close()


async def run(book: Path, listener: int) -> None:
    """Open until it is told to end, on a port that the director has opened."""
    server = await asyncio.start_server(Bank(book).serve, sock=socket.socket(fileno=listener))
    await told_to_end()
    server.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
