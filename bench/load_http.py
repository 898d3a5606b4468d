"""The load on an HTTP intake: keep-alive connections that each send the next event as soon as the last is answered.

It runs in a process of its own, beside the server that it measures, on as few cycles as Python allows: requests are
bytes made once, of which only the event's id is replaced; answers are recognised by their status line and length and
not parsed further. It talks to loopback and to nothing else.

    python -m bench.load_http --port 8080 --seconds 5        prints one JSON line: a Report
"""

import argparse
import array
import asyncio
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self, cast

LOOPBACK = "127.0.0.1"
_ID_WIDTH = 16
BODY = (
    '{"specversion":"1.0","source":"/bench/load","id":"%s","type":"bench.ticket.created","subject":"ticket/42",'
    '"time":"2026-11-15T08:00:00Z","datacontenttype":"application/json",'
    '"data":{"number":42,"title":"printer on fire","severity":3}}'
)
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What the load saw. Latencies are in milliseconds, from sending a request to having all of its answer."""

    accepted: int
    refused: int
    seconds: float
    requests_per_second: float
    p50: float
    p99: float

    @classmethod
    def of(cls, latencies: "array.array[float]", refused: int, seconds: float) -> Self:
        """Sum up. `requests_per_second` counts what was answered with 202, and nothing else."""
        if len(latencies) < 2:  # too few for quantiles
            return cls(len(latencies), refused, seconds, len(latencies) / seconds, 0.0, 0.0)
        percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
        return cls(
            accepted=len(latencies),
            refused=refused,
            seconds=seconds,
            requests_per_second=len(latencies) / seconds,
            p50=percentiles[49] * 1000,
            p99=percentiles[98] * 1000,
        )


class Load:
    """What all connections share: the request, how much is still to be sent, and what came back."""

    def __init__(self, head: bytes, tail: bytes, count: int, first: int) -> None:
        self._head = head
        self._tail = tail
        self._next = first
        self._end = first + count
        self.open_connections = 0
        self.drained = asyncio.Event()
        self.latencies: array.array[float] = array.array("d")
        self.refused = 0

    def next_request(self) -> bytes | None:
        """Make the next request, with an event id that was not used before; None when all are sent."""
        if self._next >= self._end:
            return None
        number = self._next
        self._next = number + 1
        return b"%b%0*d%b" % (self._head, _ID_WIDTH, number, self._tail)

    def stop(self) -> None:
        """Send no more; what is on its way is still waited for."""
        self._end = self._next


class Caller(asyncio.Protocol):
    """One keep-alive connection with at most one request on its way."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = b""
        self._sent_at = 0.0
        self._finished = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start at once."""
        # uvloop's transports are not subclasses of asyncio's, only like them.
        self._transport = cast("asyncio.Transport", transport)
        self._load.open_connections += 1
        self._send_next()

    def data_received(self, data: bytes) -> None:
        """Note the answer once it is whole, and send the next request."""
        received = self._received + data if self._received else data
        if not _is_whole(received):
            self._received = received
            return
        self._received = b""
        if received[9:12] == b"202":
            self._load.latencies.append(time.perf_counter() - self._sent_at)
        else:
            self._load.refused += 1
        self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        """Count down; the last one out ends the measurement. A request that is cut off was not accepted."""
        if not self._finished:
            self._load.refused += 1
        self._load.open_connections -= 1
        if not self._load.open_connections:
            self._load.drained.set()

    def _send_next(self) -> None:
        request = self._load.next_request()
        if request is None:
            self._finished = True
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def _is_whole(answer: bytes) -> bool:
    end = answer.find(_END_OF_HEAD)
    if end < 0:
        return False
    at = answer[:end].lower().find(_LENGTH)
    if at < 0:
        return True
    start = at + len(_LENGTH)
    stop = answer.find(b"\r\n", start)
    return len(answer) >= end + len(_END_OF_HEAD) + int(answer[start:stop])


async def apply(
    port: int,
    path: str = "/v1/events",
    *,
    seconds: float = 5,
    count: int = 10_000_000,
    connections: int = 32,
    headers: Sequence[str] = (),
) -> Report:
    """Load the server on `port` until the time is up or `count` requests are sent."""
    head, tail = _request(port, path, headers)
    # Every measurement starts at another id, so that a second one on the same store does not send duplicates.
    load = Load(head, tail, count, first=time.time_ns() // 1000 % 10**9 * 10**6)
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Caller(load), LOOPBACK, port)
    stopper = loop.call_later(seconds, load.stop)
    await load.drained.wait()
    stopper.cancel()
    return Report.of(load.latencies, load.refused, time.perf_counter() - start)


def _request(port: int, path: str, headers: Sequence[str]) -> tuple[bytes, bytes]:
    """Make the bytes before and after the event's id. The id has a fixed width, so the length never changes."""
    before, after = BODY.split("%s")
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {LOOPBACK}:{port}",
        "Content-Type: application/cloudevents+json",
        f"Content-Length: {len(before) + _ID_WIDTH + len(after)}",
        *headers,
    )
    return "\r\n".join((*lines, "", before)).encode(), after.encode()


def measure(
    port: int,
    path: str = "/v1/events",
    *,
    seconds: float = 5,
    count: int = 10_000_000,
    connections: int = 32,
    headers: Sequence[str] = (),
) -> Report:
    """Do as `apply` does, in a process of its own, so that the load does not share an interpreter with anything."""
    command = [sys.executable, "-m", "bench.load_http", "--port", str(port), "--path", path]
    command += ["--seconds", str(seconds), "--count", str(count), "--connections", str(connections)]
    for header in headers:
        command += ["--header", header]
    # The time limit is for a server that stops answering: then the load would wait for ever.
    finished = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 30)
    return Report(**json.loads(finished.stdout))


def main() -> None:
    """Load a server on loopback and print what it answered."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/v1/events")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'")
    options = parser.parse_args()
    load = apply(
        options.port,
        options.path,
        seconds=options.seconds,
        count=options.count,
        connections=options.connections,
        headers=options.header,
    )
    with asyncio.Runner(loop_factory=event_loop) as runner:
        print(json.dumps(dataclasses.asdict(runner.run(load))))


def event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


if __name__ == "__main__":
    main()
