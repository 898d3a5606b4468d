"""A door and a reader without a store, for tests of the HTTP side."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from wakeful.api.app import create_api
from wakeful.api.security import ApiSettings
from wakeful.model import Event, Receipt

RUN = {
    "id": "abc",
    "agent": "review",
    "state": "done",
    "attempts": 1,
    "event": {"source": "/shop", "id": "1", "type": "order.created"},
    "created_at": "2026-01-01T00:00:00Z",
    "finished_at": None,
}
RUN_DETAIL = RUN | {
    "steps": [],
    "effects": [],
    "decisions": [],
    "deliveries": [],
    "output": {"nan": float("nan")},
    "error": None,
    "outcome": None,
}
EVENT = {"key": "k", "source": "/shop", "id": "a/b", "type": "order.created", "state": "accepted"}
CURSOR = "page-2"


class FakeDoor:
    """Keeps what it is handed, or raises `error`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.idempotency: tuple[str, str] | None = None
        self.error: Exception | None = None

    async def accept(self, events: list[Event], *, idempotency: tuple[str, str] | None = None) -> list[Receipt]:
        if self.error is not None:
            raise self.error
        self.events += events
        self.idempotency = idempotency
        return [Receipt(event.source, event.id, "accepted", [f"run-{event.id}"]) for event in events]


class FakeReader:
    """Knows one event and one run, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.error: Exception | None = None

    def _ask(self, **asked: Any) -> None:
        self.asked = asked
        if self.error is not None:
            raise self.error
        if asked.get("after") not in (None, CURSOR):
            message = "not a cursor"
            raise ValueError(message)

    async def runs(self, *, agent=None, state=None, event=None, limit=50, after=None) -> dict[str, Any]:
        self._ask(agent=agent, state=state, event=event, limit=limit, after=after)
        return {"runs": [RUN], "next": CURSOR}

    async def run(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return RUN_DETAIL if identifier == "abc" else None

    async def events(self, *, type=None, state=None, limit=50, after=None) -> dict[str, Any]:  # noqa: A002
        self._ask(type=type, state=state, limit=limit, after=after)
        return {"events": [EVENT], "next": None}

    async def event(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return EVENT if identifier in ("k", "a/b", "/a//b?c") else None

    async def why(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return {"event": EVENT, "lines": ["accepted"]} if identifier in ("k", "a/b") else None

    async def alarms(self, *, state=None) -> dict[str, Any]:
        self._ask(state=state)
        return {"alarms": []}

    async def health(self) -> dict[str, Any]:
        self._ask()
        return {"store": {"ok": True}, "schema": {"ok": True}}


class Api:
    """The API over the fakes, with a client."""

    def __init__(self, settings: ApiSettings | None = None, **options: Any) -> None:
        self.door = FakeDoor()
        self.reader = FakeReader()
        self.app = create_api(self.door, self.reader, settings=settings, **options)
        self.client = TestClient(self.app, base_url="http://localhost:8400", raise_server_exceptions=False)


def assert_problem(response: Any, status: int, **members: Any) -> dict[str, Any]:
    """The answer is problem+json of this status, whole, and with these members."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert problem["type"]
    assert problem["title"]
    assert problem["detail"]
    for name, value in members.items():
        assert problem.get(name) == value, problem
    return problem
