"""What cannot be taken in is kept; after a fix it becomes the event that it should have been, once."""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64decode, b64encode
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, working
from support.hooks import Signed, delivery
from support.stores import query
from support.tape import AT_ONCE, Outside
from wakeful import App, Run, env, webhook
from wakeful.clock import VirtualClock
from wakeful.errors import InvalidEvent
from wakeful.intake.cloudevents import to_envelope
from wakeful.intake.quarantine import keep
from wakeful.model import Event
from wakeful.operations.quarantine import discard, end_all, kept_places, release
from wakeful.resources.desk import looking
from wakeful.resources.quarantine_reading import input_of
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.take_in import Item, TakeIn, items_of
from wakeful.triggers.reading import misfit
from wakeful.verify import none, shopify

NAME = "tape.txt"


@pytest.fixture
def tape(tmp_path: Path) -> Outside:
    return Outside(tmp_path / NAME)


def an_app(new_app: NewApp, tape: Outside, seen: list[str], **options: Any) -> App:
    app = new_app(**options)

    @app.agent(tape.trigger)
    async def note(run: Run) -> None:
        seen.append(run.event.data["line"])

    return app


async def kept(runtime: Runtime) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await runtime.reader.quarantine(state="kept"))["quarantine"]
    return found


async def the_one(runtime: Runtime) -> dict[str, Any]:
    (one,) = await kept(runtime)
    found = await input_of(looking(runtime.reader), one["key"])
    assert found is not None
    return found


