"""The dependencies of the package are those that its code imports, and are bounded where it reaches into them."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = [Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines]

# Modules that have another name than their distribution.
MODULES = {"cel-expr-python": "cel_expr_python", "pyyaml": "yaml"}
# Data, which Python finds by itself.
NOT_IMPORTED = {"tzdata"}
# What comes along with a distribution, always.
COME_ALONG = {"botocore": "aiobotocore", "pydantic_core": "pydantic", "typing_extensions": "pydantic"}
# More than their documented interface is used: private modules, fields, or methods of a class that are overridden.
REACHED_INTO = {"cel_expr_python", "cronsim", "uvicorn", "watchfiles"}
# The test plugin is loaded by pytest alone.
OPTIONAL = {"pytest"}


def module_of(requirement: Requirement) -> str:
    return MODULES.get(requirement.name, requirement.name)


@cache
def imports() -> frozenset[str]:
    """All modules that the package imports, wherever in a file that stands."""
    nodes = (node for path in (ROOT / "src").rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    return frozenset(name for node in nodes for name in names_in(node))


def names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module


def foreign() -> set[str]:
    ours = {"wakeful", "bench", "__future__"}
    return {name.partition(".")[0] for name in imports()} - set(sys.stdlib_module_names) - ours


def test_everything_that_is_imported_is_declared():
    declared = {module_of(one) for one in [*NEEDED, *EXTRAS]}
    assert {COME_ALONG.get(name, name) for name in foreign() - OPTIONAL} <= declared


def test_everything_that_is_declared_is_imported():
    found = foreign()
    assert {module_of(one) for one in [*NEEDED, *EXTRAS]} - NOT_IMPORTED <= found


def test_no_extra_is_installed_that_nothing_uses():
    assert [str(one) for one in NEEDED if one.extras] == []


def test_what_is_reached_into_has_an_upper_bound():
    private = {
        name.partition(".")[0] for name in imports() if any(part.startswith("_") for part in name.split(".")[1:])
    }
    bounded = {module_of(one) for one in NEEDED if any(bound.operator in {"<", "<="} for bound in one.specifier)}
    assert private <= REACHED_INTO
    assert bounded >= REACHED_INTO
