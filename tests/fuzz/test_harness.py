"""The fuzz itself: it stops what loops, keeps the input, and finds a fault that was planted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

from support import fuzzing
from support.fuzzing import CORPUS, Hung, bounded, corpus, headers_and_body, message, mutated, seeds


def test_an_input_that_loops_is_stopped_and_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fuzzing, "ALARM", 0.2)
    with pytest.raises(Hung, match="harness: over"), bounded(b"loop", "harness"):  # noqa: PT012
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: S112 what catches everything does not catch this
                continue
    assert Path(f"build/fuzz/harness-{os.getpid()}").read_bytes() == b"loop"


def test_a_planted_fault_is_found_from_a_seed_and_not_without_one():
    tries = settings(max_examples=500, database=None, derandomize=True, phases=[Phase.generate])

    def faulty(content: bytes) -> bool:  # a table whose name holds a byte that is no text
        return content.startswith(b"R") and b"public\0" in content and not content[5:25].isascii()

    assert faulty(find(mutated(seeds("pgoutput")), faulty, settings=tries))
    with pytest.raises(NoSuchExample):
        find(mutated([b""]), faulty, settings=tries)


def test_every_target_has_seeds():
    targets = {folder.name for folder in CORPUS.iterdir() if folder.is_dir()}
    tests = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert targets == tests - {"harness"}
    assert all(len(corpus(target)) >= 10 for target in targets)


def test_a_message_is_read_as_it_was_written():
    headers = {"content-type": "text/plain", "x-a": "é"}
    assert headers_and_body(message(headers, b"a\n\nb")) == (headers, b"a\n\nb")
