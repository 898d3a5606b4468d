"""`wakeful keys rotate`: from plain text and the older form to payloads that are bound to their places, and to a strict store."""

from __future__ import annotations

import asyncio
import signal
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from support.apps import NewApp, ended, working
from support.schemas import knowing, later
from support.stores import OpenStore, count, query
from wakeful import App, Run, on
from wakeful.clock import VirtualClock
from wakeful.errors import ConfigError, EncryptionKeyMissing, PayloadTampered
from wakeful.operations.pace import Pace
from wakeful.operations.rotation import Rotated, rotate
from wakeful.stores.keeping import Keeper
from wakeful.stores.keyring import KeyRing
from wakeful.stores.opening import open_database
from wakeful.stores.payloads import LARGE
from wakeful.stores.places import PLACES
from wakeful.stores.request import Actor
from wakeful.stores.sealing import BINDS_SINCE, STRICT, Sealing
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.people import RecordOperation
from wakeful.stores.verbs.processes import RegisterProcess

pytest.importorskip("cryptography")

KEY, NEW = (urlsafe_b64encode(bytes([number]) * 32).decode() for number in (7, 8))
TEXTS = ["small", "large" * (LARGE // 5 + 1)]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):
    def keys(*given: str, strict: bool = False) -> None:
        monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", ",".join(given))
        monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1" if strict else "0")

    return keys


@pytest.fixture
def app(new_app: NewApp) -> App:
    made = new_app()

    async def look_up(text: str) -> str:
        return text

    @made.agent(on("go"))
    async def handle(run: Run) -> str:
        found: str = await run.step(look_up, run.event.data)
        run.send("log", found[:10])
        return found

    return made


@pytest.fixture
async def older(app: App, use, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs of a store as an older version left it: some plain, some encrypted and not bound."""
    runs = []
    use()
    async with working(app) as runtime:
        runs += [(await ended(runtime, await app.emit("go", text)))["id"] for text in TEXTS]
    use(KEY)
    with monkeypatch.context() as patched:
        patched.setattr(Sealing, "is_new", property(lambda _: False))
        async with working(app) as runtime:
            assert not runtime.database.codec.binds
            runs += [(await ended(runtime, await app.emit("go", text)))["id"] for text in TEXTS]
    return runs


async def rotated(store: DatabaseStore, *, strict: bool = False) -> Rotated:
    return await rotate(Keeper(store), store.database.codec, Actor("ada", "code"), pace=Pace(), strict=strict)


async def outputs(app: App, runs: list[str]) -> list[str]:
    async with working(app) as runtime:
        return [((await runtime.reader.run(one)) or {})["output"] for one in runs]


async def stored_otherwise(url: str) -> list[str]:
    """The columns in which something is not bound to its place."""
    found = []
    for place in PLACES:
        for column in place.columns:
            if column == "content":
                continue
            texts = [row[0] for row in await query(url, f"select {column} from {place.table}") if row[0]]
            blobs = {row[0]: row[1] for row in await query(url, "select id, content from wakeful_blob")}
            texts = [blobs[text.removeprefix("@blob:")] if text.startswith("@blob:") else text for text in texts]
            if not all(f"@sealed:{KeyRing([KEY]).first.id}." in text for text in texts):
                found.append(f"{place.noun}.{column}")
    return found


async def test_what_an_older_version_left_is_read_until_it_is_bound(
    app: App, older, stores: OpenStore, store_url: str, use
):
    assert await outputs(app, older) == TEXTS * 2
    assert await stored_otherwise(store_url)
    done = await rotated(await stores(store_url), strict=True)
    assert (done.complete, done.strict, done.tampered) == (True, True, [])
    assert await stored_otherwise(store_url) == []
    use(KEY, strict=True)
    assert await outputs(app, older) == TEXTS * 2
    assert (await rotated(await stores(store_url), strict=True)).payloads == 0


async def test_a_process_of_an_older_version_does_not_start_on_what_it_could_not_read(
    app: App, older, stores: OpenStore, store_url: str
):
    """It takes each mark for a key that it does not have."""
    await rotated(await stores(store_url), strict=True)
    ids = {row[0] for row in await query(store_url, "select id from wakeful_cipher")}
    known_to_it = KeyRing([KEY]).ids
    assert ids - known_to_it


async def test_nothing_is_bound_while_a_process_of_an_older_version_is_at_work(
    older, stores: OpenStore, store_url: str
):
    store = await stores(store_url)
    await store.register(RegisterProcess("old", "here", 1, 3600 * 1_000_000))
    await query(store_url, f"update wakeful_process set knows = {BINDS_SINCE - 1} where id = 'old'")
    with pytest.raises(ConfigError, match=r"process old \(here, pid 1\): an older version"):
        await rotated(store)
    assert not Sealing.of([row[0] for row in await query(store_url, "select id from wakeful_cipher")]).bound


async def test_no_store_is_strict_before_every_process_binds(app: App, older, stores: OpenStore, store_url: str):
    async with working(app) as runtime:
        assert not runtime.database.codec.binds
        store = await stores(store_url)
        done = await rotated(store, strict=True)
        assert (done.complete, done.strict) == (False, False)
        assert "does not bind payloads yet" in (done.waits_for or "")
        receipt = await app.emit("go", "meanwhile")  # written in the older form, and read by all
        assert (await ended(runtime, receipt))["output"] == "meanwhile"
        await runtime.sealing.run_once()
        done = await rotated(store, strict=True)
        assert (done.complete, done.strict) == (True, True)
        receipt = await app.emit("go", "afterwards")
        run = await ended(runtime, receipt)
        assert (run["state"], run["output"]) == ("done", "afterwards")
        assert await stored_otherwise(store_url) == []


async def test_a_process_that_was_suspended_meanwhile_binds_what_it_writes(
    app: App, older, stores: OpenStore, store_url: str
):
    async with working(app) as runtime:
        await query(store_url, "update wakeful_process set state = 'dead'")  # others took it for dead
        assert (await rotated(await stores(store_url), strict=True)).strict
        assert not runtime.database.codec.binds
        runtime._lost(runtime.membership.process)
        assert runtime._rejoining is not None
        await runtime._rejoining
        assert runtime.database.codec.binds
        run = await ended(runtime, await app.emit("go", "afterwards"))
        assert (run["state"], run["output"]) == ("done", "afterwards")
        assert await stored_otherwise(store_url) == []


async def test_runs_go_on_beside_it(app: App, older, stores: OpenStore, store_url: str):
    store = await stores(store_url)
    async with working(app) as runtime:

        async def work() -> list[str]:
            receipts = [await app.emit("go", f"beside {number}") for number in range(20)]
            return [(await ended(runtime, receipt))["output"] for receipt in receipts]

        done, beside = await asyncio.gather(rotated(store), work())
        assert beside == [f"beside {number}" for number in range(20)]
        await runtime.sealing.run_once()
        assert (await rotated(store)).complete
    assert await outputs(app, older) == TEXTS * 2
    assert done.tampered == []


ROTATE_AND_DIE = """
import asyncio, os, signal, sys
from wakeful.clock import SystemClock
from wakeful.operations.pace import Pace
from wakeful.operations.rotation import rotate
from wakeful.stores.request import Actor
from wakeful.stores.keeping import Keeper
from wakeful.stores.opening import open_database
from wakeful.stores.store import DatabaseStore

async def main(url, commits):
    left = commits
    def probe(when, requests):
        nonlocal left
        if when == "after":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    store = DatabaseStore(open_database(url, SystemClock()), probe=probe)
    await store.open(migrate=False)
    await rotate(Keeper(store), store.database.codec, Actor("ada", "code"), pace=Pace(), strict=True)
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_killed_at_any_commit_it_loses_nothing_and_goes_on(
    app: App, older, stores: OpenStore, store_url: str, tmp_path: Path, use
):
    script = tmp_path / "rotate.py"
    script.write_text(ROTATE_AND_DIE)
    killed = 0
    for turn in range(40):
        child = await asyncio.create_subprocess_exec(sys.executable, script, store_url, "0")
        code = await child.wait()
        killed += code == -signal.SIGKILL
        assert code in {0, -signal.SIGKILL}
        if turn == 2:
            assert await outputs(app, older) == TEXTS * 2
        if code == 0:
            break
    assert killed > 3
    use(KEY, strict=True)
    assert await stored_otherwise(store_url) == []
    assert await outputs(app, older) == TEXTS * 2
    assert await count(store_url, "wakeful_blob") >= 4


async def test_what_was_tampered_with_is_not_sealed_anew(app: App, older, stores: OpenStore, store_url: str, use):
    """Else whoever changed a row would only have to wait for the next rotation."""
    await rotated(await stores(store_url), strict=True)
    await query(store_url, "update wakeful_run set output = '\"forged\"' where id = $1", older[0])
    use(NEW, KEY)
    done = await rotated(await stores(store_url))
    assert not done.complete
    assert [(one.table, one.column) for one in done.tampered] == [("wakeful_run", "output")]
    assert await query(store_url, "select output from wakeful_run where id = $1", older[0]) == [('"forged"',)]


async def test_what_it_finds_opens_an_alarm_of_the_app_that_has_it(
    app: App, older, stores: OpenStore, store_url: str, use
):
    store = await stores(store_url)
    await rotated(store, strict=True)
    await query(store_url, "update wakeful_run set output = '\"forged\"'")
    await query(store_url, "update wakeful_step set result = '\"forged\"'")
    await store.do(RecordOperation("ada", "keys rotate", detail="mine"))
    await query(store_url, "update wakeful_operation set detail = 'forged'")  # of no app
    use(NEW, KEY)  # the first pass changes something, so that there is a second one
    done = await rotated(await stores(store_url))
    assert not done.complete
    async with working(app) as runtime:
        alarms = {one["key"]: one for one in (await runtime.reader.alarms())["alarms"]}
        places = ("wakeful_operation.detail", "wakeful_run.output", "wakeful_step.result")
        assert sorted(alarms) == [f"tampering/app/{place}" for place in places]
        assert {one["count"] for one in alarms.values()} == {1}
        assert "tampered with: wakeful_run.output of id" in alarms["tampering/app/wakeful_run.output"]["text"]


async def test_a_strict_store_stays_strict_under_a_new_key(app: App, older, stores: OpenStore, store_url: str, use):
    await rotated(await stores(store_url), strict=True)
    use(NEW, KEY)
    assert (await rotated(await stores(store_url))).strict
    use(NEW, strict=True)
    assert await outputs(app, older) == TEXTS * 2


async def test_no_process_without_a_key_works_on_a_strict_store(
    app: App, older, stores: OpenStore, store_url: str, use
):
    await rotated(await stores(store_url), strict=True)
    use()
    with pytest.raises(EncryptionKeyMissing, match="WAKEFUL_ENCRYPTION_KEYS"):
        await stores(store_url)
    use(strict=True)
    with pytest.raises((ConfigError, EncryptionKeyMissing)):
        await stores(store_url)


async def test_a_mark_that_was_removed_is_missed_where_it_is_demanded(
    app: App, older, stores: OpenStore, store_url: str, use
):
    await rotated(await stores(store_url), strict=True)
    use(KEY, strict=True)
    await stores(store_url)
    await query(store_url, "delete from wakeful_cipher where id like 'strict:%'")
    with pytest.raises(ConfigError, match=r"WAKEFUL_ENCRYPTION_STRICT demands .* keys rotate --strict"):
        await stores(store_url)
    await query(store_url, "delete from wakeful_cipher")
    with pytest.raises(ConfigError, match="WAKEFUL_ENCRYPTION_STRICT"):
        await stores(store_url)


async def test_a_mark_that_nobody_with_a_key_made_is_refused(older, stores: OpenStore, store_url: str):
    await query(store_url, "insert into wakeful_cipher (id, used_since) values ($1, 1)", f"{STRICT}forged")
    with pytest.raises(PayloadTampered, match="the mark"):
        await stores(store_url)


async def test_a_new_store_is_strict_from_the_start_where_that_is_demanded(stores: OpenStore, store_url: str, use):
    use(KEY, strict=True)
    codec = (await stores(store_url)).database.codec
    assert (codec.binds, codec.strict) == (True, True)
    use(KEY)
    assert (await stores(store_url)).database.codec.strict


async def test_a_migration_seals_its_author_as_the_store_demands(stores: OpenStore, store_url: str, use, clock):
    """`wakeful migrate` does not open the store as a worker does: it takes the marks from the store itself."""
    use(KEY, strict=True)
    await stores(store_url)
    use(KEY)
    with knowing(later(9001, "alter table wakeful_run add column later text;", "first")):
        await migrate(store_url, clock)
        store = await stores(store_url)
        ((detail,),) = await query(store_url, "select detail from wakeful_operation where verb = 'migrate'")
        assert ".v:" in detail, "bound to its place"
        await rotated(store)  # PayloadTampered, where a row is not bound to its place


async def test_a_migration_without_a_key_of_the_store_changes_nothing(stores: OpenStore, store_url: str, use, clock):
    use(KEY)
    await stores(store_url)
    use()
    with knowing(later(9001, "alter table wakeful_run add column later text;", "first")):
        with pytest.raises(EncryptionKeyMissing):
            await migrate(store_url, clock)
        assert await query(store_url, "select number from wakeful_migration where number > 9000") == []


async def migrate(url: str, clock: VirtualClock) -> None:
    database = open_database(url, clock)
    try:
        if url.startswith("sqlite"):
            await database.open(migrate=False)
        await database.migrate(by=Actor("eve", "cli"))
    finally:
        await database.close()
