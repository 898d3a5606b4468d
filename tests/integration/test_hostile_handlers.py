"""Handlers that do what one does not expect of a handler: the run ends visibly, the worker goes on."""

import sys

import pytest

from support.apps import go, working
from wakeful import App, Denied, Operation, Persistent, Run, action, on


class Speechless(Exception):
    def __str__(self) -> str:
        message = "no words"
        raise RuntimeError(message)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Persistent("a lone surrogate \ud800 and a NUL \0 in it"), "dead"),
        (Denied("denied with a NUL \0 and \udfff"), "denied"),
        (Speechless(), "dead"),
    ],
    ids=["characters no database takes", "in a denial", "an error whose own words fail"],
)
async def test_errors_that_cannot_be_stored_as_they_are(app: App, error: Exception, state: str) -> None:
    @app.agent(on("a"), attempts=1)
    async def fail(run: Run) -> None:
        raise error

    async with working(app) as runtime:
        receipt = await app.emit("a")
        await runtime.drain()
        run = await runtime.reader.run(receipt.runs[0])
    assert run is not None
    assert run["state"] == state
    assert run["error"]["type"] == type(error).__name__


async def test_sys_exit_in_a_handler_ends_its_attempt_and_not_the_worker(app: App) -> None:
    @app.agent(on("a"), attempts=1)
    async def leave(run: Run) -> None:
        sys.exit(3)

    @app.agent(on("b"))
    async def stay(run: Run) -> str:
        return "still here"

    async with working(app) as runtime:
        first = await app.emit("a")
        await runtime.drain()
        second = await app.emit("b")
        await runtime.drain()
        one, other = await runtime.reader.run(first.runs[0]), await runtime.reader.run(second.runs[0])
    assert one is not None
    assert other is not None
    assert (one["state"], one["error"]["type"]) == ("dead", "SystemExit")
    assert other["output"] == "still here"


class Worse(BaseException):
    """What nobody catches who looks for an Exception."""


@pytest.mark.parametrize("where", ["handler", "step", "action", "check"])
async def test_what_is_no_exception_ends_the_attempt_and_not_more(app: App, where: str):
    async def bad(*_: object) -> None:
        raise Worse("far worse")

    @action
    async def act_badly(op: Operation) -> None:
        await bad()

    @app.agent(on("go"), attempts=1, checks=[bad] if where == "check" else [])
    async def agent(run: Run) -> None:
        if where == "handler":
            await bad()
        elif where == "step":
            await run.step(bad)
        elif where == "action":
            await run.act(act_badly)

    async with working(app) as runtime:
        run = await go(runtime)
    assert run["state"] == ("held" if where == "action" else "dead")
    assert "far worse" in str(run["reason"]) + str(run["error"])
