"""The parts that every recorded file rests on: the frozen moment, and what is replaced in a text."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

from golden.everything import EXPECTED, WORDS
from golden.freezing import frozen
from golden.recording import RECORDED, Normal
from golden.store import NOW
from wakeful.cli import COMMANDS
from wakeful.clock import SystemClock, to_datetime

KNOWN = "22290ae6d7fc693079e167a06b"


def test_the_time_stands_still_and_goes_on() -> None:
    before = time.time_ns() // 1000
    with frozen(NOW):
        assert SystemClock().now() == SystemClock().for_database() == time.time_ns() // 1000 == NOW
        assert dt.datetime.now(dt.UTC) == to_datetime(NOW)
        assert isinstance(to_datetime(NOW), dt.datetime)
    assert SystemClock().now() >= before
    assert SystemClock().for_database() is None
    assert dt.datetime.now(dt.UTC) > to_datetime(NOW)


def test_only_what_differs_is_replaced(tmp_path: Path) -> None:
    normal = Normal(tmp_path, known=f"'{KNOWN}'")
    assert normal(f"{tmp_path}/app.py of run {KNOWN}") == f"/srv/shop/app.py of run {KNOWN}"
    one, other = "a" * 25 + "1", "b" * 25 + "2"
    assert normal(f"{one} {other} {one} {one[:10]}1") == "‹id 1› ‹id 2› ‹id 1› aaaaaaaaaa1"
    assert normal("r-abcdef, 12345 items, 2026-03-05T12:14:02Z") == "‹id 1›, 12345 items, 2026-03-05T12:14:02Z"


def test_every_recorded_file_has_its_command() -> None:
    """A file that no test reads any more would look as if it were compared."""
    found = {str(path.relative_to(RECORDED)) for path in RECORDED.rglob("*") if path.is_file()}
    assert found == EXPECTED


def test_every_command_is_recorded() -> None:
    """But for those that stay until they are stopped, make something by chance, or measure: of these, mistakes and help."""
    stays = {"demo", "dev", "serve", "worker", "once", "watch", "bench", "token", "doctor", "completion"}
    assert set(COMMANDS) - {words[0] for words in WORDS} == stays
