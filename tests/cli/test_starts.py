"""What a start loads. Time depends on the machine, so these tests look at modules: an import that comes back is seen here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import environment

# Commands that only look into a store, or change a few rows of it.
LOOKS = [
    "alarms", "approvals", "circuits", "dead", "deliveries", "effects", "events", "expectations", "locks", "quarantine",
    "reminders", "runs", "schedules", "sources", "state", "trace abc", "why abc", "pause",
]  # fmt: skip
ENGINE = ["wakeful.runtime", "wakeful.execution.executor", "wakeful.execution.worker", "wakeful.api"]
HEAVY = ["structlog", "structlog.dev", "starlette", "uvicorn", "httpx2", "cel_expr_python", "celpy"]

LOADED = """
import contextlib, io, sys
from wakeful.cli import main

for line in {lines!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main([*line.split(), "--store", "sqlite:///looked.db"])
    loaded = sorted(set({modules!r}) & set(sys.modules))
    if loaded:
        print(line, "loads", *loaded)
        break
"""


def python(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_an_app_is_declared_without_what_draws_and_what_logs(tmp_path: Path):
    code = "import sys; from wakeful import App, on, cron; print(sorted({'rich', 'structlog', 'structlog.dev'} & set(sys.modules)))"
    assert python(code, tmp_path) == "[]"


def test_importing_the_package_loads_none_of_its_parts(tmp_path: Path):
    code = "import sys, wakeful; print([name for name in sys.modules if name.startswith('wakeful.')], 'pydantic' in sys.modules)"
    assert python(code, tmp_path) == "[] False"


@pytest.mark.parametrize("options", ["", " --json"])
def test_a_command_that_only_looks_loads_neither_engine_nor_server(tmp_path: Path, options: str):
    lines = ["migrate", *(f"{line}{options}" for line in LOOKS)]
    assert python(LOADED.format(lines=lines, modules=[*ENGINE, *HEAVY]), tmp_path) == ""
