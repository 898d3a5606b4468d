"""The author of a migration: one row of `wakeful_operation`, written by the transactions that change the schema.

A migration may take several transactions. The first one writes the row, each later one replaces it with a longer one. A process that
dies between two of them leaves a row that names exactly the migrations that are there.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from wakeful.stores.migrations import Migration
from wakeful.stores.payloads import Codec
from wakeful.stores.request import Actor
from wakeful.stores.sealing import Sealing
from wakeful.stores.transaction import Row

WAYS_SINCE = 20  # the migration that gave operations a way
CIPHERS_SINCE = 5  # the migration that made the table of keys

# Yields (query name, parameters), is sent the rows, and returns the author as it is after the commit.
Writing = Generator[tuple[str, Row], list[Any], "MigrationAuthor"]


@dataclass(frozen=True, slots=True)
class MigrationAuthor:
    """The operator who migrates, and the row that records it. A new value is kept only after its transaction has committed."""

    by: Actor
    applied: tuple[str, ...] = ()
    seq: int | None = None

    def write(self, now: int | None, migration: Migration, codec: Codec, *, finished: bool) -> Writing:
        """Write the row inside the transaction of a migration, after its own statements: the first migration makes the table.

        A migration whose indexes are still to be built is noted as begun. The row is sealed as the store demands: EncryptionKeyMissing
        if this process lacks a key, and then nothing of the migration is applied.
        """
        if migration.number >= CIPHERS_SINCE:
            sealing = Sealing.of([row[0] for row in (yield "list_ciphers", ())])
            sealing.apply(codec)
            codec.binds = codec.binds or (codec.ring is not None and sealing.is_new)
        if self.seq is not None:
            yield "remove_operation", (self.seq,)
        applied = (*self.applied, migration.label)
        detail = ", ".join(applied) + ("" if finished else " (begun)")
        rows = yield "begin_operation", (now, None, self.by.name, "migrate", None, detail)
        seq = rows[0][0]
        if migration.number >= WAYS_SINCE:
            yield "note_way", (self.by.way, seq)
        return replace(self, applied=applied if finished else self.applied, seq=seq)
