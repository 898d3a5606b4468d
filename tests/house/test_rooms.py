"""The order of the rooms is kept by import-linter, which sees imports that are written as such."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "wakeful"
# Where a module is found by its name: a table of names, or a name that a user gives.
BY_NAME = {
    "__init__.py",
    "cli/__init__.py",
    "cli/completing.py",
    "connect/postgres/trigger.py",
    "loading.py",
    "resources/__init__.py",
    "testing/__init__.py",
    "testing/nursery.py",
    "testing/postgres_server.py",
}


def test_no_import_hides_from_the_linter():
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"\b(?:import_module|__import__)\(", path.read_text(encoding="utf-8"))
    }
    assert found == BY_NAME


def test_no_file_is_longer_than_500_lines():
    files = [*SOURCE.rglob("*.py"), *SOURCE.glob("stores/sql/*.sql")]
    lines = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > 500} == {}
