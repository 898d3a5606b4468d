from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from surface import toy
from wakeful.cli import main


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def yard() -> Iterator[toy.Yard]:
    """Two pets of one app, and one of another."""
    toy.YARD.pets = {
        (one["name"], one["app"]): one
        for one in (toy.pet("rex"), toy.pet("tom", state="asleep", good=False), toy.pet("rex", "farm"))
    }
    toy.YARD.done = []
    yield toy.YARD
    toy.YARD.pets = {}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy is a noun like others, with its aliases."""
    from wakeful import cli, resources

    monkeypatch.setattr(resources, "resource_of", lambda _: toy.RESOURCE)
    monkeypatch.setattr("wakeful.surface.command.resource_of", lambda _: toy.RESOURCE)
    monkeypatch.setattr("wakeful.surface.command.alias_of", toy.ALIASES.get)
    monkeypatch.setattr(
        cli,
        "COMMANDS",
        {
            "pets": (cli.TABLE, "pets of all kinds"),
            "feed": (cli.TABLE, "feed a pet"),
            "adopt": (cli.TABLE, "take one in"),
        },
    )


@pytest.fixture
def shell(
    table: None, yard: toy.Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """The command line, in this process and in a folder with an empty store."""
    from wakeful.stores.opening import open_database
    from wakeful.stores.store import DatabaseStore

    monkeypatch.chdir(tmp_path)
    for name in ("WAKEFUL_STORE", "WAKEFUL_APP", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    import asyncio

    from wakeful.clock import SystemClock

    async def make() -> None:
        store = DatabaseStore(open_database("sqlite:///wakeful.db", SystemClock()))
        await store.open(migrate=True)
        await store.close()

    asyncio.run(make())

    def run(*words: str, code: int = 0) -> Said:
        found = main(words)
        said = Said(found, *capsys.readouterr())
        assert said.code == code, said
        return said

    return run
