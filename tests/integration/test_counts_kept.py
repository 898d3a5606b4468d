"""Uses of counted rules go once no rule counts them, also those of subjects that never come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.apps import NewApp, pass_time, working
from support.stores import count
from wakeful import Operation, Run, action, on


@pytest.mark.parametrize(("over", "left"), [("5/h", 1), ("5/60d", 4)])
async def test_uses_of_strangers_go(new_app: NewApp, tmp_path: Path, store_url: str, over: str, left: int):
    (tmp_path / "policy.yaml").write_text(
        f"policy: 1\nrules:\n  - {{id: many, action: greet, over: {over}, per: arguments.name, answer: deny}}\n"
    )
    app = new_app(policy=tmp_path / "policy.yaml")

    @action
    async def greet(_: Operation, name: str) -> None: ...

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.act(greet, run.event.data)

    async with working(app) as runtime:
        for name in ("ada", "bob", "cid"):
            await app.emit("go", name)
        await runtime.drain()
        await pass_time(runtime, "36d")
        await app.emit("go", "eve")
        await runtime.drain()
        await runtime.housekeeper.run_once()
        assert await count(store_url, "wakeful_policy_use") == left
        assert await count(store_url, "wakeful_policy_counter") == left
