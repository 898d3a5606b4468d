"""The intake floor: the server that stores nothing.

It is the same Starlette on the same uvicorn (uvloop, httptools, one worker), and it reads the body, parses it and
routes it with whatever functions it is given. Handed the engine's own functions, what is left between this floor and
the engine's intake is what durability costs: the store, and nothing else.

    python -m bench.floor_http --parse package.module:parse --route package.module:route

binds a free port on loopback, prints it on one line once it takes connections, and serves until it is ended.
"""

import argparse
import contextlib
import gc
import importlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench import load_http

Event = TypeVar("Event")
Parsing = Callable[[Mapping[str, str], bytes], Event]
"""Makes an event out of headers and body. Synchronous, as parsing is."""
Routing = Callable[[Event], bytes]
"""Finds out who handles an event and words the answer: the JSON body that goes with 202."""

_BACKLOG = 128


def parse_plainly(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Stand in for the engine's parsing: JSON, an object, with an id and a source."""
    del headers
    event: dict[str, Any] = json.loads(body)
    if not (event["source"] and event["id"]):
        raise ValueError(event)
    return event


def route_nowhere(event: dict[str, Any]) -> bytes:
    """Stand in for the engine's routing: the answer has its shape, and no run in it."""
    accepted = {"source": event["source"], "id": event["id"], "status": "accepted", "runs": []}
    return json.dumps({"events": [accepted]}, separators=(",", ":")).encode()


def make_app(parse: Parsing[Event], route: Routing[Event], path: str = "/v1/events") -> Starlette:
    """Make the server that parses and routes, and then forgets."""

    async def accept(request: Request) -> Response:
        event = parse(request.headers, await request.body())
        return Response(route(event), status_code=202, media_type="application/json")

    return Starlette(routes=[Route(path, accept, methods=["POST"])])


def measure(
    seconds: float = 5,
    *,
    parse: str = "bench.floor_http:parse_plainly",
    route: str = "bench.floor_http:route_nowhere",
    connections: int = 32,
    headers: Sequence[str] = (),
) -> load_http.Report:
    """Load the floor with the named functions in it, server and load each in a process of its own."""
    with running(parse, route) as port:
        load_http.measure(port, seconds=min(1, seconds), connections=connections, headers=headers)
        return load_http.measure(port, seconds=seconds, connections=connections, headers=headers)


@contextlib.contextmanager
def running(parse: str, route: str, path: str = "/v1/events") -> Iterator[int]:
    """Run the floor in a process of its own and yield its port."""
    command = [sys.executable, "-m", "bench.floor_http", "--parse", parse, "--route", route, "--path", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def serve(app: Starlette) -> None:
    """Serve on a free loopback port, and print the port as soon as connections are taken."""
    with socket.create_server((load_http.LOOPBACK, 0), backlog=_BACKLOG) as listener:
        config = uvicorn.Config(app, loop="uvloop", http="httptools", workers=1, log_level="warning", access_log=False)
        config.load()
        gc.collect()
        gc.freeze()  # as the engine's server does: neither pauses to look through what was loaded
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def main() -> None:
    """Serve the floor, or with --measure print what it can do."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--parse", default="bench.floor_http:parse_plainly", metavar="MODULE:FUNCTION")
    parser.add_argument("--route", default="bench.floor_http:route_nowhere", metavar="MODULE:FUNCTION")
    parser.add_argument("--path", default="/v1/events")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    if options.measure:
        report = measure(options.seconds, parse=options.parse, route=options.route)
        throughput = f"{report.requests_per_second:,.0f} requests/s"
        print(f"HTTP, not storing: {throughput}, p50 {report.p50:.2f} ms, p99 {report.p99:.2f} ms")
    else:
        serve(make_app(_named(options.parse), _named(options.route), options.path))


if __name__ == "__main__":
    main()
