"""What waits for a person, in one list over HTTP, on both stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.apps import NewApp, go, pass_time, working
from surface.served import http_over
from wakeful import App, Operation, Run, action, on
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.returning import ReturnRun

ADA = Actor("ada", "code")
STRANGERS = "policy: 1\nrules:\n  - {id: new, at: admission, agent: strange, answer: ask, reason: never seen}\n"


def declare(app: App) -> None:
    @action
    async def charge(_: Operation, amount: int, card: str) -> None:
        raise TimeoutError("no answer")

    @app.agent(on("ask"))
    async def asking(run: Run) -> Any:
        return await run.ask(f"May I? {run.event.data}", to="ops", schema=bool, timeout=run.event.data)

    @app.agent(on("pick"))
    async def picking(run: Run) -> Any:
        return await run.decide("Which way?", ["by sea", "by air"], ask="ops", timeout="9h")

    @app.agent(on("open"))
    async def open_(run: Run) -> Any:
        return await run.ask("What happened?", timeout="10h")

    @app.agent(on("pay"))
    async def paying(run: Run) -> None:
        await run.act(charge, 12, card="4000")

    @app.agent(on("write"), checks=[lambda text: "!" not in text])
    async def writing(run: Run) -> str:
        return "HELP!"

    @app.agent(on("strange"))
    async def strange(run: Run) -> None: ...


async def send(runtime: Runtime, kind: str, data: Any = None) -> str:
    receipt = await runtime.app.emit(kind, data)
    await runtime.drain()
    return str(receipt.runs[0])


@pytest.fixture
def busy(new_app: NewApp, tmp_path: Path) -> App:
    policy = tmp_path / "policy.yaml"
    policy.write_text(STRANGERS)
    app = new_app(policy=policy)
    declare(app)
    return app


async def listed(http: Any, **given: Any) -> list[dict[str, Any]]:
    answer = await http.get("/v1/review", params=given)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["review"])


async def test_everything_that_waits_is_in_one_list(busy: App):
    async with working(busy) as runtime, http_over(runtime.store) as http:
        assert await listed(http) == []
        runs = {}
        for kind, data in (
            ("ask", "4h"),
            ("pick", None),
            ("open", None),
            ("pay", None),
            ("write", None),
            ("strange", None),
        ):
            runs[kind] = await send(runtime, kind, data)
            await pass_time(runtime, "1m")
        found = await listed(http)
    # What has no deadline counts as due since it began to wait.
    assert [one["agent"] for one in found] == ["paying", "writing", "asking", "strange", "picking", "open_"]
    assert [one["kind"] for one in found] == ["effect", "output", "approval", "approval", "approval", "approval"]
    by = {one["agent"]: one for one in found}
    asking, picking, paying, writing = by["asking"], by["picking"], by["paying"], by["writing"]
    assert asking == {
        "kind": "approval",
        "id": asking["id"],
        "app": "app",
        "agent": "asking",
        "run": runs["ask"],
        "since": "2026-01-01T00:00:00Z",
        "due": "2026-01-01T04:00:00Z",
        "text": "May I? 4h",
        "commands": [f"wakeful approvals {verb} {asking['id']}" for verb in ("approve", "deny", "show")],
    }
    assert picking["commands"] == [
        f"wakeful approvals answer {picking['id']} 'by sea'",
        f"wakeful approvals answer {picking['id']} 'by air'",
    ]
    assert by["open_"]["commands"][0] == f"wakeful approvals answer {by['open_']['id']} ANSWER"
    assert by["strange"]["commands"][0] == f"wakeful approvals approve {by['strange']['id']}"
    assert paying["text"].startswith('charge(12, card="4000"): ')
    assert paying["commands"][:2] == [
        f"wakeful effects confirm {paying['id']}",
        f"wakeful effects repeat {paying['id']}",
    ]
    assert (writing["id"], writing["since"], writing["due"]) == (runs["write"], "2026-01-01T00:04:00Z", None)
    assert f"wakeful return {runs['write']} --remark TEXT" in writing["commands"]


async def test_filters_and_pages(busy: App):
    async with working(busy) as runtime, http_over(runtime.store) as http:
        for kind, data in (("ask", "4h"), ("pay", None), ("write", None)) * 3:
            await send(runtime, kind, data)
        whole = await listed(http)
        assert len(whole) == 9
        assert len({one["since"] for one in whole}) == 1  # all at once, so kind and id decide
        pages: list[dict[str, Any]] = []
        after = None
        while True:
            given = {"limit": "2"} if after is None else {"limit": "2", "after": after}
            page = (await http.get("/v1/review", params=given)).json()
            pages += page["review"]
            after = page["next"]
            if after is None:
                break
        assert pages == whole
        assert {one["agent"] for one in await listed(http, kind="output")} == {"writing"}
        assert {one["kind"] for one in await listed(http, agent="paying")} == {"effect"}
        assert await listed(http, app="other") == []
        for wrong in ("x", "1.9.ab", "1.0.", "1", "-1.0.ab", "1.0.xyz"):
            answer = await http.get("/v1/review", params={"after": wrong})
            assert (answer.status_code, answer.json()["field"]) == (400, "after"), wrong
        assert (await http.get("/v1/review", params={"kind": "other"})).status_code == 400


async def test_what_was_decided_is_gone(busy: App):
    async with working(busy) as runtime, http_over(runtime.store) as http:
        written = await send(runtime, "write")
        await runtime.store.do(ReturnRun(written, "calmer", by=ADA))
        await runtime.drain()
        (again,) = await listed(http)
        assert again["kind"] == "output"  # its handler wrote the same again
        await runtime.store.do(RedoRun(written, discard=True, by=ADA))
        assert await listed(http) == []


async def test_a_run_that_is_held_for_its_code(new_app: NewApp):
    old = new_app()

    @old.agent(on("go"), name="agent")
    async def agent(run: Run) -> None:
        await run.sleep("1d")

    async with working(old) as runtime:
        run = await go(runtime)
    new = new_app()

    @new.agent(on("go"), name="agent", on_change="hold")
    async def agent_of_later(run: Run) -> None:
        await run.sleep("2d")

    async with working(new) as runtime, http_over(runtime.store) as http:
        await pass_time(runtime, "2d")
        (found,) = await listed(http)
        assert (found["kind"], found["id"], found["since"]) == ("run", run["id"], "2026-01-03T00:00:00Z")
        assert "its code changed" in found["text"]
        assert f"wakeful replay {run['id']}" in found["commands"]
        await runtime.store.do(RedoRun(run["id"], by=ADA))
        await runtime.drain()
        assert await listed(http) == []
