"""Payloads at rest are readable for those who have the key, and for nobody else."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from support.apps import NewApp, ended, go, working
from support.at_rest import everything_at_rest
from support.stores import OpenStore, accept, an_arrival, join, query, reader
from wakeful import App, Circuit, Operation, Persistent, Run, action, env, on, step
from wakeful.errors import ConfigError, EncryptionKeyMissing
from wakeful.operations.answering import answer_approval
from wakeful.operations.held import plan_settling, settle
from wakeful.operations.pace import Pace
from wakeful.operations.redo import Choice, plan_redo
from wakeful.operations.rotation import rotate
from wakeful.stores.keeping import Keeper
from wakeful.stores.keyring import KeyRing, new_key
from wakeful.stores.payloads import LARGE
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.pauses import ChangePause

SECRET = "the-moon-is-made-of-cheese"
OLD, NEW, OTHER = (urlsafe_b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))

pytest.importorskip("cryptography")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch):
    def use(*given: str) -> None:
        monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", ",".join(given))

    use(OLD)
    return use


def agents_of(app: App) -> App:
    @action(safety="idempotent")
    async def send(op: Operation, text: str) -> str:
        return text

    async def look_up(text: str) -> str:
        return text

    @app.agent(on("go"))
    async def handle(run: Run) -> dict[str, str]:
        text = run.event.data["text"]
        await run.step(look_up, text)
        await run.act(send, text)
        run.send("log", {"text": text})
        return {"text": text}

    @app.agent(on("break"))
    async def fail(run: Run) -> None:
        raise Persistent(f"cannot do {run.event.data['text']}")

    return app


@pytest.mark.parametrize("size", [1, LARGE])
async def test_no_payload_is_readable_at_rest(new_app: NewApp, store_url: str, keys, size: int):
    app = agents_of(new_app())
    text = SECRET * size
    async with working(app) as runtime:
        run = await go(runtime, {"text": text})
        assert (run["state"], run["output"]) == ("done", {"text": text})
        assert run["event"]["data"] == {"text": text}
        assert run["steps"][0]["result"] == text
        assert run["effects"][0]["arguments"] == [text]
        assert run["deliveries"][0]["message"] == {"text": text}
        failed = await ended(runtime, await app.emit("break", {"text": SECRET}))
        assert failed["error"]["message"] == f"cannot do {SECRET}"
        (dead,) = (await plan_redo(runtime.reader, Choice())).letters
        assert (dead["error"]["type"], dead["error"]["message"]) == ("Persistent", f"cannot do {SECRET}")
        alarms = (await runtime.reader.alarms())["alarms"]
        assert any(SECRET in one["text"] for one in alarms)
        stored = await everything_at_rest(store_url)
    assert SECRET not in stored
    assert "Persistent" in stored  # classes of errors, types and identities are no secrets
    assert "break" in stored


async def test_a_run_resumes_on_what_is_encrypted(new_app: NewApp, keys):
    app = new_app()
    calls = []

    async def look_up() -> str:
        calls.append(1)
        return SECRET

    @app.agent(on("go"), backoff="1ms")
    async def handle(run: Run) -> str:
        found = await run.step(look_up)
        if len(calls) == 1 and run.attempt == 1:
            raise ConnectionError(SECRET)
        return found

    async with working(app) as runtime:
        run = await go(runtime)
        runtime.clock.move("1m")  # type: ignore[attr-defined]
        await runtime.drain()
        run = (await runtime.reader.run(run["id"])) or {}
        assert (run["state"], run["output"], calls) == ("done", SECRET, [1])
        assert run["history"][0]["error"]["message"] == SECRET


def patient_agents_of(app: App) -> App:
    """Agents that wait, ask, call, gather, are parked, and are cancelled with what they did undone."""

    async def take_back(op: Operation, text: str, *, result: str) -> str:
        return result

    @action(safety="idempotent", undo=take_back)
    async def send(op: Operation, text: str) -> str:
        return text

    @step(dependency="bank", attempts=1)
    async def ask_the_bank(text: str) -> None:
        raise ConnectionError(text)

    @app.agent()
    async def child(run: Run, text: str) -> str:
        return text

    @app.agent(on("wait"))
    async def wait(run: Run) -> str:
        told = await run.wait_for("told", where="data == values.text", values={"text": SECRET})
        asked: str = await run.ask(f"Is it {SECRET}?", to="ops", schema=str)
        return told.data + asked + await run.call(child, SECRET)

    @app.agent(on("park"))
    async def park(run: Run) -> None:
        await run.step(ask_the_bank, run.event.data)

    @app.agent(on("undo"))
    async def undo(run: Run) -> None:
        await run.act(send, run.event.data)
        await run.sleep("1d")

    @app.agent(on("key"), key="data.missing")
    async def keyed(run: Run) -> None: ...

    @app.agent(on("gather"), batch=(2, "1m"))
    async def gather(run: Run, texts: list[str]) -> list[str]:
        return texts

    return app


async def test_nothing_of_runs_that_wait_is_readable_at_rest(new_app: NewApp, store_url: str, keys):
    app = patient_agents_of(new_app(circuits={"bank": Circuit(failures=1)}))
    async with working(app) as runtime:
        waits = await app.emit("wait")
        undoes = await app.emit("undo", SECRET)
        parks, keyed = await ended(runtime, await app.emit("park", SECRET)), await app.emit("key", {"text": SECRET})
        await app.emit("gather", SECRET)
        gathers = await ended(runtime, await app.emit("gather", SECRET))
        await app.emit("told", SECRET)
        await runtime.drain()
        (question,) = (await runtime.reader.approvals())["approvals"]
        assert question["question"] == f"Is it {SECRET}?"
        await answer_approval(runtime.store, question["id"], SECRET, by=Actor("ada", "code"), note=SECRET)
        await runtime.store.do(CancelRun(undoes.runs[0], by=Actor("ada", "code"), note=SECRET))
        await runtime.store.do(ChangePause("app", "keyed", paused=True, by=Actor("ada", "code"), note=SECRET))
        waited, undone, dead = [await ended(runtime, one) for one in (waits, undoes, keyed)]
        assert (waited["state"], waited["output"]) == ("done", SECRET * 3)
        assert (undone["state"], [one["state"] for one in undone["effects"]]) == ("cancelled", ["undone", "confirmed"])
        assert (dead["error"]["type"], SECRET in dead["error"]["message"]) == ("InvalidKey", True)
        assert (parks["state"], gathers["output"]) == ("parked", [SECRET, SECRET])
        assert [one["error"] for one in await runtime.reader.circuits()] == [f"ConnectionError: {SECRET}"]
        stories = [await runtime.reader.why(one["id"]) for one in (waited, undone, parks, dead)]
        assert all(SECRET in str(story) for story in stories)
        assert SECRET not in await everything_at_rest(store_url)
    keys(NEW, OLD)
    async with working(app) as runtime:
        await rotate(Keeper(runtime.store), runtime.store.database.codec, Actor("ada", "code"), pace=Pace())
    keys(NEW)
    async with working(app) as runtime:
        assert [await runtime.reader.why(one["id"]) for one in (waited, undone, parks, dead)] == stories


async def test_why_a_run_failed_is_not_readable_while_what_it_did_is_undone(new_app: NewApp, store_url: str, keys):
    app, may_undo = new_app(), False

    async def take_back(op: Operation) -> None:
        if not may_undo:
            raise Persistent("not now")

    @action(safety="idempotent", undo=take_back)
    async def send(op: Operation) -> None: ...

    @app.agent(on("go"), on_failure="undo")
    async def handle(run: Run) -> None:
        await run.act(send)
        raise Persistent(SECRET)

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "held"
        assert SECRET not in await everything_at_rest(store_url)
        may_undo = True
        (held,) = (await plan_settling(runtime.reader)).effects
        await settle(runtime.store, held.id, "repeat", by=Actor("ada", "code"))
        await runtime.drain()
        after = await runtime.reader.run(run["id"])
        assert after is not None
        assert (after["state"], after["error"]["message"]) == ("dead", SECRET)
        assert SECRET not in await everything_at_rest(store_url)


async def test_duplicates_and_conflicts_are_told_apart_as_ever(stores: OpenStore, store_url: str, keys):
    store = await stores(store_url)
    await accept(store, an_arrival(data={"a": 1}))
    (same,) = await accept(store, an_arrival(data={"a": 1}))
    (other,) = await accept(store, an_arrival(data={"a": 2}))
    assert (same.status, same.conflict) == ("duplicate", False)
    assert (other.status, other.conflict) == ("duplicate", True)


async def test_the_digest_of_the_content_cannot_be_compared_with_a_guess(stores: OpenStore, store_url: str, keys):
    store = await stores(store_url)
    arrival = an_arrival(data={"pin": 1234})
    await accept(store, arrival)
    ((stored,),) = await query(store_url, "select content from wakeful_event")
    assert stored != arrival.content


async def test_what_was_stored_before_there_was_a_key_stays_readable(stores: OpenStore, store_url: str, monkeypatch):
    store = await stores(store_url)
    await accept(store, an_arrival(data="plain"))
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", NEW)
    later = await stores(store_url)
    await accept(later, an_arrival("2", data="sealed"))
    claims = await (await join(later)).claim()
    assert sorted("plain" in claim.envelope for claim in claims) == [False, True]


async def test_an_older_key_still_reads(stores: OpenStore, store_url: str, keys):
    await accept(await stores(store_url), an_arrival(data="one"))
    keys(NEW, OLD)
    store = await stores(store_url)
    await accept(store, an_arrival("2", data="two"))
    claims = await (await join(store)).claim()
    assert len(claims) == 2


@pytest.mark.parametrize("given", [(), (OTHER,)])
async def test_a_missing_key_is_named_at_the_start(stores: OpenStore, store_url: str, keys, given, monkeypatch):
    await accept(await stores(store_url), an_arrival(data="one"))
    keys(*given)
    wanted = KeyRing([OLD]).first.id
    with pytest.raises(
        EncryptionKeyMissing, match=rf"key {wanted}, which this process does not have .* WAKEFUL_ENCRYPTION_KEYS"
    ):
        await stores(store_url)


async def test_a_reader_without_the_key_is_told_which_one(stores: OpenStore, store_url: str, keys):
    store = await stores(store_url)
    keys("")
    without = reader(store)
    store.database.codec.ring = None
    with pytest.raises(EncryptionKeyMissing, match=KeyRing([OLD]).first.id):
        await without.health()


async def test_the_keys_of_the_app_go_before_the_setting(new_app: NewApp, store_url: str, monkeypatch):
    monkeypatch.setenv("THE_KEY", NEW)
    app = agents_of(new_app(encryption=[env("THE_KEY")]))
    async with working(app) as runtime:
        assert (await go(runtime, {"text": SECRET}))["state"] == "done"
        assert SECRET not in await everything_at_rest(store_url)
        used = KeyRing([NEW]).first.id
        assert await query(store_url, "select id from wakeful_cipher order by id") == [(used,), (f"{used}.bound",)]


@pytest.mark.parametrize("bad", ["", "short", NEW[:-4], "ü" * 44])
def test_a_bad_key_is_refused_without_being_repeated(bad: str):
    with pytest.raises(ConfigError, match="wakeful keys new") as caught:
        KeyRing([bad])
    assert not bad or bad not in str(caught.value)


def test_a_changed_payload_is_refused():
    ring = KeyRing([NEW])
    sealed = ring.seal("text")
    changed = sealed[:-3] + ("A" if sealed[-3] != "A" else "B") + sealed[-2:]
    with pytest.raises(EncryptionKeyMissing, match="was changed"):
        ring.open(changed)


def test_a_fresh_key_is_a_key_and_shows_only_its_id():
    key = new_key()
    assert key not in repr(KeyRing([key]).first)
    assert NEW not in repr(KeyRing([NEW]).first)


def test_encryption_is_a_list(new_app: NewApp):
    with pytest.raises(ConfigError, match="must be a list of keys"):
        new_app(encryption=NEW)
