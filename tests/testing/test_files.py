"""files(…) in a world: what a test writes is told at the next drain, without waiting for real time."""

from __future__ import annotations

from pathlib import Path

import pytest

from wakeful import App, Run, files
from wakeful.testing import World


@pytest.fixture
def app() -> App:
    return App("app")


def noting(app: App, pattern: Path, **options: object) -> None:
    @app.agent(files(pattern, settle="1h", **options))  # type: ignore[arg-type]
    async def note(run: Run) -> str:
        return f"{run.event.type} {run.event.data['name']}"


async def told(world: World) -> list[str]:
    await world.drain()
    return [run["output"] for run in await world.runs()]


async def test_a_file_that_is_written_wakes_its_agent(app: App, tmp_path: Path, store_url: str):
    noting(app, tmp_path / "*.md")
    (tmp_path / "before.md").write_text("a")
    async with World(app, store=store_url) as world:
        assert await told(world) == ["file.created before.md"]
        (tmp_path / "later.md").write_text("b")
        (tmp_path / "other.txt").write_text("c")
        assert (await told(world))[1:] == ["file.created later.md"]
        (tmp_path / "before.md").unlink()
        (tmp_path / "later.md").write_text("changed")
        assert sorted((await told(world))[2:]) == ["file.changed later.md", "file.deleted before.md"]
        await world.crash()
        (tmp_path / "last.md").write_text("d")
        assert (await told(world))[4:] == ["file.created last.md"]


async def test_what_is_there_is_no_news_where_that_is_asked_for(app: App, tmp_path: Path):
    noting(app, tmp_path / "*.md", existing=False)
    (tmp_path / "before.md").write_text("a")
    async with World(app) as world:
        (tmp_path / "later.md").write_text("b")
        assert await told(world) == ["file.created later.md"]


@pytest.mark.parametrize("existing", [True, False])
async def test_a_folder_that_is_not_there_is_an_empty_one(app: App, tmp_path: Path, existing: bool):
    inbox = tmp_path / "inbox"
    noting(app, inbox / "*.md", existing=existing)
    async with World(app) as world:
        assert await told(world) == []
        assert await world.alarms() == []
        inbox.mkdir()
        (inbox / "a.md").write_text("a")
        assert await told(world) == ["file.created a.md"]
        assert await world.alarms() == []
