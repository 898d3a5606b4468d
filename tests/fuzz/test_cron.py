"""Crontab lines: a schedule whose instants go forward and are found again backwards, or ConfigError."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.fuzzing import bounded, fuzzed, replayed
from wakeful import ConfigError, cron
from wakeful.clock import from_datetime

TARGET = "cron"
NOW = from_datetime(datetime(2026, 3, 28, 23, 30, tzinfo=UTC))
ZONES = ("UTC", "Europe/London", "Australia/Lord_Howe", "America/Sao_Paulo")
TOKENS = [
    b"*",
    b"*/",
    b"L",
    b"LW",
    b"#5",
    b"5L",
    b"29",
    b"31",
    b"FEB",
    b"mon",
    b"-",
    b",",
    b"@daily",
    b"59",
    b"7",
    b"?",
]


def examine(content: bytes) -> None:
    expression = content.decode("utf-8", "surrogateescape")
    with bounded(content, TARGET):
        for zone in ZONES:
            try:
                rule = cron(expression, tz=zone).rule
            except ConfigError as error:
                str(error).encode()
                return
            instant = rule.next(NOW)
            assert instant is None or instant > NOW
            if instant is not None:
                assert (rule.previous(instant) or 0) <= NOW
                after = rule.next(instant)
                assert after is None or (after > instant and rule.previous(after) == instant)


@replayed(TARGET)
def test_the_corpus(content: bytes):
    examine(content)


@fuzzed(TARGET, tokens=TOKENS)
def test_mutations(content: bytes):
    examine(content)


def test_the_corpus_holds_lines_that_are_read():
    assert cron("0 8 * * 1-5").rule.next(NOW)
    with pytest.raises(ConfigError):
        cron("0 8 * *")
