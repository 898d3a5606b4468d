"""Conditions over the content of events: an answer with a reason, or ConfigError when they are compiled. Nothing hangs,
nor takes a second: the budget of an evaluation is some hundredths of one.

A file holds an expression, an empty line, and the data of an event as JSON. What takes long is large, and mutations alone are not: so
the texts of the data are grown, too, until an event of this size is the largest that is taken.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from support.fuzzing import Hung, bounded, fuzzed, replayed
from wakeful import cel_budget
from wakeful.cel import compile_condition, compile_expression
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.http.body import BODY_LIMIT
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.model import Event

TARGET = "cel"
WORDS = "&& || ! == != < >= in + - * / % ? : true null has( size( .matches( .replace( .split( .join( .map( .filter( .all( .exists( "
WORDS += "data data. data.a event event.time event.data timestamp( duration( string( int( double( bytes( dyn( type( b'' r'' '' [] {} . [0] "
WORDS += ".lowerAscii() .charAt( .indexOf( .format( .substring( .startsWith( 9223372036854775807 1u 1.5e308 `a-b`"
ALARM = 1.0  # seconds of CPU time
GROWN = 8  # of so many inputs one is tried with large texts, too: that takes far longer than the others
TOKENS = [word.encode() for word in WORDS.split()]


def examine(content: bytes, *, grown: bool) -> None:
    expression, _, text = content.decode("utf-8", "replace").partition("\n\n")
    try:
        data = read_json(text.encode(), depth=DEPTH_LIMIT, inside=("data",)) if text.strip() else None
    except InvalidEvent:
        data = {"a": text}
    evaluate(content, expression, data)
    if grown:
        evaluate(content, expression, grow(data, [BODY_LIMIT]))


def grow(data: Any, room: list[int]) -> Any:
    """The same with large texts: each takes half of the room that is left, and ends as it did, so that a search in one for another
    finds nothing for long.
    """
    if isinstance(data, dict):
        return {name: grow(value, room) for name, value in data.items()}
    if isinstance(data, list):
        return [grow(value, room) for value in data]
    if not isinstance(data, str) or not data:
        return data
    room[0] //= 2
    often = (room[0] - 1) // len(data[:-1] or data)
    return (data[:-1] or data) * often + data[-1]


def evaluate(content: bytes, expression: str, data: Any, alarm: float = ALARM) -> None:
    event = Event("/shop", "1", "order.created", data, time=datetime(2026, 1, 1, tzinfo=UTC), extensions={"a": "b"})
    with bounded(content, TARGET, alarm):
        try:
            condition = compile_condition(expression, where="here")
        except ConfigError as error:
            assert "\n" not in str(error)  # noqa: PT017 many are no error at all
            str(error).encode()
        else:
            match = condition.matches(event)
            assert match.reason.encode()
        try:
            compiled = compile_expression(expression, where="here")
        except ConfigError:
            return
        try:
            compiled.value(event)
        except ValueError as error:
            str(error).encode()


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content, grown=True)


@fuzzed(TARGET, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content, grown=zlib.crc32(content) % GROWN == 0)


def test_two_large_texts_would_be_noticed_if_they_were_not_in_the_budget(monkeypatch: pytest.MonkeyPatch):
    size = BODY_LIMIT // 2
    data = grow({"a": "aaaa", "b": "aab"}, [size])
    assert size * 0.7 < len(data["a"] + data["b"]) < size
    evaluate(b"", "data.a.contains(data.b)", data)
    monkeypatch.setattr(cel_budget, "BUDGET", 10**15)
    with pytest.raises(Hung):  # on a fast machine, too
        evaluate(b"", "data.a.contains(data.b)", data, alarm=ALARM / 10)
