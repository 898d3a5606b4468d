"""A door and a reader without a store, for tests of the HTTP side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.testclient import TestClient

from wakeful.api.app import create_api
from wakeful.app import App
from wakeful.http.security import ApiSettings
from wakeful.intake.reserved import By
from wakeful.model import Effect, Event, Receipt
from wakeful.operations.declared import Declared
from wakeful.resources.desk import Reads
from wakeful.stores.queries import load_queries
from wakeful.stores.request import ByPerson
from wakeful.stores.stored import HeldEffect
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
    "rule": None,
    "policy": None,
    "approval": None,
    "executed": None,
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
CURSOR = "2"
NEW_YEAR = 1_767_225_600_000_000  # 2026


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


def run_row() -> tuple[Any, ...]:
    """RUN as a row of `find_runs`; `list_runs` has its first columns."""
    summary = (
        1,
        "abc",
        "review",
        "done",
        0,
        0,
        None,
        NEW_YEAR,
        None,
        None,
        None,
        "shop",
        "/shop",
        "1",
        "order.created",
    )
    detail = ("abc", "k", '{"nan": NaN}', None, None, None, 1, None, "{}", 1, None, None, None, None, None, None)
    return (*summary, *detail)


class FakeReader(Reads):
    """Knows one event, one run and one effect as rows, and remembers the parameters of the last query about a noun."""

    def __init__(self) -> None:
        super().__init__(cast("Any", self))
        self.asked: dict[str, Any] = {}
        self.error: Exception | None = None
        self.letters: list[dict[str, Any]] = [LETTER]
        self.dead_letters: list[dict[str, Any]] = [DEAD_DELIVERY]

    def read_clock(self) -> int:
        return 3_600_000_000

    async def fetch(self, name: str, *given: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        asked = dict(zip(load_queries("sqlite")[name].parameters, given, strict=True))
        if name.startswith(("list_", "page_", "find_", "held_")):
            self.asked = asked
        return self._rows(name, asked)

    async def fetch_each(self, name: str, given: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [await self.fetch(name, *one) for one in given]

    def _rows(self, name: str, asked: dict[str, Any]) -> list[Any]:
        of_review = asked.get("agent") in (None, "review")
        agents = {"shop": ["review", "counter"], "desk": ["counter"]}
        event = (1, *list(EVENT.values())[:-1], NEW_YEAR)
        effect = [one if name != "arguments" else "[]" for name, one in EFFECT.items()]
        match name:
            case _ if name.startswith("list_runs"):
                return [run_row()[:15]]
            case "find_runs":
                return [run_row()] if asked["id"] == "abc" else []
            case "flow_of_run":
                return [(None, None, None, None, None, 0, None, None, None)]
            case "list_events":
                return [event]
            case "find_events":
                return [(*event, "{}")] if asked["identifier"] in ("k", "a/b", "/a//b?c") else []
            case "page_of_effects":
                return [(1, *effect)]
            case "find_effects":
                return [(*effect, None)] if asked["id"] == "eff" else []
            case "held_effects":
                return [astuple(HELD)] if of_review else []
            case "list_dead":
                return [(one["id"], one["agent"], *died(one)) for one in self.letters] if of_review else []
            case "confirmed_of_dead":
                return [(one, "charge") for one in {letter["id"] for letter in self.letters} for _ in range(2)]
            case "list_dead_deliveries":
                letters = self.dead_letters if of_review and asked["channel"] in (None, "ops") else []
                return [(one["id"], one["channel"], one["agent"], one["run"], *died(one)) for one in letters]
            case "known_apps":
                return [(app,) for app in agents]
            case "loaded_agents":
                return [(app, to_json(names).decode()) for app, names in agents.items()]
            case "apps_of_agent":
                return [(app,) for app, names in agents.items() if asked["agent"] in names]
            case "app_by_run":
                return [("shop",)]
            case "list_expectations":
                return [("shop", '{"subject": "nightly backup"}'), ("desk", '{"subject": "other"}')]
            case "list_events_to_feed":
                envelope = '{"source": "/shop", "id": "1", "type": "order.created"}' if asked["whole"] else None
                stored = (1, "shop", "/shop", "1", "order.created", None, None, envelope)
                fits = "order.created".startswith(asked["prefix"]) and asked["since"] < 1_000_000 < asked["until"]
                return [stored] if fits else []
            case "last_run":
                return [(1,)]
            case "run_from":
                return [(1, NEW_YEAR)]
            case "read_time":
                return [(3_600_000_000,)]
            case _:
                return []

    async def health(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return {"store": {"ok": True}, "schema": {"ok": True}}


def died(letter: dict[str, Any]) -> tuple[Any, ...]:
    return letter["error"]["type"], letter["error"]["message"], letter["reason"], letter["finished"]


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
