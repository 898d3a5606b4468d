"""Text from outside does not reach a terminal or a log with characters that a terminal obeys, or that hide others."""

from __future__ import annotations

import io
import json

import pytest

from wakeful.cli import explain
from wakeful.errors import NotFound
from wakeful.escaping import escaped, escaped_json
from wakeful.resources.words import whole_json
from wakeful.shell.terminal import announce, say
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.logs import configure_logs

EVIL = "ada\x1b[2J\x9b31m\u202egnp.exe\u200b"


def is_clean(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in text)


def test_a_text():
    assert escaped(EVIL) == "ada\\x1b[2J\\x9b31m\\u202egnp.exe\\u200b"
    assert escaped("two\nlines, plaîn ✓") == "two\nlines, plaîn ✓"


@pytest.mark.parametrize("value", [EVIL, [EVIL, {"\x9b": "\U000e0001"}], "plaîn ✓", ""])
def test_json_keeps_its_value(value: object):
    text = escaped_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert is_clean(text)
    assert json.loads(text) == value


def test_a_refused_command_and_asides(capsys: pytest.CaptureFixture[str]):
    explain(NotFound(f"{EVIL} answered it"))
    say(EVIL)
    announce(EVIL)
    said = capsys.readouterr()
    assert is_clean(said.out + said.err)
    assert "wakeful: ada\\x1b[2J" in said.err


def test_the_answer_of_a_command_in_json():
    assert is_clean(shown := whole_json({"by": EVIL}))
    assert json.loads(shown) == {"by": EVIL}


@pytest.mark.parametrize("as_json", [True, False])
def test_a_log_and_its_tracebacks(as_json: bool):
    out = io.StringIO()
    configure_logs(as_json, stream=out)
    try:
        try:
            raise ValueError(EVIL)
        except ValueError:
            logger_of().exception("an error", said=EVIL, several=[EVIL])
    finally:
        configure_logs()
    assert "an error" in out.getvalue()
    assert is_clean(out.getvalue())
