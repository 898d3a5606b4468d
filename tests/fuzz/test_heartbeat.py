"""HEARTBEAT.md: the checks of a file, or ConfigError with a line that the file has."""

from __future__ import annotations

import re

from support.fuzzing import bounded, fuzzed, replayed
from wakeful.errors import ConfigError
from wakeful.triggers.heartbeat import Usual, read_heartbeat

TARGET = "heartbeat"
USUAL = Usual(probes=["unread_mail"], commands=False)
LINES = [
    "# ",
    "## A",
    "## ",
    "### B",
    "---",
    "```",
    "~~~",
    "<!--",
    "-->",
    "every: 2h",
    "every: 0s",
    "active: 22:00-06:00",
]
LINES += ["days: mon-fri", "days: x", "probe: unread_mail", "probe: $ rm", "timeout: 9999999d", "session: a", "x: y"]
TOKENS = [f"\n{line}\n".encode() for line in LINES] + [b"\r", b"\t", b"#" * 7, b"    ", b"\x0c", "\u0085".encode()]


def examine(content: bytes) -> None:
    with bounded(content, TARGET):
        try:
            file = read_heartbeat(content, file="HEARTBEAT.md", usual=USUAL)
        except ConfigError as error:
            text = str(error)
            text.encode()
            place = re.match(r"HEARTBEAT\.md(?::(\d+))?:", text)
            assert place, text
            lines = len(re.split(rb"\r\n|\r|\n", content))
            assert place[1] is None or 1 <= int(place[1]) <= lines, (text, lines)
            return
        names = [section.name for section in file.sections]
        assert len(set(names)) == len(names)
        for section in file.sections:
            assert section.name.encode()
            assert section.command is None
            assert section.spacing > 0
            assert section.schedule.rule.next(0) is not None


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content)


@fuzzed(TARGET, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content)
