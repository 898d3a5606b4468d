"""Reading the files of a policy: only as much as a policy may have."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from wakeful.errors import ConfigError
from wakeful.intake.policy_files import LARGEST, in_brief, read_files


def test_a_huge_file_is_refused_without_being_read(tmp_path: Path):
    huge = tmp_path / "policy.yaml"
    huge.touch()
    os.truncate(huge, 100 * LARGEST)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError, match=r"policy\.yaml: it has more than 1,000,000 bytes"):
            read_files([huge])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * LARGEST


def test_an_alarm_tells_the_first_mistakes_only():
    assert in_brief("one\ntwo") == "one\ntwo"
    told = in_brief("\n".join(f"policy.yaml:{line}:1: wrong" for line in range(5_000)))
    assert told.splitlines()[-2:] == ["policy.yaml:19:1: wrong", "and 4,980 more mistakes"]
