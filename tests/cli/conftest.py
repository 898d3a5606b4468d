from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine
from wakeful.cli import main

TICKETS = """
from pydantic import BaseModel

from wakeful import App, Denied, Persistent, Run, Transient, on, step

app = App("tickets")


class Ticket(BaseModel):
    title: str
    severity: int = 1


asked: set[str] = set()


@step(attempts=3, backoff="1ms")
async def look_up(title: str, *, room: int = 1) -> dict[str, str]:
    if title not in asked:
        asked.add(title)
        raise Transient("no answer")
    return {"contact": "ada"}


@app.agent(on("ticket.created"), owner="ops")
async def triage(run: Run, ticket: Ticket) -> dict[str, str]:
    found = await run.step(look_up, ticket.title, room=2)
    if ticket.severity >= 3:
        await run.emit("ticket.urgent", {"title": ticket.title})
    return found


@app.agent(on("ticket.*", where="data.severity >= 3"))
async def page(run: Run) -> str:
    return "paged"


@app.agent(on("ticket.broken"))
async def mend(run: Run) -> None:
    raise Persistent("it is [bold]broken[/bold] \\x1b[31mfor good\\nsecond line")


@app.agent(on("ticket.secret"))
async def peek(run: Run) -> None:
    raise Denied("not for you")


@app.agent(on("ticket.later"), attempts=3)
async def later(run: Run) -> None:
    raise Transient("come back", retry_after="2h")
"""


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Wakeful = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty present folder, and nothing set around it."""
    for name in (
        "WAKEFUL_STORE",
        "WAKEFUL_TOKEN",
        "WAKEFUL_TOKEN_NEXT",
        "WAKEFUL_LOG",
        "WAKEFUL_DEBUG",
        "NO_COLOR",
        "FORCE_COLOR",
        "COLUMNS",
    ):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def tickets(folder: Path) -> Path:
    """A folder with an app in it."""
    (folder / "app.py").write_text(TICKETS)
    return folder


@pytest.fixture
def wakeful(folder: Path, capsys: pytest.CaptureFixture[str]) -> Wakeful:
    """A command in this process: `wakeful("runs", "--json")`."""

    def call(*words: str, code: int | None = 0) -> Result:
        capsys.readouterr()
        got = main(list(words))
        said = capsys.readouterr()
        result = Result(got, said.out, said.err)
        assert code is None or got == code, f"exit code {got}\n{said.out}\n{said.err}"
        return result

    return call


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., CommandLine]]:
    """A command in a process of its own, gone after the test."""
    started: list[CommandLine] = []

    def call(
        *words: str, env: dict[str, str] | None = None, through: Sequence[str] = (), fresh: bool = False
    ) -> CommandLine:
        command = CommandLine(*words, folder=folder, env=env, through=through, fresh=fresh)
        started.append(command)
        return command

    yield call
    for command in started:
        command.close()
