"""What is said about mistakes, and `--help`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from golden.conftest import Compare
from golden.mistakes import MISTAKES
from golden.recording import as_json, as_written, call, told
from wakeful.cli import COMMANDS

# argparse writes help and some mistakes in other words in other versions of Python.
RECORDED_WITH = (3, 11)
HELP_IS_AS_RECORDED = pytest.mark.skipif(sys.version_info[:2] != RECORDED_WITH, reason="argparse of another version")


@HELP_IS_AS_RECORDED
@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes(command: str, copy: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    said = [f"$ wakeful {as_written(words)}\n{told(call(words))}" for words in MISTAKES[command]]
    compare(f"mistakes/{command}.txt", "\n".join(said))


@HELP_IS_AS_RECORDED
@pytest.mark.parametrize("command", ["overview", *COMMANDS])
def test_help(command: str, here: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    compare(f"help/{command}.txt", told(call(["--help"] if command == "overview" else [command, "--help"])))


@pytest.mark.parametrize("form", ["txt", "json"])
def test_doctor(form: str, copy: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on the machine is left out: versions, sizes, modes and how long it takes."""
    monkeypatch.setenv("COLUMNS", "140")
    copy.chmod(0o700)
    for path in copy.iterdir():
        path.chmod(0o600 if path.is_file() else 0o700)
    said = call(["doctor", "--json"] if form == "json" else ["doctor"])
    text = as_json(said) if form == "json" else told(said)
    for pattern, shown in (
        (r"[\d.]+ (on Python) [\w.]+, \w+ \w+", r"V \1 V, OS"),
        (r"[\d.]+ \(apsw [\d.]+\)", "V (apsw V)"),
        (r"[\d.,]+ [kKMGT]?B(?= free|, readable)", "N B"),
        (r"(?<=answers in )[\d.]+ .s", "N ms"),
        (r"up to date \(\d+\)", "up to date (N)"),
    ):
        text = re.sub(pattern, shown, text)
    compare(f"doctor/store.{form}", text)
