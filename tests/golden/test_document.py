"""The OpenAPI document against a real store: Schemathesis asks, and every answer is as the document says, with no key that it does not name."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from golden.serving import HEADERS
from support.json_schemas import closed
from support.tokens import TOKEN
from wakeful import App
from wakeful.api.openapi import document
from wakeful.loading import load_app

pytestmark = pytest.mark.slow
EXAMPLES = 12
KEYS = ("id", "key", "name", "agent", "app")  # the first of them that a thing has is what its path names it by


def strict() -> dict[str, Any]:
    """The document, with unknown keys forbidden in what is answered. What is asked stays as free as it is."""
    whole = document()
    return {**whole, "components": {**whole["components"], "schemas": closed(whole["components"]["schemas"])}}


schema = schemathesis.openapi.from_dict(strict())


@pytest.fixture
def url(copy: Path) -> Iterator[str]:
    """The app of the frozen store, served on loopback without a worker."""
    app = cast("App", load_app("app.py"))
    listener = socket.create_server(("127.0.0.1", 0))
    http = app.asgi(token=TOKEN, worker=False, reading="never")
    server = uvicorn.Server(uvicorn.Config(http, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture
def keys(url: str) -> Callable[[str], list[str]]:
    """Which keys there are of a noun, by the first words of a path."""

    def found(noun: str) -> list[str]:
        answer = httpx2.get(f"{url}/v1/{noun}", headers=HEADERS, trust_env=False)
        items = answer.json().get(noun, []) if answer.status_code == 200 else []
        return [str(next(one[name] for name in KEYS if name in one)) for one in items]

    return found


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_the_document_says_is_so(case: Any, url: str, keys: Callable[[str], list[str]]) -> None:
    case.headers = {**(case.headers or {}), **HEADERS}
    real = keys(case.path.split("/")[2]) if case.path_parameters else []
    if real:
        for name, value in case.path_parameters.items():
            number = int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:4])
            if number % 4:  # most of the time a thing that is there
                case.path_parameters[name] = real[number % len(real)]
    case.call_and_validate(
        base_url=url,
        checks=[not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance],
    )
