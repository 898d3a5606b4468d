"""Requests through the whole door: the app's HTTP side, and a real SQLite file behind it. A request that is refused leaves no
row; one that is taken is read back as it was sent, with all that belongs to it.

A file holds headers, an empty line and a body, as for the other targets. Its header `path` says where it goes: a webhook, or
/v1/events where there is none.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from starlette.applications import Starlette

from fuzz.test_cloudevents import TOKENS, as_json_says
from support.fuzzing import bounded, fuzzed, headers_and_body, message, replayed, seeds
from support.senders import GITHUB, NOW, SLACK, STANDARD, STRIPE
from wakeful import App, Run, on, webhook
from wakeful.clock import SECOND, VirtualClock
from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import from_envelope, parse_request

TARGET = "intake"
TOKEN = secrets.token_urlsafe(32)
HOOKS = {f"/hooks/{sender.name}": sender for sender in (GITHUB, STRIPE, SLACK, STANDARD)}
EVENTS = "/v1/events"
A_MINUTE = "1m"  # goes by from one input to the next: more than 100 an hour are not kept in quarantine
REFUSED = {400, 401, 403, 405, 408, 413, 415, 422, 429, 431}
LEGAL_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
# Those that the door itself needs: another one is another test.
OURS = {"host", "authorization", "content-length", "path", "signed", "transfer-encoding"}

SEEDS = [*seeds("cloudevents")]
SEEDS += [message({"path": path, "signed": "yes", **sender.headers}, sender.raw) for path, sender in HOOKS.items()]
SEEDS += [message({"path": path, **sender.request().headers}, sender.raw) for path, sender in HOOKS.items()]
MORE = [
    *TOKENS,
    b"\nidempotency-key: 1\n",
    b"\ncontent-encoding: gzip\n",
    b"\nsigned: yes\n",
    b"\npath: /hooks/github\n",
]


@dataclass
class Intake:
    """An app that is served, and a look of one's own into its file."""

    http: Starlette
    rows: apsw.Connection
    runner: asyncio.Runner
    clock: VirtualClock

    @property
    def second(self) -> int:
        return self.clock.now() // SECOND

    def post(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        sent: list[dict[str, Any]] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(part: Any) -> None:
            sent.append(part)

        ours = {"host": "localhost", "authorization": f"Bearer {TOKEN}", "content-length": str(len(body))}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers | ours).items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        self.runner.run(self.http(scope, receive, send))
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])

    def newest(self) -> int:
        return int(self.rows.execute("select coalesce(max(seq), 0) from wakeful_event").get)

    def quarantined(self) -> int:
        return int(self.rows.execute("select count(*) from wakeful_quarantine").get)

    def event(self, source: str, identifier: str) -> tuple[str, str]:
        found = self.rows.execute(
            "select state, envelope from wakeful_event where source = ? and id = ?", (source, identifier)
        )
        state, envelope = found.get
        return str(state), str(envelope)

    def halves(self) -> list[Any]:
        """Rows without those that they need."""
        return list(
            self.rows.execute(
                """
                select 'event without an admission', id from wakeful_event event where state in ('accepted', 'expired')
                  and not exists (select 1 from wakeful_admission where event_seq = event.seq) and reason is null
                union all select 'admission without an event', agent from wakeful_admission
                  where event_seq not in (select seq from wakeful_event)
                union all select 'admission without its run', agent from wakeful_admission
                  where state = 'started' and run_id not in (select id from wakeful_run)
                union all select 'run without an event', id from wakeful_run where event_seq not in (select seq from wakeful_event)
                union all select 'quarantine without an event', source from wakeful_quarantine
                  where event_seq not in (select seq from wakeful_event)
                union all select 'quarantined without its bytes', id from wakeful_event event where state = 'quarantined'
                  and not exists (select 1 from wakeful_quarantine where event_seq = event.seq)
                """
            )
        )


