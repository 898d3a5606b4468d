"""Things that went wrong once in the hands of a reviewer, each with the line of the design that they broke."""

import os
import sys
from pathlib import Path

import pytest

from support.apps import pass_time, working
from wakeful import App, Persistent, RateLimited, Run, Transient, on
from wakeful.clock import SystemClock
from wakeful.failures import classify
from wakeful.stored_errors import describe, restore
from wakeful.stores.opening import open_database


async def test_sys_exit_in_a_mapped_step_ends_the_run_and_not_the_process(app: App) -> None:
    async def leave(item: int) -> int:
        sys.exit(item)

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        await run.map(leave, [3])

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        run = await runtime.reader.run(receipt.runs[0])
    assert run is not None
    assert run["state"] == "dead"
    assert "sys.exit(3)" in run["error"]["message"]


@pytest.mark.parametrize("suppressed", [False, True])
async def test_a_step_whose_error_was_caught_is_not_done_again_by_the_retry_of_another(
    app: App, suppressed: bool
) -> None:
    tried = {"first": 0, "second": 0}

    async def first() -> None:
        tried["first"] += 1
        message = "for good"
        raise Persistent(message)

    async def second() -> str:
        tried["second"] += 1
        if tried["second"] < 3:
            message = "not yet"
            raise Transient(message, retry_after="1ms")
        return "done"

    @app.agent(on("go"), attempts=5, backoff="1ms")
    async def agent(run: Run) -> str:
        try:
            await run.step(first)
        except Persistent:
            if suppressed and run.attempt == 1:
                message = "other trouble"
                raise Transient(message, retry_after="1ms") from None
            return await run.step(second)
        return "never"

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        for _ in range(4):
            await pass_time(runtime, "1h")
        run = await runtime.reader.run(receipt.runs[0])
    assert run is not None
    assert run["output"] == "done"
    assert tried["first"] == 1


async def test_a_deadline_ends_a_wait(app: App) -> None:
    @app.agent(on("go"), deadline="1s")
    async def agent(run: Run) -> None:
        message = "come back tomorrow"
        raise RateLimited(message, retry_after="1d")

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        await pass_time(runtime, "2s")
        run = await runtime.reader.run(receipt.runs[0])
    assert run is not None
    assert (run["state"], run["error"]["type"]) == ("dead", "DeadlineExceeded")


async def test_a_relative_store_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    app = App("moves", store="sqlite:///w.db")

    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        os.chdir(there)

    async with app.running() as runtime:
        await app.emit("go")
        await runtime.drain()
        assert await runtime.reader.counts() == {"done": 1}
    assert list(there.iterdir()) == []


async def test_another_path_to_the_same_file_shares_its_locks(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    first = open_database(f"sqlite:///{tmp_path}/real.db", SystemClock())
    second = open_database(f"sqlite:///{tmp_path}/link.db", SystemClock())
    first.lock("alive")
    try:
        assert second.is_certainly_dead("alive") is False
        assert second.is_certainly_dead("it is unknown") is False
    finally:
        first.unlock("alive")


async def test_a_restored_error_keeps_its_class_of_failure() -> None:
    class HttpError(Exception):
        status_code = 404

    error = HttpError("nope")
    assert classify(error).failure == "persistent"
    stored = describe(error)
    stored["kind"] = "builtins:RuntimeError"  # a class that does not know what a status is
    assert classify(restore(stored)).failure == "persistent"


@pytest.mark.parametrize("call", ["now", "uuid", "random"])
async def test_what_must_be_the_same_on_resume_is_refused_inside_a_step(app: App, call: str) -> None:
    @app.agent(on("go"))
    async def agent(run: Run) -> None:
        async def ask() -> str:
            return str(getattr(run, call) if call == "random" else getattr(run, call)())

        await run.step(ask)

    async with working(app) as runtime:
        receipt = await app.emit("go")
        await runtime.drain()
        run = await runtime.reader.run(receipt.runs[0])
    assert run is not None
    assert run["state"] == "dead"
    assert "inside step ask" in run["error"]["message"]


async def test_runs_of_an_agent_that_is_gone_are_an_alarm(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/w.db"
    before, after = App("shop", store=store), App("shop", store=store)

    @before.agent(on("go"), name="old")
    async def old(run: Run) -> None: ...

    @after.agent(on("go"), name="new")
    async def new(run: Run) -> None: ...

    await before.emit("go")
    async with after.running():
        pass
    async with after.reached() as runtime:
        alarms = (await runtime.reader.alarms())["alarms"]
    assert ["old" in alarm["text"] for alarm in alarms] == [True]
