from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from wakeful.errors import ConfigError
from wakeful.model import trace_id
from wakeful.telemetry.logs import configure_logs, read_level

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def stream():
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield io.StringIO()
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def test_json_lines_have_the_context(stream):
    configure_logs(True, stream=stream)
    structlog.contextvars.bind_contextvars(run="r1", agent="a1", trace=TRACEPARENT)
    structlog.get_logger("wakeful").bind(part="x").info("hello", message="mine", thing=object)
    logging.getLogger("library").warning("from %s", "outside")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert list(first)[:3] == ["time", "level", "message"]
    assert first["message"] == "hello"
    assert first["message_"] == "mine"
    for line in (first, second):
        assert (line["run"], line["agent"], line["trace_id"]) == ("r1", "a1", TRACE)
        assert "trace" not in line
    assert second["message"] == "from outside"
    assert second["logger"] == "library"


def test_an_exception_in_json_is_one_line(stream):
    configure_logs(True, stream=stream)
    try:
        raise RuntimeError("no")
    except RuntimeError:
        structlog.get_logger().exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "RuntimeError: no" in json.loads(line)["exception"]


def test_json_by_default_where_nobody_looks(stream):
    configure_logs(stream=stream)
    structlog.get_logger().info("hello")
    assert json.loads(stream.getvalue())["message"] == "hello"


def test_words_for_people_cannot_steer_their_terminal(stream):
    configure_logs(False, stream=stream)
    structlog.contextvars.bind_contextvars(run="r" * 26, trace=None)
    structlog.get_logger().info("a\x1b[31mb", value="c\x07d")
    shown = stream.getvalue()
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "a\\x1b[31mb" in shown
    assert "run=rrrrrrrrrr value=" in shown
    assert "trace" not in shown


def test_levels(stream):
    configure_logs(True, level="warning", stream=stream)
    structlog.get_logger().info("no")
    structlog.get_logger().warning("yes")
    logging.getLogger("library").info("no")
    assert stream.getvalue().count("\n") == 1
    assert read_level(None, {}) == logging.INFO
    assert read_level(None, {"WAKEFUL_LOG": "DEBUG"}) == logging.DEBUG
    with pytest.raises(ConfigError, match=r'WAKEFUL_LOG: no level "inof"\. Did you mean "info"'):
        read_level(None, {"WAKEFUL_LOG": "inof"})


def test_libraries_are_quiet_below_a_warning_unless_debugging(stream):
    configure_logs(True, stream=stream)
    logging.getLogger("library").info("chatter")
    assert stream.getvalue() == ""
    configure_logs(True, level="debug", stream=stream)
    logging.getLogger("library").info("chatter")
    assert "chatter" in stream.getvalue()


def test_a_line_that_cannot_be_written_stops_nothing(stream):
    configure_logs(True, stream=stream)
    stream.close()
    structlog.get_logger().info("lost")
    logging.getLogger("library").warning("lost too")


def test_trace_ids():
    assert trace_id(TRACEPARENT) == TRACE
    assert trace_id(None) is None
    assert trace_id("something else") == "something else"
