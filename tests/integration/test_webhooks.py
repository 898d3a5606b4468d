"""Webhooks over HTTP, on both stores: verified, stored once, answered after the commit; what is not is kept and counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from support.apps import NewApp, working
from support.hooks import TOLERANCE, Anybody, Signed, Timed, delivery, signature
from support.intercepting import instead
from support.stores import count, query
from support.tokens import TOKEN
from wakeful import App, ConfigError, Run, env, on, webhook
from wakeful.clock import VirtualClock
from wakeful.errors import InvalidEvent, NotFound, StoreUnavailable
from wakeful.intake.quarantine import raw_of
from wakeful.runtime import Runtime
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.sources import ReportSource, StoredSource, find_source
from wakeful.triggers.webhooks import KEPT_UNVERIFIED, LARGEST_UNVERIFIED
from wakeful.verify import Answer, Delivered, Refused, WebhookRequest, github, none

PATH = "/hooks/x"


def note(app: App, *triggers: Any, seen: list[Any] | None = None, name: str = "note") -> list[Any]:
    """An agent that notes what it gets."""
    noted = [] if seen is None else seen

    @app.agent(*(triggers or [webhook(PATH, verify=Signed())]), name=name)
    async def note(run: Run) -> None:
        noted.append(run.event.data)

    return noted


@asynccontextmanager
async def served(app: App, *, token: str | None = TOKEN) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=token, open_to="loopback"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield runtime, http


async def send(http: httpx2.AsyncClient, data: Any, path: str = PATH, **how: Any) -> httpx2.Response:
    more = how.pop("headers", {})
    body, headers = delivery(data, **how)
    return await http.post(path, content=body, headers=headers | more)


def receipt(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    (one,) = answer.json()["events"]
    return dict(one)


async def source(runtime: Runtime, name: str = PATH) -> StoredSource:
    """As it is stored, once the counts were told."""
    await runtime.webhooks.run_once()
    return await stored_source(runtime, name)


async def stored_source(runtime: Runtime, name: str = PATH) -> StoredSource:
    found = await find_source(runtime.store.database, runtime.app.name, name)
    assert found is not None
    return found


async def kept(url: str) -> list[dict[str, Any]]:
    rows = await query(
        url,
        "select event.id, event.reason, event.envelope, quarantine.kind, quarantine.headers from wakeful_quarantine quarantine "
        "join wakeful_event event on event.seq = quarantine.event_seq order by event.seq",
    )
    return [
        {"id": row[0], "reason": row[1], "raw": raw_of(row[2]), "kind": row[3], "headers": json.loads(row[4])}
        for row in rows
    ]


class TestTaking:
    async def test_a_delivery_becomes_a_run_and_the_answer_names_it(self, app: App):
        seen = note(app)
        async with served(app) as (runtime, http):
            got = receipt(await send(http, {"n": 1}))
            assert (got["source"], got["id"], got["status"], len(got["runs"])) == (PATH, "1", "accepted", 1)
            await runtime.drain()
            assert seen == [{"n": 1}]
            found = await runtime.reader.event("1")
            assert found is not None
            assert found["type"] == "signed.opened"

    async def test_the_same_again_is_a_duplicate_with_the_same_run(self, app: App):
        seen = note(app)
        async with served(app) as (runtime, http):
            first, again = receipt(await send(http, {"n": 1})), receipt(await send(http, {"n": 1}))
            assert (again["status"], again["runs"]) == ("duplicate", first["runs"])
            await runtime.drain()
            third = receipt(await send(http, {"n": 1}))
            assert (third["status"], third["runs"]) == ("duplicate", first["runs"])
            assert seen == [{"n": 1}]

    async def test_a_replay_under_another_id_is_known_by_its_signature(self, app: App):
        seen = note(app)
        async with served(app) as (runtime, http):
            first = receipt(await send(http, {"n": 1}, id="1"))
            replay = receipt(await send(http, {"n": 1}, id="made-up", kind="closed"))
            assert (replay["status"], replay["runs"]) == ("duplicate", first["runs"])
            assert receipt(await send(http, {"n": 2}, id="2"))["status"] == "accepted"
            await runtime.drain()
            assert seen == [{"n": 1}, {"n": 2}]

    async def test_the_same_identity_with_other_content_is_a_conflict(self, app: App):
        note(app)
        async with served(app) as (_, http):
            receipt(await send(http, {"n": 1}))
            again = receipt(await send(http, {"n": 2}))
            assert (again["status"], again["conflict"]) == ("duplicate", True)

    async def test_many_at_once_of_one_delivery_are_one_event(self, app: App, store_url: str):
        note(app)
        async with served(app) as (_, http):
            answers = await asyncio.gather(*(send(http, {"n": 1}, id=f"{n % 3}") for n in range(30)))
            assert sorted(receipt(one)["status"] for one in answers) == ["accepted"] + ["duplicate"] * 29
        assert len(await query(store_url, "select 1 from wakeful_event")) == 1

    async def test_content_is_an_identity_for_senders_without_one(self, app: App):
        note(app, webhook(PATH, verify=Anybody(), id="content", type="thing.came"))
        async with served(app) as (_, http):
            first, again = await http.post(PATH, json={"n": 1}), await http.post(PATH, json={"n": 1})
            assert [receipt(one)["status"] for one in (first, again)] == ["accepted", "duplicate"]
            assert receipt(await http.post(PATH, json={"n": 2}))["status"] == "accepted"

    async def test_several_agents_share_a_path_and_each_takes_its_own(self, app: App):
        hook = lambda **options: webhook(PATH, verify=Signed(), **options)  # noqa: E731
        opened = note(app, hook(type="signed.opened", where="data.n > 1"), name="opened")
        closed = note(app, hook(type="signed.closed"), name="closed")
        everything = note(app, hook(), name="everything")
        elsewhere = note(app, webhook("/hooks/y", verify=Signed()), on("signed.reopened"), name="elsewhere")
        async with served(app) as (runtime, http):
            for n, kind in enumerate(("opened", "closed", "opened", "reopened")):
                receipt(await send(http, {"n": n}, kind=kind, id=f"{n}"))
            await runtime.drain()
            assert (opened, closed) == ([{"n": 2}], [{"n": 1}])
            assert sorted(one["n"] for one in everything) == [0, 1, 2, 3]
            assert elsewhere == [{"n": 3}]

    async def test_what_is_stored_is_the_normal_form(self, app: App):
        seen = note(app, webhook(PATH, verify=Signed(), data='{"total": data.order.total}', id="data.order.number"))
        async with served(app) as (runtime, http):
            got = receipt(await send(http, {"order": {"number": 12, "total": 5, "noise": "x"}}))
            assert got["id"] == "12"
            await runtime.drain()
            assert seen == [{"total": 5}]

    async def test_a_question_is_answered_and_is_no_event(self, app: App, store_url: str):
        note(app)
        async with served(app) as (_, http):
            answer = await send(http, b"ask:who are you")
            assert (answer.status_code, answer.text) == (200, "who are you")
            refused = await http.post(PATH, content=b"ask:who are you", headers={"x-signature": "wrong"})
            assert refused.status_code == 401
        assert await query(store_url, "select 1 from wakeful_event where state <> 'quarantined'") == []

    async def test_a_sender_that_must_hear_something_hears_it_after_the_commit(self, app: App, store_url: str):
        class Demanding(Signed):
            def read(self, request: WebhookRequest) -> Delivered:
                told = super().read(request)
                told.answer = Answer(b"ok")
                return told

        note(app, webhook(PATH, verify=Demanding()))
        async with served(app) as (_, http):
            answer = await send(http, {})
            assert (answer.status_code, answer.text) == (200, "ok")
            assert len(await query(store_url, "select 1 from wakeful_event where state = 'accepted'")) == 1


class TestRefusing:
    async def test_a_wrong_signature_is_401_counted_and_kept(self, app: App, store_url: str):
        note(app)
        async with served(app) as (runtime, http):
            answer = await send(
                http, {"n": 1}, secret="wrong", headers={"authorization": "Bearer hush", "cookie": "a=b"}
            )
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"
            assert "X-Signature" not in answer.text
            (one,) = await kept(store_url)
            assert (one["kind"], one["raw"]) == ("unverified", b'{"n": 1}')
            assert one["reason"] == "X-Signature is not that of the body"
            assert set(one["headers"]) == {"content-type", "x-signature", "x-event", "x-delivery"}
            stored = await source(runtime)
            assert (stored.refused, stored.taken, stored.quarantined) == (1, 0, 1)
            assert await query(store_url, "select 1 from wakeful_run") == []

    async def test_no_signature_or_two_of_them_are_401(self, app: App):
        note(app)
        async with served(app) as (_, http):
            body, headers = delivery({"n": 1})
            assert (await http.post(PATH, content=body)).status_code == 401
            twice = [*headers.items(), ("x-signature", headers["x-signature"])]
            assert (await http.post(PATH, content=body, headers=twice)).status_code == 401
            assert (await http.post(PATH, content=body, headers=headers)).status_code == 202

    async def test_a_stale_request_is_401(self, app: App, clock: VirtualClock):
        note(app, webhook(PATH, verify=Timed()))

        def timed(at: int) -> dict[str, str]:
            return {"x-at": str(at), "x-signature": signature("secret", b"{}", at)}

        async with served(app) as (_, http):
            now = clock.now()
            fresh = await http.post(PATH, content=b"{}", headers=timed(now - TOLERANCE + 1))
            assert fresh.status_code == 202
            for at in (now - TOLERANCE - 1, now + TOLERANCE + 1):
                stale = await http.post(PATH, content=b"{}", headers=timed(at))
                assert stale.status_code == 401
                assert "old" not in stale.text

    async def test_what_strangers_send_is_kept_up_to_a_limit_and_counted_beyond(
        self, app: App, store_url: str, clock: VirtualClock
    ):
        note(app)
        async with served(app) as (runtime, http):
            for n in range(KEPT_UNVERIFIED.most + 20):
                assert (await send(http, {"n": n}, secret="wrong")).status_code == 401
            assert await count(store_url, "wakeful_quarantine") == KEPT_UNVERIFIED.most
            assert (await source(runtime)).refused == KEPT_UNVERIFIED.most + 20
            clock.move("1h")
            largest = b"x" * (LARGEST_UNVERIFIED - 200)  # headers count, those that are kept
            assert (await send(http, largest, secret="wrong", id="i" * 200)).status_code == 401
            assert (await send(http, largest, secret="wrong", headers={"x-other": "i" * 200})).status_code == 401
            assert await count(store_url, "wakeful_quarantine") == KEPT_UNVERIFIED.most + 1
            assert receipt(await send(http, {"n": 1}))["status"] == "accepted"

    async def test_of_a_verifier_that_declares_no_headers_none_is_kept_of_strangers(self, app: App, store_url: str):
        class Undeclared(Signed):
            def reads(self) -> None:  # type: ignore[override]  # as the base class has it
                return None

        note(app, webhook(PATH, verify=Undeclared()))
        async with served(app) as (_, http):
            hidden = {"x-corp": "hush", "authorization": "Bearer hush"}
            await send(http, {"n": 1}, secret="wrong", headers=hidden)
            await send(http, b"{no json", headers=hidden)
            first, second = await kept(store_url)
            assert set(first["headers"]) == {"content-type"}
            assert second["headers"]["x-delivery"] == "1"  # verified: all but what is known to be a credential
            assert second["headers"]["authorization"] == "(not kept)"

    async def test_the_header_that_the_id_is_read_from_is_kept(self, app: App, store_url: str):
        note(app, webhook(PATH, verify=Signed(), id="header:X-Request-Id"))
        async with served(app) as (_, http):
            await send(http, {"n": 1}, secret="wrong", headers={"X-Request-Id": "7", "X-Other": "8"})
            (one,) = await kept(store_url)
            assert one["headers"]["x-request-id"] == "7"
            assert "x-other" not in one["headers"]

    async def test_a_verified_one_that_cannot_be_read_is_kept_and_not_sent_again(self, app: App, store_url: str):
        note(app, webhook(PATH, verify=Signed(), id="data.number"))
        async with served(app) as (runtime, http):
            got = receipt(await send(http, b"{no json"))
            assert (got["status"], got["runs"]) == ("quarantined", [])
            assert receipt(await send(http, b"{no json"))["id"] == got["id"]
            assert receipt(await send(http, {"n": 1}))["status"] == "quarantined"
            first, second = await kept(store_url)
            assert (first["id"], first["kind"], first["raw"]) == (got["id"], "unreadable", b"{no json")
            assert second["reason"] == 'id="data.number" failed: no field data.number'
            found = await runtime.reader.event(got["id"])
            assert found is not None
            assert found["state"] == "quarantined"
            assert (await source(runtime)).quarantined == 2

    async def test_whatever_a_verifier_or_a_function_does_is_no_500(self, app: App, store_url: str):
        class Broken(Anybody):
            def verify(self, request: WebhookRequest) -> None:
                if request.body == b"verify":
                    raise RuntimeError("a bug\0")

            def challenge(self, request: WebhookRequest) -> None:
                if request.body == b"challenge":
                    raise RuntimeError("a bug")

        def mapped(data: Any) -> Any:
            return data["nothing"]

        note(app, webhook(PATH, verify=Broken()), name="a")
        note(app, webhook("/hooks/y", verify=Anybody(), data=mapped), name="b")
        async with served(app) as (_, http):
            assert (await http.post(PATH, content=b"verify")).status_code == 401
            assert receipt(await http.post(PATH, content=b"challenge"))["status"] == "quarantined"
            assert receipt(await http.post(PATH, content=b"burn"))["status"] == "quarantined"
            assert receipt(await http.post("/hooks/y", content=b"{}"))["status"] == "quarantined"
            reasons = [one["reason"] for one in await kept(store_url)]
        assert ["RuntimeError" in reasons[0], "RuntimeError" in reasons[1], "KeyError" in reasons[2]] == [True] * 3
        assert reasons[3].startswith("data= failed for event")

    async def test_other_paths_methods_and_encodings(self, app: App):
        note(app)
        async with served(app, token=None) as (runtime, http):
            body, headers = delivery({})
            guarded = httpx2.ASGITransport(app.asgi(token=TOKEN))
            async with httpx2.AsyncClient(transport=guarded, base_url="http://localhost") as stranger:
                for path in ("/hooks", f"{PATH}/", f"{PATH}/y", "/hooks/X"):
                    assert (await http.post(path, content=body, headers=headers)).status_code == 404, path
                    assert (await stranger.post(path, content=body, headers=headers)).status_code == 404, path
            for method in ("GET", "PUT", "DELETE", "OPTIONS"):
                answer = await http.request(method, PATH)
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            packed = await http.post(PATH, content=body, headers=headers | {"content-encoding": "gzip"})
            assert packed.status_code == 415
            assert (await source(runtime)).refused == 1

    async def test_a_body_that_never_ends_is_not_waited_for(self, app: App, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("wakeful.api.webhooks.BODY_WITHIN", 0)
        note(app)

        async def drip() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        async with served(app) as (runtime, http):
            answer = await http.post(PATH, content=drip())
            assert (answer.status_code, answer.headers["connection"]) == (408, "close")
            assert (await source(runtime)).refused == 1

    async def test_a_body_over_the_limit_is_413(self, app: App):
        note(app, webhook(PATH, verify=Signed(), body_limit="1kB"))
        async with served(app) as (runtime, http):
            assert receipt(await send(http, {"x": "y" * 900}))["status"] == "accepted"
            assert (await send(http, {"x": "y" * 1000}, id="2")).status_code == 413

            async def stream() -> AsyncIterator[bytes]:
                for _ in range(11):
                    yield b"x" * 100

            assert (await http.post(PATH, content=stream())).status_code == 413
            assert (await source(runtime)).refused == 2

    async def test_a_flood_is_429_with_the_time_to_wait(self, app: App, clock: VirtualClock):
        note(app, webhook(PATH, verify=Signed(), rate="3/10s"), name="a")
        note(app, webhook("/hooks/y", verify=Signed()), name="b")
        async with served(app) as (runtime, http):
            # Strangers use nothing of it up.
            assert [(await send(http, {}, secret="wrong")).status_code for _ in range(5)] == [401] * 5
            answers = [await send(http, {"n": n}, id=f"{n}") for n in range(5)]
            assert [one.status_code for one in answers] == [202, 202, 202, 429, 429]
            assert answers[3].headers["retry-after"] == "4"
            assert (await send(http, {"n": 0}, path="/hooks/y", id="9")).status_code == 202
            clock.move("4s")
            assert (await send(http, {"n": 3}, id="3")).status_code == 202
            assert (await source(runtime)).refused == 7

    async def test_a_store_that_is_away_is_503_and_sending_again_is_safe(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ):
        note(app)
        async with served(app) as (runtime, http):
            good = runtime.store.do

            async def stored_without_a_word(request: Any) -> Any:
                await good(request)
                raise StoreUnavailable("the connection was lost")

            monkeypatch.setattr(runtime.store, "do", instead(runtime.store, AcceptEvents, stored_without_a_word))
            answer = await send(http, {})
            assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
            monkeypatch.setattr(runtime.store, "do", good)
            assert receipt(await send(http, {}))["status"] == "duplicate"

    async def test_a_secret_that_is_gone_is_503_not_401(self, app: App, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HOOK", "secret")
        note(app, webhook(PATH, verify=Signed(env("HOOK"))))
        async with served(app) as (_, http):
            assert (await send(http, {})).status_code == 202
            monkeypatch.delenv("HOOK")
            answer = await send(http, {})
            assert (answer.status_code, "HOOK" in answer.text) == (503, False)


class TestServing:
    async def test_a_webhook_needs_no_token_and_the_rest_does(self, app: App):
        note(app)
        async with served(app) as (_, http):
            assert (await send(http, {})).status_code == 202
            assert (await http.get("/v1/events")).status_code == 401
            shown = (await http.get("/v1/openapi.json", headers={"authorization": f"Bearer {TOKEN}"})).json()
            assert shown["paths"][PATH]["post"]["summary"] == "A webhook, verified as signed"
            elsewhere = await send(http, {}, headers={"host": "tunnel.example"})
            assert elsewhere.status_code == 421

    async def test_a_source_reads_while_it_is_served_and_is_idle_after(self, app: App):
        note(app)
        async with served(app) as (runtime, http):
            stored = await stored_source(runtime)
            assert (stored.kind, stored.state) == ("webhook", "idle")  # known before anybody called
            for n in range(3):
                await send(http, {"n": n}, id=f"{n}")
                await send(http, {"n": n}, id=f"{n}")
            stored = await source(runtime)
            assert (stored.state, stored.taken, stored.repeated) == ("reading", 6, 3)
            assert stored.event_at is not None
            await send(http, {"n": 1}, id="1")
            await runtime.webhooks.stop()
            stored = await stored_source(runtime)
            assert (stored.state, stored.taken, stored.repeated) == ("idle", 7, 4)

    async def test_whom_it_wakes_is_shown_whatever_its_source_is_called(self, app: App):
        note(app, webhook(PATH, verify=Signed(), source="/desk"))
        async with served(app) as (runtime, http):
            assert receipt(await send(http, {}))["source"] == "/desk"
            shown = await runtime.reader.source(PATH)
            assert shown is not None
            assert shown["agents"] == ["note"]

    async def test_counts_that_could_not_be_told_are_told_later(self, app: App, monkeypatch: pytest.MonkeyPatch):
        note(app)
        async with served(app) as (runtime, http):
            await source(runtime)
            good = runtime.store.do

            async def away(_: Any) -> None:
                raise StoreUnavailable("away")

            monkeypatch.setattr(runtime.store, "do", instead(runtime.store, ReportSource, away))
            await send(http, {})
            with pytest.raises(StoreUnavailable):
                await runtime.webhooks.run_once()
            monkeypatch.setattr(runtime.store, "do", good)
            assert (await source(runtime)).taken == 1

    async def test_mounted_in_another_program(self, app: App):
        note(app)
        outside = Starlette(routes=[Mount("/inner", app.asgi(token=TOKEN))])
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(outside), base_url="http://localhost") as http:
            answer = await send(http, {}, path=f"/inner{PATH}")
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)  # it does not run yet
            async with working(app):
                assert (await send(http, {}, path=f"/inner{PATH}")).status_code == 202
                assert (await send(http, {}, path=PATH)).status_code == 404

    async def test_two_agents_that_do_not_agree_stop_the_start(self, app: App):
        note(app, name="a")
        note(app, webhook(PATH, verify=Signed("another")), name="b")
        with pytest.raises(ConfigError, match=r"agents a \(.*\) and b \(.*\) differ in verify="):
            async with working(app):
                pass


class TestReadingAgain:
    async def test_after_a_fix(self, new_app: NewApp, clock: VirtualClock):
        app = new_app()
        note(app, webhook(PATH, verify=Timed(), id="data.id"))
        async with working(app) as runtime:
            again = runtime.webhooks.read_again
            at = clock.now()
            headers = {"x-at": str(at), "x-signature": signature("secret", b'{"id": 1}', at), "x-event": "opened"}
            clock.move("1d")  # judged as of when it came
            ((event, aliases),) = again(PATH, b'{"id": 1}', headers, at, trust=False)
            assert (event.source, event.id, event.type, aliases) == (
                PATH,
                "1",
                "signed.opened",
                (headers["x-signature"],),
            )
            with pytest.raises(Refused):
                again(PATH, b'{"id": 2}', headers, at, trust=False)
            assert again(PATH, b'{"id": 2}', headers, at, trust=True)[0][0].id == "2"
            with pytest.raises(InvalidEvent):
                again(PATH, b"{}", headers, at, trust=True)
            with pytest.raises(NotFound, match="Did you mean"):
                again("/hooks/xx", b"{}", headers, at, trust=True)


NAMES = ["x-signature", "x-event", "x-delivery", "content-type", "content-length", "content-encoding", "x-github-event"]
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), st.text(st.characters(min_codepoint=32, max_codepoint=255))))
BODIES = st.lists(
    st.tuples(st.one_of(st.binary(max_size=200), st.just(b"burn"), st.just(b"ask:")), HEADERS, st.booleans()),
    max_size=20,
)


async def answered(http: Any, path: str, body: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """The status of what is sent as it is, with nothing in between that would mend it."""
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"\xff", "headers": headers}
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    await http(scope, receive, send)
    return int(said[0]["status"])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests=BODIES)
def test_nothing_that_is_sent_is_a_500(sqlite_url: str, requests: list[tuple[bytes, list[tuple[str, str]], bool]]):
    async def sent() -> None:
        app = App("app", store=sqlite_url)
        note(app, webhook(PATH, verify=Signed()), name="a")
        note(app, webhook("/hooks/y", verify=Anybody(), data=lambda data: data["a"], id="data.b"), name="b")
        note(app, webhook("/hooks/none", verify=none()), name="none")
        note(app, webhook("/hooks/github", verify=github(secret="secret")), name="github")
        async with app.running(worker=False):
            http = app.asgi(open_to="loopback")
            for body, headers, signed in requests:
                given = [(name.encode(), value.encode("latin-1")) for name, value in headers]
                if signed:
                    proof = signature("secret", body).encode()
                    given += [(b"x-signature", proof), (b"x-hub-signature-256", b"sha256=" + proof)]
                for path in (PATH, "/hooks/y", "/hooks/none", "/hooks/github"):
                    status = await answered(http, path, body, [(b"host", b"localhost"), *given])
                    assert status in {200, 202, 400, 401, 413, 415}

    asyncio.run(sent())
