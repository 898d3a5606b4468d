"""Webhook intake: the real server with the real store, and what the floor shares with it.

The floor is the same server with the same verifying, reading and routing that answers without storing (`bench.floor_http`).
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping

from bench import engine_intake, floor_http, load_http, load_webhooks
from wakeful import App, Event, Run, webhook
from wakeful.clock import SystemClock
from wakeful.intake.route import Router
from wakeful.triggers.endpoint import Endpoint, read_endpoints
from wakeful.verify import Verifier, WebhookRequest, github, standard_webhooks

VERIFIERS: dict[str, Verifier] = {
    "github": github(secret=load_webhooks.SECRET),
    "standard": standard_webhooks(load_webhooks.SECRET),
}


def make_app(sender: str, store: str | None = None) -> App:
    app = App("webhooks", store=store)

    @app.agent(webhook(load_webhooks.PATH, verify=VERIFIERS[sender]))
    async def handle(run: Run) -> None: ...

    return app


def _endpoint(sender: str) -> Endpoint:
    return read_endpoints(make_app(sender).agents.values())[load_webhooks.PATH]


_ENDPOINTS = {sender: _endpoint(sender) for sender in VERIFIERS}
_ROUTER = Router([(agent.name, agent.triggers) for agent in make_app("github").agents.values()])
_CLOCK = SystemClock()


def parse_github(headers: Mapping[str, str], body: bytes) -> Event:
    return _parse(_ENDPOINTS["github"], headers, body)


def parse_standard(headers: Mapping[str, str], body: bytes) -> Event:
    return _parse(_ENDPOINTS["standard"], headers, body)


def _parse(endpoint: Endpoint, headers: Mapping[str, str], body: bytes) -> Event:
    """Verify and read as the server does."""
    request = WebhookRequest(endpoint.path, dict(headers), body, _CLOCK.now())
    endpoint.verifier.verify(request)
    endpoint.challenge(request)
    return endpoint.read(request).event


def route(event: Event) -> bytes:
    """Route as the door does, and answer without storing."""
    routed = ",".join(f'"{routing.agent}"' for routing in _ROUTER.route(event) if routing.matched)
    return (
        f'{{"events":[{{"source":"{event.source}","id":"{event.id}","status":"accepted","runs":[{routed}]}}]}}'.encode()
    )


def floor(sender: str, seconds: float) -> float:
    """Requests per second without storing."""
    names = f"bench.engine_webhooks:parse_{sender}", "bench.engine_webhooks:route"
    with floor_http.running(*names, path=load_webhooks.PATH) as port:
        return _measured(port, sender, seconds).requests_per_second


def engine(sender: str, store: str, seconds: float) -> load_http.Report:
    """Requests per second, answered after the commit."""
    with _running(sender, store) as port:
        return _measured(port, sender, seconds)


def _measured(port: int, sender: str, seconds: float) -> load_http.Report:
    load_webhooks.measure(port, sender, seconds=min(1, seconds))
    report = load_webhooks.measure(port, sender, seconds=seconds)
    if report.refused > report.accepted // 100:
        message = f"{sender}: {report.refused} of {report.refused + report.accepted} requests were refused"
        raise RuntimeError(message)
    return report


@contextlib.contextmanager
def _running(sender: str, store: str) -> Iterator[int]:
    command = [sys.executable, "-m", "bench.engine_webhooks", "--sender", sender, "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def main() -> None:
    """Serve the real thing on a free port, without a worker: intake alone is measured."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--sender", choices=VERIFIERS, required=True)
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    engine_intake.serve(make_app(options.sender, options.store))


if __name__ == "__main__":
    main()
