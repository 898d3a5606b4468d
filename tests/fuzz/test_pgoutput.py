"""Messages of logical replication: read, or Garbled."""

from __future__ import annotations

from pydantic_core import to_json

from support.fuzzing import bounded, fuzzed, replayed, seeds
from wakeful.connect.postgres.pgoutput import Decoder, Garbled, PgRelation, PgRow

TARGET = "pgoutput"
SEEDS = seeds(TARGET)
TABLES = [one for one in SEEDS if one[:1] == b"R"]
ROWS = [one for one in SEEDS if one[:1] in (b"I", b"U", b"D", b"T")]


def decoder() -> Decoder:
    known = Decoder({16384: ("id",)})
    for one in TABLES:
        known.decode(one)
    return known


def read(known: Decoder, content: bytes) -> object:
    try:
        said = known.decode(content)
    except Garbled as error:
        assert "\n" not in str(error)  # noqa: PT017 many are no error at all
        str(error).encode()
        return None
    if isinstance(said, PgRow):
        to_json([said.new, said.old, said.changed])  # what is told of a row becomes an event
    return said


def examine(content: bytes) -> None:
    with bounded(content, TARGET):
        known = decoder()
        if isinstance(read(known, content), PgRelation):  # the rows that follow are read by it
            for row in ROWS:
                read(known, row)


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content)


@fuzzed(TARGET)
def test_mutations(content: bytes):
    examine(content)
