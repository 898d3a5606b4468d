"""A ciphertext opens in its own place and nowhere else: shown for every column that is encrypted, as the code lists them."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest

from support.stores import Onlooker, OpenStore, query
from wakeful.stores.binding import BINDINGS, SEPARATOR, named_by
from wakeful.stores.keyring import KeyRing
from wakeful.stores.migrations import migrations
from wakeful.stores.payloads import BLOB, VALUES, Codec
from wakeful.stores.places import PLACES, Place
from wakeful.stores.queries import written_queries
from wakeful.stores.store import DatabaseStore
from wakeful.stores.tampered import Tampered

pytest.importorskip("cryptography")

KEY = urlsafe_b64encode(bytes([7]) * 32).decode()
SEALED_COLUMNS = [
    pytest.param(place, column, id=f"{place.noun}.{column}")
    for place in PLACES
    for column in place.columns
    if column != "content"  # a digest under the key, and no ciphertext
]
GENUINE = '{"to": "genuine"}'
FORGED = '{"to": "forged"}'
_CHECKED = re.compile(r"(\w+) text[\w ]* check \(\w+ in \('(\w+)'")


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", KEY)
    monkeypatch.setenv("WAKEFUL_ENCRYPTION_STRICT", "1")


class Rows:
    """Three rows of a table: two of one app, and one of another."""

    def __init__(self, store: DatabaseStore, onlooker: Onlooker, place: Place) -> None:
        self.codec: Codec = store.database.codec
        self._store, self._onlooker, self._place = store, onlooker, place

    async def make(self) -> None:
        for number in (1, 2, 3):
            if self._place.noun == "quarantine":  # its rows go by the keys of their events
                await self._insert("event", number)
            await self._insert(self._place.noun, number)

    async def _insert(self, noun: str, number: int) -> None:
        row = await self._row(noun, number)
        values = ", ".join(f"${place}" for place in range(1, len(row) + 1))
        numbers = "overriding system value" if self._store.dialect == "postgres" else ""
        sql = f"insert into wakeful_{noun} ({', '.join(row)}) {numbers} values ({values})"
        await self._onlooker.query(sql, *row.values())

    async def _row(self, noun: str, number: int) -> dict[str, Any]:
        """A value for every column: a number, a text, or the first word that a check allows."""
        row: dict[str, Any] = {}
        for name, kind in await self._columns(noun):
            if kind in {"xid8", "pg_snapshot"}:
                continue  # the database's own
            words = dict(_CHECKED.findall(_table(noun)))
            row[name] = words.get(name, f"{name}-{number}") if kind == "text" else number
        if "app" in row and self._place.keys != ("app",):
            row["app"] = "other" if number == 3 else "app"
        if noun == "halt":  # of an agent or of an action, not of both
            row["action"] = ""
        return row

    async def _columns(self, noun: str) -> list[tuple[str, str]]:
        if self._store.dialect == "sqlite":
            found = await self._onlooker.query(f"select name, type from pragma_table_info('wakeful_{noun}')")
            return [(name, kind.lower()) for name, kind in found]
        return [
            (name, kind)
            for name, kind in await self._onlooker.query(
                f"select column_name, data_type from information_schema.columns where table_name = 'wakeful_{noun}'"
            )
        ]

    async def stored(self) -> list[dict[str, Any]]:
        """Each row: its keys, the parts of its names, and what stands in its columns."""
        query = written_queries("sqlite")[f"payloads_of_{self._place.noun}"]
        sql = query.body.replace(":after", "0").replace(":upto", "99")
        width = len(self._place.keys)
        found = [
            {
                "keys": row[:width],
                "names": row[width].split(SEPARATOR),
                **dict(zip(self._place.columns, row[width + 1 :], strict=True)),
            }
            for row in await self._onlooker.query(sql)
        ]
        return sorted(found, key=lambda one: str(one["names"]))

    async def put(self, row: dict[str, Any], column: str, text: str) -> None:
        key = " and ".join(f"{name} = ${place}" for place, name in enumerate(self._place.keys, start=2))
        await self._onlooker.query(f"update {self._place.table} set {column} = $1 where {key}", text, *row["keys"])

    def seal(self, row: dict[str, Any], column: str, text: str, *, letter: int = 0) -> str:
        binding = BINDINGS[self._place.noun]
        name = binding.names[letter].letter
        return self.codec.seal(column, text, self._place.noun, named_by(binding, name, row["names"]) or "", name)

    async def read(self, column: str, row: int = 0) -> str:
        found = (await self.stored())[row]
        text = found[column]
        blobs = {}
        if text.startswith(BLOB):
            blobs = {row[0]: row[1] for row in await self._onlooker.query("select id, content from wakeful_blob")}
        return self.codec.read_at(self._place.noun, column, found["names"], text, blobs)


def _table(noun: str) -> str:
    """The last words by which migrations make a table."""
    script = "\n".join(migration.sql for migration in migrations("sqlite"))
    return re.findall(rf"create table wakeful_{noun} \((.*?)\n\)", script, re.DOTALL)[-1]


@pytest.fixture
async def rows(stores: OpenStore, store_url: str):
    onlooker = Onlooker(store_url)

    async def make(place: Place) -> Rows:
        made = Rows(await stores(store_url), onlooker, place)
        await made.make()
        return made

    yield make
    await onlooker.close()


def shifted(sealed: str, change: Callable[[str], str]) -> str:
    """A ciphertext with something changed in it; of an error, in the part that counts."""
    found = re.search(r"@sealed:[\w.]+:[\w=-]+", sealed)
    assert found is not None
    return sealed.replace(found[0], change(found[0]))


@pytest.mark.parametrize(("place", "column"), SEALED_COLUMNS)
async def test_a_column_takes_nothing_but_what_was_sealed_for_it(rows, place: Place, column: str):
    """Swapped between rows and apps, from another column, plain, cut, and under an older form: each of these was believed before."""
    made = await rows(place)
    first, second, other = await made.stored()
    genuine = made.seal(first, column, GENUINE)
    await made.put(first, column, genuine)
    assert await made.read(column) == GENUINE

    other_column = next(one for one in ("envelope", "note", "reason", "data") if one != column)
    attacks = {
        "of another row": made.seal(second, column, FORGED),
        "of another app": made.seal(other, column, FORGED),
        "of another column": made.seal(first, other_column, FORGED),
        "plain": FORGED,
        "plain words": "its process is fine",
        "cut": shifted(genuine, lambda text: text[:-8]),
        "cut to its mark": "@sealed:",
        "without its letter": shifted(genuine, lambda text: re.sub(r"\.\w:", ":", text, count=1)),
        "under another letter": shifted(genuine, lambda text: re.sub(r"\.\w:", ".z:", text, count=1)),
        "under a key that is not here": shifted(genuine, lambda text: re.sub(r":\w+\.", ":00000000.", text, count=1)),
        "of the older form": made.codec.seal(column, FORGED),
        "like an error": '{"@sealed": "forged"}',
    }
    for attack, text in attacks.items():
        await made.put(first, column, text)
        read = await made.read(column)
        assert isinstance(read, Tampered), attack
        assert "forged" not in read, attack
        assert (read.finding.table, read.finding.column) == (place.table, column)
        assert "forged" not in str(read.finding), attack

    await made.put(first, column, made.seal(first, column, '{"to": "older"}'))
    assert (
        await made.read(column) == '{"to": "older"}'
    )  # an older value of the same place: nothing tells it from the newest


@pytest.mark.parametrize(("place", "column"), [one for one in SEALED_COLUMNS if one.values[1] in VALUES])
async def test_a_column_takes_no_blob_of_another_row(rows, store_url: str, place: Place, column: str):
    made = await rows(place)
    first, second, _ = await made.stored()
    for identifier, row in (("own", first), ("others", second)):
        sql = "insert into wakeful_blob (id, content, created_at) values ($1, $2, 1)"
        await query(store_url, sql, identifier, made.seal(row, column, GENUINE))
    await query(store_url, "insert into wakeful_blob (id, content, created_at) values ($1, $2, 1)", "plain", FORGED)
    await made.put(first, column, f"{BLOB}own")
    assert await made.read(column) == GENUINE
    for wrong in ("others", "plain", "gone"):
        await made.put(first, column, f"{BLOB}{wrong}")
        assert isinstance(await made.read(column), Tampered), wrong


@pytest.mark.parametrize(
    "place", [place for place in PLACES if len(BINDINGS[place.noun].names) > 1], ids=lambda one: one.noun
)
async def test_a_name_of_several_rows_is_still_one_of_this_table_and_column(rows, place: Place):
    made = await rows(place)
    first, _, other = await made.stored()
    column = place.columns[0] if place.columns[0] != "content" else place.columns[1]
    for letter, name in enumerate(BINDINGS[place.noun].names):
        await made.put(first, column, made.seal(first, column, GENUINE, letter=letter))
        assert await made.read(column) == GENUINE
        if name.parts:
            await made.put(first, column, made.seal(other, column, FORGED, letter=letter))
            assert isinstance(await made.read(column), Tampered), name


def test_the_place_is_in_what_is_authenticated():
    ring = KeyRing([KEY])
    sealed = ring.seal("text", "run.output\x1f1", "s")
    assert ring.open(sealed, {"s": "run.output\x1f1"}.get) == "text"
