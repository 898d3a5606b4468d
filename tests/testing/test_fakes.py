"""What stands in for a step or an action changes what is called, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from wakeful import App, Operation, Persistent, Run, Transient, action, on, step
from wakeful.errors import ConfigError
from wakeful.testing import World


class Diff(BaseModel):
    lines: int


class Service:
    """What must not be called while a fake stands in for it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def app() -> App:
    return App("app")


async def test_a_plain_function_a_step_and_an_action_are_replaced(app: App, store_url: str, service: Service):
    def plain(number: int) -> Diff:
        service.calls.append(number)
        return Diff(lines=number)

    @step(name="count")
    async def declared(*, diff: Diff) -> int:
        service.calls.append(diff)
        return diff.lines

    @action(safety="idempotent")
    async def post(op: Operation, number: int, text: str) -> str:
        service.calls.append(op.id)
        return text

    @app.agent(on("go"))
    async def go(run: Run) -> str:
        diff = await run.step(plain, 7)
        count = await run.step(declared, diff=diff)
        return await run.act(post, count, text="hello")

    async with World(app, store=store_url) as world:
        real = await world.handle("go", id="1")
        with (
            world.fake(plain, returns={"lines": 70}) as first,
            world.fake(declared, calls=lambda diff: diff.lines + 1) as second,
            world.fake(post, returns="posted") as third,
        ):
            faked = await world.handle("go", id="2")
        again = await world.handle("go", id="3")
    assert len(service.calls) == 6
    assert (real["output"], faked["output"], again["output"]) == ("hello", "posted", "hello")
    assert [call.arguments for call in first.calls] == [(7,)]
    assert [call.keywords for call in second.calls] == [{"diff": Diff(lines=70)}], "read by the return annotation"
    (call,) = third.calls
    assert (call.arguments, call.keywords) == ((71,), {"text": "hello"})
    assert call.operation is not None
    assert call.operation.id == faked["effects"][0]["id"]
    assert faked["effects"][0]["state"] == "confirmed"


async def test_identities_are_the_same_with_a_fake(app: App, store_url: str):
    async def fetch(number: int) -> str:
        return "real"

    @action(safety="idempotent")
    async def post(op: Operation, text: str) -> str:
        return "real"

    @app.agent(on("go"))
    async def go(run: Run) -> None:
        await run.step(fetch, 7)
        await run.act(post, "hello")

    keys = []
    for fake in (False, True):
        async with World(App("app")) as world:
            world.app.agents.update(app.agents)
            await world.crash()  # its worker knows the agent from here on
            if fake:
                world.fake(fetch, returns="fake")
                world.fake(post, returns="fake")
            run = await world.handle("go", id="1")
            keys.append((run["id"], [one["key"] for one in run["steps"]], [one["id"] for one in run["effects"]]))
    assert keys[0] == keys[1]


async def test_answers_come_one_after_the_other(app: App):
    async def fetch() -> str:
        raise AssertionError

    @app.agent(on("go"), attempts=1)
    async def go(run: Run) -> str:
        return await run.step(fetch)

    async with World(app) as world:
        with world.fake(fetch, answers=[Transient("not now"), Transient, "third"]) as fake:
            assert (await world.handle("go"))["output"] == "third"
            assert len(fake.calls) == 3
            run = await world.handle("go")
        assert run["error"]["message"] == "fake of fetch: called 4 times, but it has 3 answers"
        with world.fake(fetch, raises=Persistent("never")):
            assert (await world.handle("go"))["error"]["message"] == "never"


async def test_the_find_of_an_action_can_be_replaced(app: App, store_url: str):
    async def look(op: Operation) -> str | None:
        raise AssertionError

    @action(safety="reconcile", find=look)
    async def pay(op: Operation) -> str:
        raise Transient("gone")

    @app.agent(on("go"))
    async def go(run: Run) -> str:
        return await run.act(pay)

    async with World(app, store=store_url) as world:
        with world.fake(look, returns="found") as fake:
            begun = world.clock.now()
            assert (await world.handle("go"))["output"] == "found"
        assert len(fake.calls) == 1
        assert world.clock.now() - begun == 30_000_000, "settle= was waited for, in virtual time"


