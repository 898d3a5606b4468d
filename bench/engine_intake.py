"""Durable intake over HTTP: the real server with the real store, and what the floor shares with it.

The floor is the same server with the same parsing and routing that answers without storing (`bench.floor_http`).
"""

import argparse
import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator

import structlog

from bench import floor_http, load_http
from wakeful import App, Event, Run, on
from wakeful.api.serving import create
from wakeful.cli.http_server import HttpServer
from wakeful.cli.listening import BACKLOG
from wakeful.cli.working import spare_the_collector
from wakeful.intake.route import Router
from wakeful.runtime import Runtime
from wakeful.shell.life import Stopping, live

EVENT_TYPE = "bench.*"


def make_app(store: str | None = None) -> App:
    app = App("intake", store=store)

    @app.agent(on(EVENT_TYPE))
    async def handle(run: Run) -> None: ...

    return app


_ROUTER = Router([(agent.name, agent.triggers) for agent in make_app().agents.values()])


def route(event: list[Event]) -> bytes:
    """Route as the door does, and answer without storing."""
    answers = []
    for one in event:
        routed = [f'"{routing.agent}"' for routing in _ROUTER.route(one) if routing.matched]
        answers.append(f'{{"source":"{one.source}","id":"{one.id}","status":"accepted","runs":[{",".join(routed)}]}}')
    return f'{{"events":[{",".join(answers)}]}}'.encode()


def floor(seconds: float) -> float:
    """Requests per second without storing."""
    report = floor_http.measure(
        seconds, parse="wakeful.intake.cloudevents:parse_request", route="bench.engine_intake:route"
    )
    return report.requests_per_second


def engine(store: str, seconds: float) -> load_http.Report:
    """Requests per second, answered after the commit."""
    with _running(store) as port:
        load_http.measure(port, seconds=min(1, seconds))
        return load_http.measure(port, seconds=seconds)


@contextlib.contextmanager
def _running(store: str) -> Iterator[int]:
    command = [sys.executable, "-m", "bench.engine_intake", "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def main() -> None:
    """Serve the real thing on a free port, without a worker: intake alone is measured."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    serve(make_app(options.store))


def serve(app: App) -> None:
    """The HTTP side of an app, with its store and without a worker, until the process is ended. As `wakeful serve` has it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))

    async def run(stopping: Stopping) -> int:
        runtime = Runtime(app)
        server = HttpServer(create(runtime), grace=1, access_log=False)
        await runtime.open(migrate=True)
        spare_the_collector()
        with socket.create_server((load_http.LOOPBACK, 0), backlog=BACKLOG) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await server.ready.wait()
            print(listener.getsockname()[1], flush=True)
            await stopping.asked.wait()
            await server.stop(serving, stopping)
        await runtime.stop()
        return 0

    live(run)


if __name__ == "__main__":
    main()
