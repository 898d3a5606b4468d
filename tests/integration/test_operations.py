"""Two agents on one source, each with operations of its own: neither is woken by the other's."""

from __future__ import annotations

from pathlib import Path

from support.apps import NewApp, working
from wakeful import Run, files


async def test_an_agent_is_woken_only_by_the_operations_it_named(new_app: NewApp, tmp_path: Path):
    app, seen = new_app(), list[str]()

    @app.agent(files(f"{tmp_path}/*.txt", settle="0s", operations=("created", "changed")))
    async def written(run: Run) -> None:
        seen.append(f"written: {run.event.type}")

    @app.agent(files(f"{tmp_path}/*.txt", settle="0s", operations=("deleted",)))
    async def gone(run: Run) -> None:
        seen.append(f"gone: {run.event.type}")

    async with working(app, reading="drained") as runtime:
        (tmp_path / "a.txt").write_text("a")
        await runtime.drain()
        (tmp_path / "a.txt").unlink()
        await runtime.drain()
        assert seen == ["written: file.created", "gone: file.deleted"]
        listing = await runtime.reader.events(type="file.deleted", limit=10)
        assert len(listing["events"]) == 1
