"""The load of a sender of webhooks: as `bench.load_http`, with a body of some two thousand bytes that is signed anew each time.

    python -m bench.load_webhooks --port 8080 --sender github --seconds 5        prints one JSON line: a Report

Only the number in the body is replaced. The beginning of each body is the same, so its part of the signature is computed once.
"""

import argparse
import asyncio
import base64
import dataclasses
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Callable

from bench import load_http
from bench.load_http import LOOPBACK, Caller, Load, Report

SECRET = "whsec_" + base64.b64encode(b"the secret of the benchmark's sender").decode()
PATH = "/hooks/bench"
SIZE = 2_000
_WIDTH = 16


def _body() -> tuple[bytes, bytes]:
    """The bytes before and after the number: a push of a few commits, number last."""
    commits = [
        {
            "id": hashlib.sha1(b"%d" % number, usedforsecurity=False).hexdigest(),
            "message": "mend the printer, and say what was wrong with it",
            "timestamp": "2026-11-15T08:00:00Z",
            "author": {"name": "octo", "email": "octo@example.com"},
            "added": [],
            "removed": [],
            "modified": ["src/printer.py", "docs/printer.md"],
        }
        for number in range(6)
    ]
    data = {
        "type": "push",
        "timestamp": "2026-11-15T08:00:00Z",
        "ref": "refs/heads/main",
        "repository": {"id": 42, "full_name": "octo/shop", "private": False, "default_branch": "main"},
        "sender": {"login": "octo", "id": 7, "site_admin": False},
        "commits": commits,
        "number": "%s",
    }
    before, after = json.dumps(data).encode().split(b"%s")
    return before, after


BEFORE, AFTER = _body()


class Signing(Load):
    """What all connections share, with a signature for each request."""

    def __init__(self, head: Callable[[bytes, bytes], bytes], first: int) -> None:
        super().__init__(b"", b"", 10_000_000, first)
        self._make = head

    def next_request(self) -> bytes | None:
        if self._next >= self._end:
            return None
        number = b"%0*d" % (_WIDTH, self._next)
        self._next += 1
        body = b"%b%b%b" % (BEFORE, number, AFTER)
        return b"%b%b" % (self._make(number, body), body)


def _common(port: int) -> bytes:
    lines = (
        f"POST {PATH} HTTP/1.1",
        f"Host: {LOOPBACK}:{port}",
        "User-Agent: bench",
        "Accept: */*",
        "Content-Type: application/json",
        f"Content-Length: {len(BEFORE) + _WIDTH + len(AFTER)}",
    )
    return "\r\n".join((*lines, "")).encode()


def github(port: int) -> Callable[[bytes, bytes], bytes]:
    """Signs the body alone: Wakeful knows it again by its signature too."""
    common = _common(port) + b"X-GitHub-Event: push\r\n"
    state = hmac.new(SECRET.encode(), BEFORE, hashlib.sha256)

    def head(number: bytes, _: bytes) -> bytes:
        one = state.copy()
        one.update(number + AFTER)
        signature = one.hexdigest().encode()
        return b"%bX-GitHub-Delivery: %b\r\nX-Hub-Signature-256: sha256=%b\r\n\r\n" % (common, number, signature)

    return head


def standard(port: int) -> Callable[[bytes, bytes], bytes]:
    """Signs its id and the time: a name of its own is all it needs."""
    common = _common(port)
    state = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), b"", hashlib.sha256)
    at = b"%d" % time.time()

    def head(number: bytes, body: bytes) -> bytes:
        one = state.copy()
        one.update(b"%b.%b.%b" % (number, at, body))
        signature = base64.b64encode(one.digest())
        return b"%bwebhook-id: %b\r\nwebhook-timestamp: %b\r\nwebhook-signature: v1,%b\r\n\r\n" % (
            common,
            number,
            at,
            signature,
        )

    return head


SENDERS = {"github": github, "standard": standard}


async def apply(port: int, sender: str, *, seconds: float, connections: int = 32) -> Report:
    """Load the server on `port` until the time is up."""
    load = Signing(SENDERS[sender](port), first=time.time_ns() // 1000 % 10**9 * 10**6)
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Caller(load), LOOPBACK, port)
    stopper = loop.call_later(seconds, load.stop)
    await load.drained.wait()
    stopper.cancel()
    return Report.of(load.latencies, load.refused, time.perf_counter() - start)


def measure(port: int, sender: str, *, seconds: float) -> Report:
    """Do as `apply` does, in a process of its own."""
    command = [sys.executable, "-m", "bench.load_webhooks", "--port", str(port), "--sender", sender]
    command += ["--seconds", str(seconds)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 30)
    return Report(**json.loads(finished.stdout))


def main() -> None:
    """Load a server on loopback and print what it answered."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sender", choices=SENDERS, required=True)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    load = apply(options.port, options.sender, seconds=options.seconds)
    with asyncio.Runner(loop_factory=load_http.event_loop) as runner:
        print(json.dumps(dataclasses.asdict(runner.run(load))))


if __name__ == "__main__":
    main()
