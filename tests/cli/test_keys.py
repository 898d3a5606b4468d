"""`wakeful keys`: made, listed, rotated; and what is said when one is missing."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from pathlib import Path

import apsw
import pytest

from support.apps import NewApp, go, working
from support.stores import query
from wakeful import Run, on
from wakeful.clock import SystemClock
from wakeful.errors import EncryptionKeyMissing
from wakeful.operations.pace import Pace
from wakeful.operations.rotation import rotate
from wakeful.stores.keeping import Keeper
from wakeful.stores.keyring import KeyRing
from wakeful.stores.opening import open_database
from wakeful.stores.payloads import LARGE
from wakeful.stores.request import Actor
from wakeful.stores.store import DatabaseStore
from wakeful.stores.verbs.state import ChangeState

pytest.importorskip("cryptography")

OLD, NEW = (urlsafe_b64encode(bytes([number]) * 32).decode() for number in (1, 2))
OLD_ID, NEW_ID = (KeyRing([key]).first.id for key in (OLD, NEW))
SECRET = "the-moon-is-made-of-cheese"


def use(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", ",".join(keys))


def test_new_prints_a_key_and_nothing_else(wakeful):
    first, second = wakeful("keys", "new").out, wakeful("keys", "new", "--json").json["key"]
    assert first.strip() != second
    assert KeyRing([first, second]).ids


def test_a_missing_key_is_named_by_every_command_that_reads(wakeful, tickets: Path, monkeypatch):
    use(monkeypatch, OLD)
    wakeful("emit", "app.py", "ticket.created", "--data", f'{{"title": "{SECRET}"}}', "--json")
    use(monkeypatch, NEW)
    for words in (("runs",), ("events",), ("once", "app.py"), ("emit", "app.py", "ticket.created")):
        said = wakeful(*words, code=1).err
        assert OLD_ID in said
        assert "WAKEFUL_ENCRYPTION_KEYS" in said
    assert f"{OLD_ID}  MISSING" in wakeful("keys", code=1).out


def test_rotate_leaves_only_the_first_key(wakeful, tickets: Path, monkeypatch):
    wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "plain"}')  # before there was a key
    use(monkeypatch, OLD)
    wakeful("emit", "app.py", "ticket.created", "--data", f'{{"title": "{SECRET}"}}')
    wakeful("emit", "app.py", "ticket.broken")
    wakeful("once", "app.py", code=None)
    use(monkeypatch, NEW, OLD)
    answer = wakeful("keys", "rotate", "--json").json
    assert answer["complete"] is True
    assert answer["payloads"] > 3
    assert answer["no_longer_needed"] == [OLD_ID]
    use(monkeypatch, NEW)
    assert wakeful("keys", "--json").json["keys"] == [{"id": NEW_ID, "here": True, "used": True, "first": True}]
    for run in wakeful("runs", "--json").json["runs"]:
        wakeful("trace", run["id"])
    assert wakeful("keys", "rotate", "--json").json["payloads"] == 0
    apsw.Connection(str(tickets / "wakeful.db")).execute("vacuum")
    stored = (tickets / "wakeful.db").read_bytes()
    assert b'"plain"' not in stored
    assert OLD_ID.encode() not in stored


def test_a_bad_key_is_named_by_the_setting_that_it_comes_from(wakeful, tickets: Path, monkeypatch):
    use(monkeypatch, NEW, "hunter2")
    said = wakeful("keys", code=1).err
    assert "WAKEFUL_ENCRYPTION_KEYS: key 2 of 2 is not" in said
    assert "hunter2" not in said


def test_rotate_without_a_key_says_what_to_do(wakeful, tickets: Path):
    wakeful("emit", "app.py", "ticket.created", "--data", '{"title": "plain"}')
    assert "wakeful keys new" in wakeful("keys", "rotate", code=1).err
    assert "not encrypted" in wakeful("keys").out


def test_a_word_that_is_none_gets_a_guess(wakeful):
    assert 'Did you mean "rotate"' in wakeful("keys", "rotat", code=2).err


async def test_everything_is_encrypted_anew_while_a_worker_works(new_app: NewApp, store_url: str, monkeypatch):
    use(monkeypatch, OLD)
    app = new_app()

    @app.agent(on("go"))
    async def handle(run: Run) -> str:
        text: str = run.event.data
        return text

    large = SECRET * (LARGE // len(SECRET) + 1)
    async with working(app) as runtime:
        first = await go(runtime, SECRET)
        second = await go(runtime, large)
        await runtime.store.do(ChangeState("app", "handle", "", f'"{SECRET}"', by=Actor("ada", "code")))
    use(monkeypatch, NEW, OLD)
    store = DatabaseStore(open_database(store_url, SystemClock()))
    await store.open(migrate=False)
    async with working(app) as runtime:
        keeper = Keeper(store)
        done, third = await asyncio.gather(
            rotate(keeper, store.database.codec, Actor("ada", "code"), pace=Pace()), go(runtime, SECRET)
        )
        assert done.complete
        assert (await rotate(keeper, store.database.codec, Actor("ada", "code"), pace=Pace())).payloads == 0
    await store.close()
    use(monkeypatch, NEW)
    async with working(app) as runtime:
        outputs = [((await runtime.reader.run(run["id"])) or {})["output"] for run in (first, second, third)]
        assert outputs == [SECRET, large, SECRET]
        assert (await runtime.reader.states())[0]["value"] == SECRET
        assert await query(store_url, "select id from wakeful_cipher order by id") == [(NEW_ID,), (f"{NEW_ID}.bound",)]
    use(monkeypatch, OLD)
    with pytest.raises(EncryptionKeyMissing, match=NEW_ID):
        async with working(app):
            pass


def test_doctor_names_a_key_that_is_missing(wakeful, tickets: Path, monkeypatch):
    use(monkeypatch, OLD)
    wakeful("emit", "app.py", "ticket.created")
    monkeypatch.delenv("WAKEFUL_ENCRYPTION_KEYS")
    shown = wakeful("doctor", code=1).out
    assert "✗ encryption" in shown
    assert "✓ file" in shown


def test_rotate_strict_says_so_and_plain_text_is_refused_from_then_on(wakeful, tickets: Path, monkeypatch):
    wakeful(
        "emit", "app.py", "ticket.created", "--data", '{"title": "plain"}', "--id", "first"
    )  # before there was a key
    use(monkeypatch, OLD)
    assert "are not bound" not in wakeful("keys").out
    assert "the store is strict" in wakeful("keys", "rotate", "--strict").out
    assert wakeful("keys", "--json").json["strict"] is True
    assert "strict: plain text" in wakeful("keys").out
    database = apsw.Connection(str(tickets / "wakeful.db"))
    forged = '{"specversion":"1.0","id":"first","source":"/x","type":"ticket.created","data":{"title":"forged"}}'
    database.execute("update wakeful_event set envelope = ?", (forged,))
    wakeful("once", "app.py", code=None)
    (run,) = wakeful("runs", "--json").json["runs"]
    assert run["state"] == "held"
    told = wakeful("why", run["id"]).out
    assert "tampered with: wakeful_event.envelope" in told
    assert "forged" not in told
    answer = wakeful("keys", "rotate", "--json", code=1).json
    assert "wakeful_event.envelope" in answer["tampered"][0]
    assert "1 payload was left unchanged" in wakeful("keys", "rotate", code=1).err
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")
    wakeful("runs")
    database.execute("delete from wakeful_cipher where id like 'strict%'")
    assert "WAKEFUL_ENCRYPTION_STRICT demands" in wakeful("once", "app.py", code=1).err


def test_strict_belongs_to_rotate(wakeful, tickets: Path):
    assert "belongs to `wakeful keys rotate`" in wakeful("keys", "list", "--strict", code=2).err


def test_a_copy_of_a_strict_store_and_its_archive_are_read_as_ever(wakeful, tickets: Path, monkeypatch):
    use(monkeypatch, OLD)
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")
    large = SECRET * (LARGE // len(SECRET) + 1)
    for title in (SECRET, large):
        wakeful("emit", "app.py", "ticket.created", "--data", f'{{"title": "{title}"}}')
    wakeful("once", "app.py")
    apsw.Connection(str(tickets / "wakeful.db")).execute("vacuum into 'restored.db'")
    assert SECRET not in (tickets / "restored.db").read_bytes().decode(errors="replace")
    copy = f"sqlite:///{tickets / 'restored.db'}"
    runs = wakeful("runs", "--json", "--store", copy).json["runs"]
    assert [run["state"] for run in runs] == ["done", "done"]
    assert all(SECRET in wakeful("trace", run["id"], "--json", "--store", copy).out for run in runs)
    wakeful("archive", "runs.jsonl", "--store", copy)
    assert (tickets / "runs.jsonl").read_text().count(large) >= 1