@pytest.fixture(scope="module")
def intake(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Intake]:
    file = tmp_path_factory.mktemp("intake") / "wakeful.db"
    shutil.copyfile(sqlite_template, file)
    clock = VirtualClock(NOW * SECOND)
    app = App("fuzz", store=f"sqlite:///{file}", clock=clock)

    @app.agent(on("order.created", where="data.total > 1"), on("t"), key="data.customer")
    async def orders(run: Run) -> None: ...

    @app.agent(*(webhook(path, verify=sender.verifier()) for path, sender in HOOKS.items()))
    async def hooks(run: Run) -> None: ...

    async def start(stack: AsyncExitStack) -> None:
        await stack.enter_async_context(app.running(worker=False))

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        runner.run(start(stack))
        rows = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        intake = Intake(app.asgi(token=TOKEN), rows, runner, clock)
        yield intake
        # Here, so that each process looks at the file that its own inputs went into, however the tests were shared out.
        halves, integrity = intake.halves(), rows.execute("pragma integrity_check").get
        rows.close()
        runner.run(stack.aclose())
        assert halves == []
        assert integrity == "ok"


def examine(intake: Intake, content: bytes) -> None:
    intake.clock.move(A_MINUTE)
    headers, body = headers_and_body(content)
    path, signed = headers.get("path", EVENTS), "signed" in headers
    path = path if path in HOOKS else EVENTS
    headers = {name: value for name, value in headers.items() if name not in OURS and LEGAL_NAME.fullmatch(name)}
    headers = {name: re.sub(r"[\0\r\n]", "", value) for name, value in headers.items()}
    if path in HOOKS and signed:
        headers = dict(replace(HOOKS[path], headers=headers, body=body).request(now=intake.second).headers)
    with bounded(content, TARGET):
        before = intake.newest()
        status, answer = intake.post(path, headers, body)
        if path == EVENTS:
            check_events(intake, status, answer, headers, body, before)
        else:
            check_webhook(intake, status, answer, before)


def check_events(intake: Intake, status: int, answer: bytes, headers: dict[str, str], body: bytes, before: int) -> None:
    try:
        events = parse_request(headers, body)
    except InvalidEvent:
        events = []
    if status != 202:
        assert status in REFUSED, (status, answer)
        assert json.loads(answer)["detail"]
        assert intake.newest() == before
        return
    said = as_json_says(headers, body, len(events))
    taken = json.loads(answer)["events"]
    assert [(one["source"], one["id"]) for one in taken] == [(one.source, one.id) for one in events]
    for receipt, event, data in zip(taken, events, said, strict=True):
        state, envelope = intake.event(receipt["source"], receipt["id"])
        if receipt["status"] != "duplicate":
            stored = from_envelope(envelope)
            event.traceparent = event.traceparent or stored.traceparent  # every event gets one
            assert stored == event
            assert state == receipt["status"]
            assert data is ... or stored.data == data


def check_webhook(intake: Intake, status: int, answer: bytes, before: int) -> None:
    if status == 200:  # a sender gets the answer that it waits for, with or without an event
        return
    if status != 202:
        assert status in REFUSED, (status, answer)
        # What cannot be verified may be kept in quarantine, and never as an event that anybody gets.
        states = intake.rows.execute("select state from wakeful_event where seq > ?", (before,))
        assert {state for (state,) in states} <= {"quarantined"}
        return
    for receipt in json.loads(answer)["events"]:
        if receipt["status"] == "duplicate":  # perhaps of one that is stored under another of its names
            assert intake.newest() == before
            continue
        state, envelope = intake.event(receipt["source"], receipt["id"])
        assert receipt["status"] == state
        assert state == "quarantined" or from_envelope(envelope).id == receipt["id"]


@replayed(TARGET)
def test_the_corpus(intake: Intake, content: bytes):
    examine(intake, content)
    assert intake.halves() == []


@fuzzed(TARGET, *SEEDS, tokens=MORE)
def test_mutations(intake: Intake, content: bytes):
    examine(intake, content)


def test_seeds_are_stored_and_all_that_cannot_be_verified_is_kept(intake: Intake):
    for content in SEEDS:
        examine(intake, content)
    assert intake.newest() > 0
    kept = intake.quarantined()
    for number in range(150):
        examine(intake, message({"path": "/hooks/stripe"}, b'{"number": %d}' % number))
    assert intake.quarantined() == kept + 150
    assert intake.halves() == []
