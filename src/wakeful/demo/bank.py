"""The bank of the demonstration: a service outside of Wakeful, in a process of its own, that pays refunds.

It books a refund at once, and it is slow to answer: whoever asks first about a refund has hung up before the answer is
there. So every refund here was done although its call failed. What can be known afterwards depends on the way it is paid:

    transfer   the bank knows an id again: asked a second time under the same one, it pays nothing, and answers
    card       it does not, but it can be asked which refund it has booked
    cheque     neither: a second request is a second cheque. Only a person, with the statement in hand, can tell

One line of JSON comes in and one goes out. What it was asked and what it booked goes into its book, `bank.log`, before any
answer: `book.py` reads it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

from wakeful.demo.ending import told_to_end
from wakeful.demo.lines import add_line

VARIABLE = "WAKEFUL_DEMO_BANK"
HOST = "127.0.0.1"

Way = Literal["transfer", "card", "cheque"]


# the customer's side


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


# the bank's side


class Bank:
    """Takes requests, one connection for each."""

    def __init__(self, book: Path) -> None:
        self._book = book
        self._numbers = itertools.count(7001)
        self._by_key: dict[str, str] = {}
        self._by_reference: dict[str, str] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what is asked, then answer; but nobody hears the answer to the first request about a refund."""
        try:
            request = json.loads(await reader.readline())
            is_first = request["reference"] not in self._by_reference
            answer = self._look(request) if request["do"] == "look" else self._pay(request)
            if is_first and request["do"] == "pay":
                await reader.read()  # until the other side has hung up
                self._write("unheard", request)
                return
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # somebody hung up in the middle of a line
        finally:
            writer.close()

    def _pay(self, request: dict[str, Any]) -> str:
        self._write("asked", request)
        key = request["key"]
        if key in self._by_key:
            self._write("known", request)
            return self._by_key[key]
        booking = f"B-{next(self._numbers)}"
        self._write("booked", request)
        self._by_reference[request["reference"]] = booking
        if key is not None:
            self._by_key[key] = booking
        return booking

    def _look(self, request: dict[str, Any]) -> str | None:
        self._write("looked", request)
        return self._by_reference.get(request["reference"])

    def _write(self, what: str, request: dict[str, Any]) -> None:
        add_line(self._book, {"what": what, "reference": request["reference"], "key": request.get("key")})


async def run(book: Path) -> None:
    """Open until it is told to end. The first line on standard output is the port."""
    server = await asyncio.start_server(Bank(book).serve, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 the director reads it
    await told_to_end()
    server.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