class TestReleasing:
    async def test_after_a_fix_it_becomes_its_event(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        tape.write("a", "?b")
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            found = await the_one(runtime)
            assert b64decode(found["raw"]) == b"?b"
            assert found["headers"] == {"line": "1", "Cookie": "(not kept)"}
            ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
            assert ended.wrong == "tape tape.txt: it still begins with a question mark"
            assert await the_one(runtime) == found
            tape.mend()
            ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"), note="mended")
            assert (ended.state, [one.id for one in ended.receipts]) == ("released", ["1"])
            await runtime.drain()
            assert sorted(seen) == ["a", "b"]
            again = await release(runtime.store, runtime.releasing, found, by=Actor("bob", "code"))
            assert "released or discarded just now by another operator" in str(again.refused)
            late = await input_of(looking(runtime.reader), found["key"])
            assert late is not None
            assert "was released by ada" in str(
                (await release(runtime.store, runtime.releasing, late, by=Actor("bob", "code"))).refused
            )
            story = await runtime.reader.why(found["key"])
            assert story is not None
            told = " ".join(story["story"])
            assert "it begins with a question mark" in told
            assert "ada released it" in told
            assert "(mended)" in told
            made = await runtime.reader.why("1")
            assert made is not None
            assert "It was quarantined before, and ada released it" in " ".join(made["story"])

    async def test_what_came_again_meanwhile_is_told_and_starts_nothing(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        tape.write("?b")
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            found = await the_one(runtime)
            await runtime.door.accept([Event("/tape.txt", "0", "tape.line", {"line": "b"})], by="source")
            tape.mend()
            ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
            assert ended.known == 1
            await runtime.drain()
            assert seen == ["b"]

    async def test_one_that_becomes_several(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        tape.write("?b=1&c=2")
        tape.mend()
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            await release(runtime.store, runtime.releasing, await the_one(runtime), by=Actor("ada", "code"))
            await runtime.drain()
            assert sorted(seen) == ["b=1", "c=2"]
            (ended,) = (await runtime.reader.quarantine())["quarantine"]
            assert ended["became"]["events"] == 2

    async def test_what_has_no_event_in_it_stays(self, new_app: NewApp, tape: Outside):
        tape.write("?")
        tape.mend()
        async with working(an_app(new_app, tape, []), reading="drained") as runtime:
            await runtime.drain()
            ended = await release(runtime.store, runtime.releasing, await the_one(runtime), by=Actor("ada", "code"))
            assert ended.wrong == "tape tape.txt: it contains no event: discard it"

    async def test_a_source_that_is_gone_says_so_and_its_bytes_can_be_discarded(self, new_app: NewApp, tape: Outside):
        tape.write("?b")
        async with working(an_app(new_app, tape, []), reading="drained") as runtime:
            await runtime.drain()
        async with working(new_app()) as runtime:
            found = await the_one(runtime)
            ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
            assert "app app no longer has the source tape.txt" in str(ended.wrong)
            assert (await discard(runtime.store, found, by=Actor("ada", "code"))).done
            assert await kept(runtime) == []
            rows = await runtime.database.fetch("list_events", None, 5, None, "quarantined", None)
            assert len(rows) == 1  # it is kept as a record

    async def test_of_another_app_is_refused(self, new_app: NewApp, tape: Outside):
        tape.write("?b")
        async with working(an_app(new_app, tape, []), reading="drained") as runtime:
            await runtime.drain()
            found = await the_one(runtime)
            async with working(an_app(lambda **more: new_app("other", **more), tape, []), reading="drained") as other:
                ended = await release(other.store, other.releasing, found, by=Actor("ada", "code"))
                assert "belongs to app app, not other" in str(ended.refused)

    async def test_all_of_a_source(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        many = 60
        tape.write(*(f"?line={number}" for number in range(many)), "?")
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            keys = [key for _, key in await kept_places(runtime.reader, "app", NAME)]
            assert len(keys) == many + 1

            async def settle_them() -> Any:
                return await end_all(
                    runtime.store,
                    partial(input_of, looking(runtime.reader)),
                    keys,
                    runtime.releasing,
                    app="app",
                    source=NAME,
                    by=Actor("ada", "code"),
                )

            tally = await settle_them()
            assert (tally.done, tally.wrong.total()) == (0, many + 1)
            tape.mend()
            tally = await settle_them()
            assert (tally.done, tally.known, tally.wrong.total()) == (many, 0, 1)
            await runtime.drain()
            assert sorted(seen) == sorted(f"line={number}" for number in range(many))
            rows = await query(
                runtime.app.store or "", "select operator, verb, target from wakeful_operation order by seq"
            )
            assert tuple(rows[-1]) == ("ada", "quarantine release", NAME)
            tally = await settle_them()
            assert (tally.done, tally.passed) == (0, many)


@pytest.mark.parametrize("by_earlier_version", [False, True])
async def test_an_event_that_nobody_could_take_is_kept_and_does_not_hold_up_the_others(
    new_app: NewApp, tape: Outside, monkeypatch: pytest.MonkeyPatch, *, by_earlier_version: bool
):
    seen: list[str] = []
    tape.write("a", "b", "c")
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        kind = type(tape.trigger)
        whole = kind.matches

        def broken(trigger: Any, event: Event) -> Any:
            if event.data["line"] == "b":
                raise KeyError("colour")
            return whole(trigger, event)

        with monkeypatch.context() as patched:
            patched.setattr(kind, "matches", broken)
            await runtime.drain()
        assert sorted(seen) == ["a", "c"]
        found = await the_one(runtime)
        assert "event 1 could not be taken in: KeyError" in found["reason"]
        assert (found["form"], found["headers"]) == ("event", {})
        if by_earlier_version:
            url = runtime.app.store or ""
            await query(url, """update wakeful_quarantine set form = null, headers = '{"wakeful-event":"yes"}'""")
            found = await the_one(runtime)
            assert found["form"] is None
        ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))  # mended
        assert [one.status for one in ended.receipts] == ["accepted"]
        await runtime.drain()
        assert sorted(seen) == ["a", "b", "c"]


@pytest.mark.parametrize("form", ["raw", None])
@pytest.mark.parametrize("reason", ["it is not for me", "event 1 could not be taken in: KeyError"])
async def test_what_a_sender_marks_as_an_event_is_read_by_its_source(
    new_app: NewApp, tape: Outside, form: str | None, reason: str
):
    forged = b'{"source": "/hooks/github", "id": "1", "type": "github.push", "data": {"line": "forged"}}'
    seen: list[str] = []
    async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
        one = keep("app", f"/{NAME}", forged, reason, kind="unreadable", headers={"wakeful-event": "yes"})
        await runtime.store.do(TakeIn("app", NAME, kept=[one]))
        if form is None:  # an earlier version kept it
            await query(runtime.app.store or "", "update wakeful_quarantine set form = null")
        found = await the_one(runtime)
        assert found["form"] == form
        ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"), trust=True)
        assert ended.wrong == "tape tape.txt: it still begins with a question mark"
        assert await the_one(runtime) == found


def test_what_a_sender_sends_is_never_taken_for_an_event_that_was_written_down():
    event = Event("/tape.txt", "1", "tape.line", {"line": "b"})
    ours = misfit("app", "/tape.txt", event, KeyError("colour"))
    sent = keep("app", "/tape.txt", to_envelope(event).encode(), "no", kind="unreadable", headers={})
    assert (ours.form, sent.form) == ("event", "raw")
    assert ours.arrival.key != sent.arrival.key


async def test_a_webhook_is_verified_again_unless_a_person_vouches(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_SECRET", "mistyped")
    app = new_app()

    @app.agent(webhook("/hooks/shop", verify=Signed(env("SHOP_SECRET"))))
    async def note(run: Run) -> None:
        pass

    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(open_to="loopback"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for number in (1, 2):
                body, headers = delivery({"number": number}, id=str(number))
                assert (await http.post("/hooks/shop", content=body, headers=headers)).status_code == 401
        second, first = await kept(runtime)
        found = await input_of(looking(runtime.reader), first["key"])
        other = await input_of(looking(runtime.reader), second["key"])
        assert found is not None
        assert other is not None
        ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
        assert ended.wrong is not None
        assert "X-Signature is not that of the body" in ended.wrong
        monkeypatch.setenv("SHOP_SECRET", "secret")  # mended
        ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
        assert [one.status for one in ended.receipts] == ["accepted"]
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.post("/hooks/shop", content=body, headers=headers | {"x-delivery": "again"})
            assert answer.status_code == 202  # the second one, which its sender tried once more
        ended = await release(runtime.store, runtime.releasing, other, by=Actor("ada", "code"), trust=True)
        assert ended.known == 1  # by its signature
        told = await input_of(looking(runtime.reader), first["key"])
        assert told is not None
        assert told["became"]["key"] == (await runtime.reader.event("1") or {})["key"]


async def send_shopify(http: httpx2.AsyncClient, topic: str, secret: str) -> int:
    body = b'{"id": 450789469}'
    headers = {
        "x-shopify-hmac-sha256": b64encode(hmac.digest(secret.encode(), body, "sha256")).decode(),
        "x-shopify-topic": topic,
        "x-shopify-webhook-id": topic,
    }
    return (await http.post("/hooks/shop", content=body, headers=headers)).status_code


async def test_one_body_that_came_as_two_things_is_kept_twice(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    """Shopify tells of an order that is paid at once by one body under two topics."""
    app = new_app()

    @app.agent(webhook("/hooks/shop", verify=shopify(env("SHOP"))))
    async def note(run: Run) -> None: ...

    monkeypatch.setenv("SHOP", "wrong")
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(open_to="loopback"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            for topic in ("orders/create", "orders/paid", "orders/paid"):
                assert await send_shopify(http, topic, "right") == 401
        await runtime.webhooks.run_once()
        assert [one["came"] for one in await kept(runtime)] == [2, 1]
        monkeypatch.setenv("SHOP", "right")
        keys = [key for _, key in await kept_places(runtime.reader, app.name, "/hooks/shop")]
        how: dict[str, Any] = {"app": app.name, "source": "/hooks/shop", "by": Actor("ada", "code")}
        tally = await end_all(runtime.store, partial(input_of, looking(runtime.reader)), keys, runtime.releasing, **how)
        assert (tally.done, tally.known, tally.wrong) == (2, 0, {})
        found = (await runtime.reader.events(type="shopify.orders.paid"))["events"]
        assert [one["id"] for one in found] == ["orders/paid"]


async def test_a_header_that_was_not_kept_is_no_id(new_app: NewApp):
    """Else everything that is released would be one event."""
    app = new_app()

    @app.agent(webhook("/hooks/x", verify=none(), id="header:X-Token"))
    async def note(run: Run) -> None: ...

    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(open_to="loopback"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            await http.post("/hooks/x", content=b"{", headers={"x-token": "hush", "content-type": "application/json"})
        found = await the_one(runtime)
        assert found["headers"]["x-token"] == "(not kept)"
        ended = await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"), trust=True)
        assert ended.state == "kept"
        with pytest.raises(InvalidEvent, match="has no header X-Token"):
            runtime.webhooks.read_again("/hooks/x", b"{}", found["headers"], 0, trust=True)


class TestKeeping:
    async def test_dead_letters_stay_and_what_is_settled_goes(
        self, new_app: NewApp, tape: Outside, clock: VirtualClock
    ):
        tape.write("?a", "?b", "?c")
        tape.mend()
        app = an_app(new_app, tape, [], retention="1d", deduplication="3d")
        async with working(app, reading="drained") as runtime:
            await runtime.drain()
            third, second, first = await kept(runtime)
            clock.move("30d")
            for one, verb in ((first, release), (second, discard)):
                found = await input_of(looking(runtime.reader), one["key"])
                assert found is not None
                if verb is release:
                    await release(runtime.store, runtime.releasing, found, by=Actor("ada", "code"))
                else:
                    await discard(runtime.store, found, by=Actor("ada", "code"))
            await runtime.drain()
            await runtime.door.accept([Event("/x", "newest", "x")])  # the newest of all stays
            await runtime.housekeeper.run_once()
            assert (await input_of(looking(runtime.reader), first["key"]) or {})["raw"] is not None  # only just ended
            clock.move("2d")
            await runtime.housekeeper.run_once()
            for one in (first, second):
                gone = await input_of(looking(runtime.reader), one["key"])
                assert gone is not None
                assert (gone["raw"], gone["headers"]) == (None, None)
            clock.move("5d")
            await runtime.door.accept([Event("/x", "newer", "x")])
            await runtime.housekeeper.run_once()
            assert await input_of(looking(runtime.reader), first["key"]) is None
            assert await input_of(looking(runtime.reader), second["key"]) is None
            still = await input_of(looking(runtime.reader), third["key"])
            assert still is not None
            assert b64decode(still["raw"]) in {b"?a", b"?b", b"?c"}

    async def test_things_that_are_gone_are_known_as_long_as_one_of_their_events(
        self, new_app: NewApp, tape: Outside, clock: VirtualClock
    ):
        """A thing that came back would begin to count anew, and its event would be one that there is already."""
        app = an_app(new_app, tape, [], retention="1d", deduplication="3d")
        async with working(app, reading="drained") as runtime:
            await runtime.door.accept([Event("/x", "1", "x")])
            gone = [Item("gone", 2, "m", gone=True), Item("there", 1, "m")]
            await runtime.store.do(TakeIn("app", NAME, items=gone))
            for _ in range(2):
                clock.move("30d")
                await runtime.door.accept([Event("/x", f"later {clock.now()}", "x")])
                known = [one.item for one in await items_of(runtime.store.database, "app", NAME)]
                assert known == ["gone", "there"]
                await runtime.housekeeper.run_once()  # takes the payloads
                await runtime.housekeeper.run_once()  # and then the events
                if [one.item for one in await items_of(runtime.store.database, "app", NAME)] == ["there"]:
                    break
            assert [one.item for one in await items_of(runtime.store.database, "app", NAME)] == ["there"]
            events = (await runtime.reader.events())["events"]
            assert "1" not in {one["id"] for one in events}

    async def test_nothing_of_it_is_readable_at_rest(
        self, new_app: NewApp, tape: Outside, store_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        from wakeful.stores.keyring import new_key

        monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", new_key())
        tape.write("?treasure")
        app = an_app(new_app, tape, [])
        async with working(app, reading="drained") as runtime:
            await runtime.drain()
            found = await the_one(runtime)
            assert b64decode(found["raw"]) == b"?treasure"
            assert found["headers"]["line"] == "0"
            await discard(runtime.store, found, by=Actor("ada", "code"), note="no treasure")
            rows = await query(store_url, "select headers, note from wakeful_quarantine")
            assert not any("line" in str(cell) or "treasure" in str(cell) for row in rows for cell in row)
            events = await query(store_url, "select envelope, reason from wakeful_event")
            assert not any("question" in str(cell) or "P3RyZWFzdXJl" in str(cell) for row in events for cell in row)


class TestBackPressure:
    async def test_reading_waits_for_runs_and_goes_on_by_itself(self, new_app: NewApp, tape: Outside):
        """A real worker with a small backlog: what has been taken in never outgrows it by more than a batch."""
        go_on = asyncio.Event()
        done: list[str] = []
        app = new_app(clock=None, backlog=20, in_flight=1)

        @app.agent(tape.trigger)
        async def note(run: Run) -> None:
            await go_on.wait()
            done.append(run.event.data["line"])

        many = 400
        async with working(app) as runtime:
            tape.write(*map(str, range(many)))
            async with asyncio.timeout(60):
                while (source := await runtime.reader.source(NAME)) is None or source["state"] != "paused":
                    await asyncio.sleep(0.02)
            assert source["taken"] <= 20 + AT_ONCE
            assert "App(backlog=" in source["reason"]
            told = await runtime.reader.why(NAME)
            assert told is not None
            assert any("It has been paused since" in sentence for sentence in told["story"])
            go_on.set()
            async with asyncio.timeout(120):
                while len(done) < many:
                    await asyncio.sleep(0.02)
            assert sorted(map(int, done)) == list(range(many))
            async with asyncio.timeout(60):
                while (source := await runtime.reader.source(NAME)) is None or source["state"] != "reading":
                    await asyncio.sleep(0.02)
            assert source["reason"] is None
