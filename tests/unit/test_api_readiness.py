"""/readyz asks the store at most once a second."""

from __future__ import annotations

import asyncio

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from support.fake_api import Api
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.api.health import health_routes
from wakeful.api.readiness import FRESH_FOR, Readiness
from wakeful.errors import SchemaMismatch, StoreUnavailable
from wakeful.http.security import ApiSettings, Guard


class Reader:
    """Counts how often it is asked, and answers when it may."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.error: Exception | None = None

    async def health(self):
        self.asked += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return {"store": "fake", "number": self.asked}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def number(readiness: Readiness) -> int:
    """How often the store had been asked when it said so."""
    health = await readiness.ask()
    assert isinstance(health, dict)
    return int(health["number"])


async def test_many_callers_at_once_are_one_question():
    reader = Reader()
    readiness = Readiness(reader.health)
    callers = [asyncio.create_task(readiness.ask()) for _ in range(500)]
    while not reader.asked:
        await asyncio.sleep(0)
    callers[0].cancel()  # the one that asked first hangs up
    await asyncio.gather(callers[0], return_exceptions=True)
    reader.answers.set()
    answers = await asyncio.gather(*callers[1:])
    assert answers == [{"store": "fake", "number": 1}] * 499
    assert reader.asked == 1


async def test_it_is_asked_again_after_a_second():
    reader, clock = Reader(), Clock()
    reader.answers.set()
    readiness = Readiness(reader.health, now=clock)
    for _ in range(100):
        assert await number(readiness) == 1
    clock.now += FRESH_FOR - 0.001
    assert await number(readiness) == 1
    clock.now += 0.001
    assert await number(readiness) == 2


@pytest.mark.parametrize("error", [StoreUnavailable("away"), SchemaMismatch("behind")])
async def test_what_went_wrong_is_kept_for_as_long(error):
    reader, clock = Reader(), Clock()
    reader.answers.set()
    reader.error = error
    readiness = Readiness(reader.health, now=clock)
    assert [await readiness.ask() for _ in range(10)] == [error] * 10
    assert reader.asked == 1
    reader.error = None
    clock.now += FRESH_FOR
    assert await number(readiness) == 2


def test_strangers_are_not_told_what_is_wrong(monkeypatch: pytest.MonkeyPatch):
    async def away():
        raise SchemaMismatch("the schema is behind: secret details")

    reader = Api().reader
    monkeypatch.setattr(reader, "health", away)
    guard = Middleware(Guard, settings=ApiSettings(token=TOKEN))
    app = Starlette(routes=health_routes(reader.health, silent=lambda: {"worker": 90.0}), middleware=[guard])
    client = TestClient(app, base_url="http://localhost", client=("203.0.113.5", 1))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
    assert "secret details" in client.get("/readyz", headers=WITH_TOKEN).text


def test_a_server_whose_parts_do_not_look_any_more_is_not_ready():
    api = Api(ApiSettings(token=TOKEN))
    assert api.client.get("/readyz", headers=WITH_TOKEN).status_code == 200
    api.silent = {"scheduler": 75.2, "worker": float("inf")}
    answer = api.client.get("/readyz", headers=WITH_TOKEN)
    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    parts = answer.json()["parts"]
    assert parts["scheduler"] == {"ok": False, "detail": "has not looked for 75 seconds"}
    assert parts["worker"] == {"ok": False, "detail": "has ended"}
    assert api.client.get("/healthz").status_code == 200
