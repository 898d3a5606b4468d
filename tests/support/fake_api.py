"""A door and a reader without a store, for tests of the HTTP side."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.testclient import TestClient

from wakeful.api.app import create_api
from wakeful.app import App
from wakeful.http.security import ApiSettings
from wakeful.intake.reserved import By
from wakeful.model import Effect, Event, Receipt
from wakeful.operations.declared import Declared
from wakeful.stores.request import ByPerson
from wakeful.stores.stored import EventToFeed, HeldEffect
from wakeful.stores.verbs.cancel import Cancelled, CancelRun
from wakeful.stores.verbs.commit import ReleaseRun
from wakeful.stores.verbs.feed import FeedEvents
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.outbox import RedoDelivery
from wakeful.stores.verbs.people import RecordOperation
from wakeful.stores.verbs.redo import Redone, RedoRun
from wakeful.stores.verbs.sending import SentBy
from wakeful.stores.verbs.settling import Settled, SettleEffect
from wakeful.triggers.on import on

RUN = {
    "id": "abc",
    "app": "shop",
    "agent": "review",
    "state": "done",
    "attempts": 1,
    "event": {"source": "/shop", "id": "1", "type": "order.created"},
    "created_at": "2026-01-01T00:00:00Z",
    "finished_at": None,
    "crashes": 0,
    "reason": None,
    "started_at": None,
    "due_at": None,
}
NOTHING = ("chain", "scheduled", "key", "priority", "gathers_until", "ahead", "behind", "edited", "owner", "parked_for")
RUN_DETAIL = RUN | {
    **dict.fromkeys((*NOTHING, "expires_at", "version", "cancel", "change", "awaits_code")),
    "root": "abc",
    "event": {"source": "/shop", "id": "1", "type": "order.created", "key": "k", "data": None},
    "events": [],
    "token": 1,
    "history": [],
    "remedies": [],
    "steps": [],
    "effects": [],
    "decisions": [],
    "deliveries": [],
    "parent": None,
    "children": [],
    "outdated": False,
    "output": {"nan": float("nan")},
    "error": None,
    "outcome": None,
}
EVENT = {
    "key": "k",
    "app": "shop",
    "source": "/shop",
    "id": "a/b",
    "type": "order.created",
    "subject": None,
    "state": "accepted",
    "reason": None,
    "duplicates": 0,
    "accepted_at": "2026-01-01T00:00:00Z",
}
EFFECT = {
    "id": "eff",
    "action": "charge",
    "safety": "at_most_once",
    "state": "held",
    "reason": None,
    "arguments": [],
    "result": None,
    "error": None,
    "tries": 1,
    "attempt": 1,
    "opened_at": None,
    "settled_at": None,
    "settled_by": None,
    "note": None,
    "run": "abc",
    "agent": "review",
    "undoes": None,
    "once": None,
    "operation": None,
    "follows": None,
}
HELD = HeldEffect("eff", "review", "charge", "abc", True, 1_000_000, "no answer", False, '{"type": "string"}')
LETTER = {
    "id": "abc",
    "agent": "review",
    "error": {"type": "Persistent", "message": "broken 7"},
    "reason": "will fail the same way again",
    "finished": 1_000_000,
    "finished_at": "1970-01-01T00:00:01Z",
    "confirmed": {"charge": 2},
}
DEAD_DELIVERY = {
    "id": "abc-d1",
    "channel": "ops",
    "agent": "review",
    "run": "abc",
    "error": {"type": "Persistent", "message": "gone 7"},
    "reason": "will fail the same way again",
    "finished": 1_000_000,
    "finished_at": "1970-01-01T00:00:01Z",
}
EXPECTATION = {
    "app": "shop",
    "name": "nightly backup",
    "kind": "by",
    "what": 'check-in "nightly backup" by 03:00 UTC',
    "agent": None,
    "owner": None,
    "state": "absent",
    "absence": "not-fired",
    "reason": "no check-in by 1970-01-01T03:00:00Z, and there never was one",
    "met_at": None,
    "due_at": None,
}
CURSOR = "page-2"


class FakeDoor:
    """Keeps what it is handed, or raises `error`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.idempotency: tuple[str, str] | None = None
        self.error: Exception | None = None

    async def accept(
        self,
        events: list[Event],
        *,
        idempotency: tuple[str, str] | None = None,
        agent: str | None = None,
        by: By = "outside",
        sent: SentBy | None = None,
    ) -> list[Receipt]:
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
        self.letters: list[dict[str, Any]] = [LETTER]
        self.dead_letters: list[dict[str, Any]] = [DEAD_DELIVERY]

    async def fetch(self, name: str, *_: Any) -> list[Any]:
        """Resources read rows: there are none here. They are tested over a store, in tests/surface."""
        if self.error is not None:
            raise self.error
        return []

    def _ask(self, **asked: Any) -> None:
        self.asked = asked
        if self.error is not None:
            raise self.error
        if asked.get("after") not in (None, CURSOR):
            message = "not a cursor"
            raise ValueError(message)

    async def runs(self, *, state=None, limit=50, after=None, **which) -> dict[str, Any]:
        given = {name: value for name, value in which.items() if value is not None}
        self._ask(state=state, limit=limit, after=after, **given)
        return {"runs": [RUN], "next": CURSOR}

    async def run(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return RUN_DETAIL if identifier == "abc" else None

    async def events(self, *, type=None, state=None, id=None, limit=50, after=None) -> dict[str, Any]:  # noqa: A002
        self._ask(type=type, state=state, limit=limit, after=after)
        return {"events": [EVENT], "next": None}

    async def event(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return EVENT if identifier in ("k", "a/b", "/a//b?c") else None

    async def why(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return {"event": EVENT, "lines": ["accepted"]} if identifier in ("k", "a/b") else None

    async def effects(self, *, state=None, limit=50, after=None, **chosen) -> dict[str, Any]:
        self._ask(state=state, limit=limit, after=after, **chosen)
        return {"effects": [EFFECT], "next": CURSOR}

    async def held_effects(self, *, agent=None, action=None) -> list[HeldEffect]:
        self._ask(agent=agent, action=action)
        return [HELD] if agent in (None, "review") else []

    async def effect(self, identifier: str) -> dict[str, Any] | None:
        self._ask(identifier=identifier)
        return EFFECT if identifier == "eff" else None

    async def dead(self, *, agent=None) -> list[dict[str, Any]]:
        self._ask(agent=agent)
        return self.letters if agent in (None, "review") else []

    async def dead_deliveries(self, *, channel=None, agent=None) -> list[dict[str, Any]]:
        self._ask(channel=channel, agent=agent)
        return self.dead_letters if channel in (None, "ops") and agent in (None, "review") else []

    async def apps(self) -> dict[str, set[str]]:
        return {"shop": {"review", "counter"}, "desk": {"counter"}}

    async def apps_of_agent(self, agent: str) -> list[str]:
        return [app for app, agents in (await self.apps()).items() if agent in agents]

    async def expectations(self) -> list[dict[str, Any]]:
        return [EXPECTATION, {**EXPECTATION, "app": "desk"}]

    async def checkins_expected(self) -> list[tuple[str, str]]:
        return [("shop", "nightly backup"), ("desk", "other")]

    async def waiting_inputs(self) -> list[dict[str, Any]]:
        return []

    async def events_to_feed(self, agent, prefix, /, *, app, since, until, after, most, whole) -> list[EventToFeed]:
        envelope = '{"source": "/shop", "id": "1", "type": "order.created"}' if whole else None
        stored = EventToFeed(1, "shop", "/shop", "1", "order.created", None, None, envelope)
        return [stored] if stored.type.startswith(prefix) and since < 1_000_000 < until else []

    async def time(self) -> int:
        self._ask()
        return 3_600_000_000

    async def alarms(self, *, state=None) -> dict[str, Any]:
        self._ask(state=state)
        return {"alarms": []}

    async def alarm(self, key: str) -> dict[str, Any] | None:
        self._ask(key=key)
        return None

    async def health(self) -> dict[str, Any]:
        self._ask()
        return {"store": {"ok": True}, "schema": {"ok": True}}


# By which of its methods a fake store carries out a request.
DOES = {
    RedoRun: "redo",
    SettleEffect: "settle_effect",
    FeedEvents: "feed",
    RedoDelivery: "redo_delivery",
    ReleaseRun: "release",
    CancelRun: "cancel",
    ForkRun: "fork",
}


class FakeStore:
    """Keeps what it is asked to change."""

    def __init__(self) -> None:
        self.redone: list[RedoRun] = []
        self.fed: list[FeedEvents] = []
        self.settled: list[SettleEffect] = []
        self.operations: list[RecordOperation] = []
        self.counts: dict[str, int] = {}
        self.redelivered: list[RedoDelivery] = []
        self.released: list[ReleaseRun] = []
        self.cancelled: list[CancelRun] = []
        self.forked: list[ForkRun] = []

    async def redo(self, request: RedoRun) -> Redone | None:
        self.redone.append(request)
        refused = None if request.again or request.discard else "is done: --again does it once more"
        return Redone(request.id, "done", refused)

    async def redo_all(self, requests) -> list[Redone | None]:
        self.redone += requests
        return [Redone(request.id, "dead") for request in requests]

    async def settle_effect(self, request: SettleEffect) -> Settled | None:
        self.settled.append(request)
        first = len(self.settled) == 1
        by = self.settled[0].by.name
        effect = Effect("eff", "charge", "shop:charge", "at_most_once", self.settled[0].state, "[]", settled_by=by)
        return Settled(effect, "abc", first=first)

    async def feed(self, request: FeedEvents) -> int:
        self.fed.append(request)
        return len(request.runs)

    async def redo_delivery(self, request: RedoDelivery) -> str | None:
        """A second time it is delivered."""
        known = [one.id for one in self.redelivered]
        self.redelivered.append(request)
        return "delivered" if request.id in known else "dead"

    async def release(self, request: ReleaseRun) -> Redone | None:
        """A second time it is done."""
        self.released.append(request)
        again = len(self.released) > 1
        return Redone(request.id, "held", "is done: only a held output can be released" if again else None)

    async def cancel(self, request: CancelRun) -> Cancelled | None:
        self.cancelled.append(request)
        return Cancelled(request.id, "running", "running")

    async def fork(self, request: ForkRun) -> Redone | None:
        self.forked.append(request)
        return Redone(f"{request.id}.1", "done")

    async def do(self, request: Any, /) -> Any:
        """Carry it out, and write down who asked for it, as the journal does."""
        if type(request) is RedoRun and request.bulk is not None:
            (result,) = await self.redo_all([request])
        else:
            result = await getattr(self, DOES[type(request)])(request)
        if not isinstance(request, ByPerson):
            return result
        if (bulk := request.bulk) is not None:
            if bulk.id in self.counts:
                self.operations.pop()
            self.counts[bulk.id] = self.counts.get(bulk.id, 0) + request.counted(result)
            words = bulk.words(self.counts[bulk.id], request.note)
            self.operations.append(RecordOperation(request.by.name, bulk.verb, bulk.app, bulk.subject, words))
        elif (said := request.audit(result)) is not None:
            self.operations.append(RecordOperation(request.by.name, said.verb, said.app, said.subject, said.note))
        return result


class Count(BaseModel):
    """What an agent keeps."""

    count: int = 0
    name: str = ""


def a_shop() -> App:
    """An app with an agent that wants a number, and one that keeps one."""
    app = App("shop")

    @app.agent(on("order.created"))
    async def review(run, amount: int) -> None: ...

    @app.agent(on("order.counted"), state=Count)
    async def counter(run) -> None: ...

    return app


class Api:
    """The API over the fakes, with a client."""

    def __init__(self, settings: ApiSettings | None = None, **options: Any) -> None:
        self.door = FakeDoor()
        self.reader = FakeReader()
        self.store = FakeStore()
        self.silent: dict[str, float] = {}
        options.setdefault("silent", lambda: self.silent)
        self.app = create_api(self.door, self.reader, self.store, Declared(a_shop()), settings=settings, **options)
        self.client = TestClient(
            self.app, base_url="http://localhost:8400", raise_server_exceptions=False, client=("127.0.0.1", 50_000)
        )


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
