"""Every listing and every `show`, as text at two widths and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.conftest import Compare
from golden.reads import NO_JSON, READS
from golden.recording import as_json, as_written, call, told

WIDTHS = (80, 140)


@pytest.mark.parametrize("name", READS)
def test_text(name: str, here: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [f"$ wakeful {as_written(READS[name])}\n"]
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        parts.append(f"\n───── {width} columns, {told(call(READS[name]))}")
    compare(f"{name}.txt", "".join(parts))


@pytest.mark.parametrize("name", [one for one in READS if one not in NO_JSON])
def test_json(name: str, here: Path, compare: Compare) -> None:
    compare(f"{name}.json", as_json(call([*READS[name], "--json"])))
