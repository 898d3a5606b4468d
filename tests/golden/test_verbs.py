"""Every verb: what it says, its exit code, and who is recorded to have done it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden.conftest import STORE, Compare
from golden.recording import as_written, call, read, told
from golden.store import Trail
from golden.verbs import FILES, VERBS


@pytest.fixture
def trail(copy: Path) -> Trail:
    for name, text in FILES.items():
        (copy / name).write_text(text)
    return Trail(copy / STORE)


@pytest.mark.parametrize("name", VERBS)
def test_text(name: str, trail: Trail, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    said = call(VERBS[name])
    rows = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in trail.rows())
    compare(f"verbs/{name}.txt", f"$ wakeful {as_written(VERBS[name])}\n{told(said)}\nrecorded:\n{rows}")


@pytest.mark.parametrize("name", VERBS)
def test_json(name: str, trail: Trail, compare: Compare) -> None:
    said = call([*VERBS[name], "--json"])
    whole = {"exit code": said.code, "answer": read(said.out), "error": said.err, "recorded": trail.rows()}
    compare(f"verbs/{name}.json", json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
