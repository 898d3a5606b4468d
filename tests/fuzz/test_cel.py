"""Conditions over the content of events: an answer with a reason, or ConfigError when they are compiled. Nothing hangs.

A file holds an expression, an empty line, and the data of an event as JSON.
"""

from __future__ import annotations

from datetime import UTC, datetime

from support.fuzzing import bounded, fuzzed, replayed
from wakeful.cel import compile_condition, compile_expression
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.model import Event

TARGET = "cel"
WORDS = "&& || ! == != < >= in + - * / % ? : true null has( size( .matches( .replace( .split( .join( .map( .filter( .all( .exists( "
WORDS += "data data. data.a event event.time event.data timestamp( duration( string( int( double( bytes( dyn( type( b'' r'' '' [] {} . [0] "
WORDS += ".lowerAscii() .charAt( .indexOf( .format( .substring( .startsWith( 9223372036854775807 1u 1.5e308 `a-b`"
TOKENS = [word.encode() for word in WORDS.split()]


def examine(content: bytes) -> None:
    expression, _, text = content.decode("utf-8", "replace").partition("\n\n")
    try:
        data = read_json(text.encode(), depth=DEPTH_LIMIT, inside=("data",)) if text.strip() else None
    except InvalidEvent:
        data = {"a": text}
    event = Event("/shop", "1", "order.created", data, time=datetime(2026, 1, 1, tzinfo=UTC), extensions={"a": "b"})
    with bounded(content, TARGET):
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
    examine(content)


@fuzzed(TARGET, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content)
