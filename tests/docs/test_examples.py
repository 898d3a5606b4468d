"""Every example of the documentation is run, page by page, in a folder of its own. How to write one: pages.py."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog

from docs.pages import Block, Page, all_pages
from docs.shell import SHOWN_POSTGRES, Shell, matches, without_logs
from support.forks import Forks
from wakeful.testing.postgres_server import PostgresServer

PAGES = [page for page in all_pages() if any(block.language in {"python", "console"} for block in page.blocks)]


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """A database for a page that uses one."""
    page: Page = request.node.callspec.params["page"]
    if not any(SHOWN_POSTGRES in block.text for block in page.blocks if is_run(block)):
        yield None
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    database = asyncio.run(server.create_database())
    yield server.dsn(database)
    asyncio.run(server.drop_database(database))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in. What a page imports or sets is forgotten with it."""
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in os.environ:
        if name.startswith("WAKEFUL_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    modules, variables = set(sys.modules), dict(os.environ)
    yield folder
    os.environ.clear()
    os.environ.update(variables)
    structlog.reset_defaults()
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def namespace(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Where the blocks of a page live: as if the page were one program."""
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    return vars(program)


@pytest.mark.parametrize("page", PAGES, ids=repr)
def test_examples_run(page: Page, folder: Path, namespace: dict[str, Any], forks: Forks, postgres: str | None):
    shell = Shell(forks, folder, postgres)
    printed: list[str] | None = None
    with contextlib.closing(shell):
        for block in page.blocks:
            if block.file_name is not None:
                (shell.folder / block.file_name).write_text(shell.real(block.text), encoding="utf-8")
            if block.language == "python" and is_run(block):
                printed = run_python(page, block.line, shell.real(block.text), namespace)
            elif block.language == "text" and block.adjoins and printed is not None:
                shown = block.text.splitlines()
                assert matches([line for line in shown if line.strip()], printed), (
                    f"{page}:{block.line}: the page shows\n\n{block.text}\nand printed was\n\n" + "\n".join(printed)
                )
            elif block.language == "console":
                shell.run(block.text, fails="fails" in block.flags, soon="soon" in block.flags)
                os.chdir(shell.folder)  # Python goes along with `cd`; the fixture brings it back
            if block.language != "python":
                printed = None


def is_run(block: Block) -> bool:
    return block.language in {"python", "console"} and "no-run" not in block.flags


def run_python(page: Page, line: int, text: str, namespace: dict[str, Any]) -> list[str]:
    """Run a block; returns what it printed. Line numbers in a traceback are those of the page."""
    code = compile("\n" * (line - 1) + text, str(page.path), "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)  # noqa: S102 our own documentation
    return without_logs(out.getvalue())
