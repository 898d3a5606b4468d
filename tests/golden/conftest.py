from __future__ import annotations

import difflib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from golden.recording import RECORDED, Normal
from golden.store import PROJECT, make_store, settle_in

Compare = Callable[[str, str], None]
STORE = "golden.db"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the app and its store."""
    folder = tmp_path_factory.mktemp("golden")
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    make_store(folder / STORE)
    return folder


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith("WAKEFUL_")] + [
        "NO_COLOR",
        "FORCE_COLOR",
        "COLUMNS",
        "TZ",
    ]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WAKEFUL_STORE", f"sqlite:///{STORE}")
    monkeypatch.setenv("LOGNAME", "grace")


@pytest.fixture
def here(project: Path, surroundings: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project as the present folder. Only for what changes nothing."""
    monkeypatch.chdir(project)
    return project


def copy_project(project: Path, folder: Path) -> None:
    """The project with a store that may be changed."""
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("*.db*", "__pycache__"))
    with closing(sqlite3.connect(project / STORE)) as source, closing(sqlite3.connect(folder / STORE)) as target:
        source.backup(target)
    settle_in(folder / STORE)


@pytest.fixture
def copy(project: Path, surroundings: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project as the present folder, to be changed."""
    folder = tmp_path / "shop"
    copy_project(project, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    """Compares a text with a recorded file, or records it."""
    record = request.config.getoption("--record")

    def check(name: str, text: str) -> None:
        text = Normal(Path.cwd())(text)
        path = RECORDED / name
        if record:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"{name} was never recorded: see tests/golden/README.md"
        before = path.read_text()
        if text != before:
            lines = difflib.unified_diff(before.splitlines(), text.splitlines(), "as recorded", "now", lineterm="", n=2)
            pytest.fail("\n".join([f"{name} differs from what was recorded:", *lines]), pytrace=False)

    return check
