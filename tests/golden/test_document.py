"""The OpenAPI document against real stores: Schemathesis asks, and every answer is as the document says, with no key that it does not
name.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import cache
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

from golden.conftest import STORE
from golden.postgres import make_template
from golden.serving import HEADERS
from support.databases import Databases
from support.json_schemas import closed_answers
from support.tokens import TOKEN
from wakeful import App
from wakeful.api.openapi import document
from wakeful.api.waiting import LONGEST_WAIT
from wakeful.clock import duration
from wakeful.loading import load_app
from wakeful.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.slow
EXAMPLES = 12
KEYS = ("id", "key", "name", "agent", "app")  # the first of them that a thing has is what its path names it by


schema = schemathesis.openapi.from_dict(closed_answers(document()))


@pytest.fixture(scope="session")
def template(project: Path, postgres_server: PostgresServer, databases: Databases) -> str:
    return asyncio.run(make_template(postgres_server, databases, project / STORE))


@pytest.fixture
def postgres_store(
    template: str, postgres_server: PostgresServer, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The frozen store in a database of its own, for the project of this folder."""
    name = asyncio.run(postgres_server.create_database(template=template))
    monkeypatch.setenv("WAKEFUL_STORE", postgres_server.dsn(name))
    yield
    asyncio.run(postgres_server.drop_database(name))


@pytest.fixture
def url(copy: Path, dialect: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The app of the frozen store, served on loopback without a worker."""
    if dialect == "postgres":
        request.getfixturevalue("postgres_store")
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

    @cache
    def found(noun: str) -> list[str]:
        answer = httpx2.get(f"{url}/v1/{noun}", headers=HEADERS, trust_env=False)
        items = answer.json().get(noun, []) if answer.status_code == 200 else []
        return [str(next(one[name] for name in KEYS if name in one)) for one in items]

    return found


def shortened(wait: str) -> str:
    """No worker is here, so a wait that is accepted takes all of its time."""
    try:
        return "20ms" if duration(wait) <= LONGEST_WAIT else wait
    except ValueError:
        return wait


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_the_document_says_is_so(case: Any, url: str, keys: Callable[[str], list[str]]) -> None:
    case.headers = {**(case.headers or {}), **HEADERS}
    if case.query and isinstance(case.query.get("wait"), str):
        case.query["wait"] = shortened(case.query["wait"])
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