async def test_a_function_made_in_the_handler_goes_by_its_name(app: App):
    @app.agent(on("go"))
    async def go(run: Run) -> list[int]:
        async def inner() -> int:
            raise AssertionError

        return [await run.step(inner), await run.step(inner)]

    async with World(app) as world:
        world.fake("inner", answers=[1, 2])
        assert (await world.handle("go"))["output"] == [1, 2]


async def test_the_latest_fake_counts_until_it_is_removed(app: App):
    async def fetch() -> str:
        return "real"

    @app.agent(on("go"))
    async def go(run: Run) -> str:
        return await run.step(fetch)

    async with World(app) as world:
        outer = world.fake(fetch, returns="outer")
        with world.fake(fetch, returns="inner") as inner:
            assert (await world.handle("go"))["output"] == "inner"
        inner.remove()
        assert (await world.handle("go"))["output"] == "outer"
        outer.remove()
        assert (await world.handle("go"))["output"] == "real"


async def test_answers_of_the_real_one_are_recorded_and_read(app: App, tmp_path: Path, service: Service):
    @step(attempts=1)
    def fetch(number: int, *, deep: bool = False) -> Diff:
        service.calls.append(number)
        if number == 13:
            raise Persistent("no such thing")
        return Diff(lines=number + len(service.calls))

    @action(safety="idempotent")
    async def post(op: Operation, lines: int) -> str:
        service.calls.append(op.id)
        return f"posted {lines}"

    @app.agent(on("go"), attempts=1)
    async def go(run: Run, data: int) -> str:
        first = await run.step(fetch, data)
        await run.step(fetch, data, deep=True)
        second = await run.step(fetch, data)
        return await run.act(post, first.lines + second.lines)

    async def handle_all() -> list[Any]:
        async with World(App("app")) as world:
            world.app.agents.update(app.agents)
            await world.crash()
            world.fake(fetch, record=tmp_path / "deep" / "cassette.json")
            world.fake(post, record=tmp_path / "deep" / "cassette.json")
            runs = [await world.handle("go", number) for number in (7, 13)]
        return [(run["output"], (run["error"] or {}).get("message")) for run in runs]

    recorded = await handle_all()
    assert recorded == [("posted 18", None), (None, "no such thing")]
    assert len(service.calls) == 5
    assert await handle_all() == recorded
    assert len(service.calls) == 5, "answered from the file"
    cassette = json.loads((tmp_path / "deep" / "cassette.json").read_text())
    assert cassette["fetch"][0] == {"arguments": [7], "returns": {"lines": 8}}
    assert cassette["fetch"][1] == {"arguments": [7], "keywords": {"deep": True}, "returns": {"lines": 9}}
    assert cassette["fetch"][3]["raises"]["message"] == "no such thing"
    assert cassette["post"] == [{"arguments": [18], "returns": "posted 18"}]


async def test_mistakes_are_told(app: App, tmp_path: Path):
    async def fetch() -> str:
        return "real"

    (tmp_path / "broken.json").write_text("{")
    async with World(app) as world:
        with pytest.raises(ConfigError, match="fake of fetch: give returns="):
            world.fake(fetch)
        with pytest.raises(ConfigError, match="returns=, raises= exclude each other"):
            world.fake(fetch, returns=1, raises=Transient("no"))
        with pytest.raises(ConfigError, match=r"fake\(3\): pass a step's function"):
            world.fake(3)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"broken\.json is not JSON"):
            world.fake(fetch, record=tmp_path / "broken.json")


async def test_what_a_fake_cannot_do_is_refused(app: App):
    wrong: Any = "x"
    async with World(app) as world:
        with pytest.raises(ConfigError, match="raises='x' is not an error"):
            world.fake("fetch", raises=wrong)
        with pytest.raises(ConfigError, match="raises=<class 'int'> is not an error"):
            world.fake("fetch", raises=int)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="calls=3 cannot be called"):
            world.fake("fetch", calls=3)  # type: ignore[arg-type]
