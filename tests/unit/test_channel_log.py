"""log(): a line for each message."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO

import pytest
import structlog

from support.messages import NOWHERE, message
from wakeful.channels import log
from wakeful.errors import ConfigError
from wakeful.telemetry.logs import configure_logs


async def test_each_message_is_a_line_with_everything_in_it():
    channel = log()
    await channel.open(NOWHERE)
    with structlog.testing.capture_logs() as lines:
        await channel.deliver([message("a", {"n": 1}, subject="order 7"), message("b", "text")])
    await channel.close()
    assert lines[0] == {
        "event": "message",
        "log_level": "info",
        "channel": "ops",
        "subject": "order 7",
        "body": {"n": 1},
        "id": "a",
        "app": "billing",
        "agent": "remind",
        "run": "abc123",
        "committed_at": "2026-01-01T00:00:00.123456Z",
    }
    assert [line["id"] for line in lines] == ["a", "b"]


async def test_as_json_it_is_one_line_whatever_is_in_it():
    out = StringIO()
    configure_logs(json=True, level="info", stream=out)
    try:
        await log(level="warning").deliver([message(body="two\nlines \x1b[31m", subject="a\nb")])
        await log(level="debug").deliver([message(body="below what is shown")])
    finally:
        structlog.reset_defaults()
    (line,) = out.getvalue().splitlines()
    shown = json.loads(line)
    assert (shown["level"], shown["message"], shown["body"]) == ("warning", "message", "two\nlines \x1b[31m")


def test_what_it_says_of_itself():
    assert log(level="error").describe() == {"kind": "log", "level": "error"}
    assert repr(log()) == 'log(level="info")'
    assert log().most == 200
    with pytest.raises(ConfigError, match=r'no level "warn"\. Did you mean "warning"'):
        log(level="warn")  # type: ignore[arg-type]


def test_channels_are_declared_without_loading_a_client():
    code = (
        "import sys; from wakeful.channels import event, file, github, http, jira, log, pagerduty, teams; "
        "github('a/b', 's'), jira('https://example.com/', 'OPS', 'u', 's'), http('https://example.com/', secret='s'), pagerduty('s'), teams('https://example.com/'), file('x'), log(), event('t'); "
        "print(sorted({'httpx2', 'httpcore2', 'anyio', 'structlog'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
