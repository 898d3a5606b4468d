"""What the HTTP side answers: to reading, to changing, and to mistakes."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from golden.conftest import STORE, Compare, copy_project
from golden.requests import CHANGING, GATE, READING
from golden.serving import HEADERS, served, shown
from golden.store import Trail


@pytest.fixture(scope="module")
def answers(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """All that only reads is asked of one server, one after the other."""
    folder = tmp_path_factory.mktemp("served") / "shop"
    copy_project(project, folder)

    async def ask() -> dict[str, str]:
        async with served() as http:
            return {name: shown("GET", path, await http.get(path)) for name, path in READING.items()}

    here = Path.cwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, {"WAKEFUL_STORE": f"sqlite:///{STORE}"}):
            yield asyncio.run(ask())
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", READING)
def test_reading(name: str, answers: dict[str, str], compare: Compare) -> None:
    compare(f"http/{name}.json", answers[name])


@pytest.mark.parametrize("name", CHANGING)
async def test_changing(name: str, copy: Path, compare: Compare) -> None:
    method, path, body = CHANGING[name]
    trail = Trail(copy / STORE)
    async with served() as http:
        response = await http.request(method, path, **({} if body is None else {"json": body}))
    compare(f"http/changes/{name}.json", shown(method, path, response, sent=body, recorded=trail.rows()))


@pytest.mark.parametrize("name", GATE)
async def test_gate(name: str, copy: Path, compare: Compare) -> None:
    known, more = GATE[name]
    async with served({**(HEADERS if known else {}), **more}) as http:
        response = await http.post("/v1/pause", content=b'{"agent": ')
    compare(
        f"http/gate/{name}.json",
        shown("POST", "/v1/pause", response, challenge=response.headers.get("www-authenticate")),
    )
