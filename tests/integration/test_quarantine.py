"""What cannot be taken in is kept; after a fix it becomes the event that it should have been, once."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, working
from support.stores import query
from support.tape import AT_ONCE, Outside
from wakeful import App, Run
from wakeful.clock import VirtualClock
from wakeful.intake.quarantine import keep
from wakeful.model import Event
from wakeful.operations.quarantine import discard, kept_keys, release, settle_all
from wakeful.runtime import Runtime
from wakeful.stores.sources import EnterSources, Item, TakeIn
from wakeful.verify.base import Refused

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
    found = await runtime.reader.quarantined(one["key"])
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
            settled = await release(runtime.store, runtime.releasing, found, operator="ada")
            assert settled.wrong == "tape tape.txt: it still begins with a question mark"
            assert await the_one(runtime) == found
            tape.mend()
            settled = await release(runtime.store, runtime.releasing, found, operator="ada", note="mended")
            assert (settled.state, [one.id for one in settled.receipts]) == ("released", ["1"])
            await runtime.drain()
            assert sorted(seen) == ["a", "b"]
            again = await release(runtime.store, runtime.releasing, found, operator="bob")
            assert "settled by somebody else" in str(again.refused)
            late = await runtime.reader.quarantined(found["key"])
            assert late is not None
            assert "was released by ada" in str(
                (await release(runtime.store, runtime.releasing, late, operator="bob")).refused
            )
            story = await runtime.reader.why(found["key"])
            assert story is not None
            told = " ".join(story["story"])
            assert "it begins with a question mark" in told
            assert "ada released it" in told
            assert "(mended)" in told
            made = await runtime.reader.why("1")
            assert made is not None
            assert "It was in quarantine before, and ada released it" in " ".join(made["story"])

    async def test_what_came_again_meanwhile_is_told_and_starts_nothing(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        tape.write("?b")
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            found = await the_one(runtime)
            await runtime.door.accept([Event("/tape.txt", "0", "tape.line", {"line": "b"})])
            tape.mend()
            settled = await release(runtime.store, runtime.releasing, found, operator="ada")
            assert settled.known == 1
            await runtime.drain()
            assert seen == ["b"]

    async def test_one_that_becomes_several(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        tape.write("?b=1&c=2")
        tape.mend()
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            await release(runtime.store, runtime.releasing, await the_one(runtime), operator="ada")
            await runtime.drain()
            assert sorted(seen) == ["b=1", "c=2"]
            (settled,) = (await runtime.reader.quarantine())["quarantine"]
            assert settled["became"]["events"] == 2

    async def test_what_has_no_event_in_it_stays(self, new_app: NewApp, tape: Outside):
        tape.write("?")
        tape.mend()
        async with working(an_app(new_app, tape, []), reading="drained") as runtime:
            await runtime.drain()
            settled = await release(runtime.store, runtime.releasing, await the_one(runtime), operator="ada")
            assert settled.wrong == "tape tape.txt: there is no event in it: discard it"

    async def test_a_source_that_is_gone_says_so_and_its_bytes_can_be_discarded(self, new_app: NewApp, tape: Outside):
        tape.write("?b")
        async with working(an_app(new_app, tape, []), reading="drained") as runtime:
            await runtime.drain()
        async with working(new_app()) as runtime:
            found = await the_one(runtime)
            settled = await release(runtime.store, runtime.releasing, found, operator="ada")
            assert "app app has no source tape.txt any more" in str(settled.wrong)
            assert (await discard(runtime.store, found, operator="ada")).done
            assert await kept(runtime) == []
            rows = await runtime.database.fetch("list_events", None, "quarantined", None, None, 5)
            assert len(rows) == 1  # it is kept as a record

    async def test_of_another_app_is_refused(self, new_app: NewApp, tape: Outside):
        tape.write("?b")
        async with working(an_app(new_app, tape, []), reading="drained") as runtime:
            await runtime.drain()
            found = await the_one(runtime)
            async with working(an_app(lambda **more: new_app("other", **more), tape, []), reading="drained") as other:
                settled = await release(other.store, other.releasing, found, operator="ada")
                assert "belongs to app app, and this is other" in str(settled.refused)

    async def test_all_of_a_source(self, new_app: NewApp, tape: Outside):
        seen: list[str] = []
        many = 60
        tape.write(*(f"?line={number}" for number in range(many)), "?")
        async with working(an_app(new_app, tape, seen), reading="drained") as runtime:
            await runtime.drain()
            keys = await kept_keys(runtime.reader, "app", NAME)
            assert len(keys) == many + 1

            async def settle_them() -> Any:
                return await settle_all(
                    runtime.store, runtime.reader, keys, runtime.releasing, app="app", source=NAME, operator="ada"
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


class Hooks:
    """What webhooks know how to do: a body that begins with an exclamation mark is signed."""

    def read_again(
        self, name: str, raw: bytes, headers: Mapping[str, str], received_at: int, /, *, trust: bool
    ) -> list[tuple[Event, tuple[str, ...]]]:
        assert received_at > 0
        if not trust and not raw.startswith(b"!"):
            message = f"webhook {name}: the signature is wrong"
            raise Refused(message)
        return [(Event(name, headers["id"], "hook.called", {}), ("signature",))]


async def test_a_webhook_is_verified_again_unless_a_person_vouches(new_app: NewApp):
    app = new_app()

    async with working(app) as runtime:
        runtime.webhooks = Hooks()  # type: ignore[assignment]
        await runtime.store.enter_sources(EnterSources("app", [("/hooks/shop", "webhook")]))
        for body, identifier in ((b"x", "1"), (b"y", "2")):
            one = keep("app", "/hooks/shop", body, "no signature", kind="unverified", headers={"id": identifier})
            await runtime.store.take_in(TakeIn("app", "/hooks/shop", kept=[one]))
        second, first = await kept(runtime)
        found = await runtime.reader.quarantined(first["key"])
        assert found is not None
        settled = await release(runtime.store, runtime.releasing, found, operator="ada")
        assert settled.wrong == "webhook /hooks/shop: the signature is wrong"
        settled = await release(runtime.store, runtime.releasing, found, operator="ada", trust=True)
        assert [one.status for one in settled.receipts] == ["unmatched"]
        other = await runtime.reader.quarantined(second["key"])
        assert other is not None
        settled = await release(runtime.store, runtime.releasing, other, operator="ada", trust=True)
        assert settled.known == 1  # the same signature
        told = await runtime.reader.quarantined(second["key"])
        assert told is not None
        assert told["became"]["key"] == (await runtime.reader.event("1") or {})["key"]


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
                found = await runtime.reader.quarantined(one["key"])
                assert found is not None
                if verb is release:
                    await release(runtime.store, runtime.releasing, found, operator="ada")
                else:
                    await discard(runtime.store, found, operator="ada")
            await runtime.drain()
            await runtime.door.accept([Event("/x", "newest", "x")])  # the newest of all stays
            await runtime.housekeeper.run_once()
            assert (await runtime.reader.quarantined(first["key"]) or {})["raw"] is not None  # only just settled
            clock.move("2d")
            await runtime.housekeeper.run_once()
            for one in (first, second):
                gone = await runtime.reader.quarantined(one["key"])
                assert gone is not None
                assert (gone["raw"], gone["headers"]) == (None, None)
            clock.move("5d")
            await runtime.door.accept([Event("/x", "newer", "x")])
            await runtime.housekeeper.run_once()
            assert await runtime.reader.quarantined(first["key"]) is None
            assert await runtime.reader.quarantined(second["key"]) is None
            still = await runtime.reader.quarantined(third["key"])
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
            await runtime.store.take_in(TakeIn("app", NAME, items=gone))
            for _ in range(2):
                clock.move("30d")
                await runtime.door.accept([Event("/x", f"later {clock.now()}", "x")])
                known = [one.item for one in await runtime.store.items_of("app", NAME)]
                assert known == ["gone", "there"]
                await runtime.housekeeper.run_once()  # takes the payloads
                await runtime.housekeeper.run_once()  # and then the events
                if [one.item for one in await runtime.store.items_of("app", NAME)] == ["there"]:
                    break
            assert [one.item for one in await runtime.store.items_of("app", NAME)] == ["there"]
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
            await discard(runtime.store, found, operator="ada", note="no treasure")
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
            assert any("It is paused since" in sentence for sentence in told["story"])
            go_on.set()
            async with asyncio.timeout(120):
                while len(done) < many:
                    await asyncio.sleep(0.02)
            assert sorted(map(int, done)) == list(range(many))
            async with asyncio.timeout(60):
                while (source := await runtime.reader.source(NAME)) is None or source["state"] != "reading":
                    await asyncio.sleep(0.02)
            assert source["reason"] is None
