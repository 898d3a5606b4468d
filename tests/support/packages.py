"""Packages of others, installed in a folder of the test, as pip leaves them behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

Install = Callable[..., None]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, which Python looks into."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def install(packages: Path) -> Install:
    """Installs a package with one entry point: a trigger, or what `group` says."""

    def write(kind: str, value: str, code: str, *, package: str | None = None, group: str = "wakeful.triggers") -> None:
        name = package or f"wakeful-{kind}"
        module = value.partition(":")[0]
        (packages / f"{module}.py").write_text(dedent(code))
        about = packages / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{kind} = {value}\n")

    return write
