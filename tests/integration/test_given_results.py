"""A person confirms an effect: its result must be what the action returns, and can be corrected until the run went on with it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from support.apps import go, pass_time, working
from support.stores import query
from wakeful import App, Operation, Persistent, Run, Transient, action, on
from wakeful.operations.held import settle
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.settling import Settled


class Booking(BaseModel):
    number: int
    seat: str | None = None


async def said(
    runtime: Runtime, run: dict[str, Any], result: str | None = None, *, by: str = "ada", verb: str = "confirm"
) -> Settled:
    settled = await settle(runtime.store, run["effects"][0]["id"], verb, by=Actor(by, "code"), result=result)
    assert settled is not None
    return settled


async def seen(runtime: Runtime, run: dict[str, Any]) -> dict[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    return found


def booking(app: App, returns: Any, *, staged: bool = False) -> list[Any]:
    """An agent with one action, of which nobody knows whether it was done; and what it was told that the action returned."""
    told: list[Any] = []

    async def book(op: Operation) -> Any:
        raise TimeoutError("no answer")

    if returns is not Any:
        book.__annotations__["return"] = returns
    else:
        del book.__annotations__["return"]
    made = action(book)

    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> None:
        if staged:
            run.stage(made)
        else:
            told.append(await run.act(made))

    return told


@pytest.mark.parametrize(
    ("returns", "said_of", "result", "value"),
    [
        (str, "text", '"A7"', "A7"),
        (int, "a whole number", "7", 7),
        (float, "a number", "7", 7),
        (bool, "true or false", "true", True),
        (dict, "an object", '{"a": 1}', {"a": 1}),
        (list, "a list", "[1]", [1]),
        (list[int], "a list, each a whole number", "[1]", [1]),
        (Booking, "an object with number (a whole number), seat", '{"number": 7}', Booking(number=7)),
    ],
    ids=str,
)
async def test_without_the_result_that_is_needed_nothing_is_confirmed(
    app: App, returns: Any, said_of: str, result: str, value: Any
):
    told = booking(app, returns)
    async with working(app) as runtime:
        run = await go(runtime)
        refused = await said(runtime, run)
        assert (refused.first, refused.unfit) == (False, True)
        assert refused.refused is not None
        assert f"its action returns {said_of}" in refused.refused
        assert "--result" in refused.refused
        unfit = await said(runtime, run, '{"number": "x"}' if returns in (dict, Booking) else '{"x": 1}')
        assert unfit.unfit or returns is dict
        if returns is dict:  # fits: anything is in it
            return
        assert (await seen(runtime, run))["state"] == "held"
        assert (await said(runtime, run, result)).first
        await runtime.drain()
        assert (await seen(runtime, run))["state"] == "done"
    assert told == [value]


@pytest.mark.parametrize("returns", [None, str | None, Any], ids=str)
async def test_where_nothing_fits_no_result_is_needed(app: App, returns: Any):
    told = booking(app, returns)
    async with working(app) as runtime:
        run = await go(runtime)
        assert (await said(runtime, run)).first
        await runtime.drain()
        assert (await seen(runtime, run))["state"] == "done"
    assert told == [None]


async def test_what_was_staged_needs_none_for_no_code_reads_it(app: App):
    booking(app, str, staged=True)
    async with working(app) as runtime:
        run = await go(runtime)
        assert (await said(runtime, run, "7")).unfit
        assert (await said(runtime, run)).first
        await runtime.drain()
        assert (await seen(runtime, run))["state"] == "done"


async def test_another_process_learns_of_another_type(new_app: Any, store_url: str):
    first, second = new_app(), new_app()
    booking(first, str)
    async with working(first) as runtime:
        await go(runtime)
    booking(second, int)
    async with working(second) as runtime:
        run = await go(runtime)
        refused = await said(runtime, run)
    assert refused.refused is not None
    assert "its action returns a whole number" in refused.refused
    assert len(await query(store_url, "select reference from wakeful_action")) == 1


async def test_a_result_that_does_not_fit_is_held_again_where_the_type_was_not_known(app: App, store_url: str):
    told = booking(app, int)
    async with working(app) as runtime:
        run = await go(runtime)
        await query(store_url, "delete from wakeful_action")
        assert (await said(runtime, run, '"seven"')).first
        await runtime.drain()
        held = await seen(runtime, run)
        assert held["state"] == "held"
        assert "ada confirmed it, but the result of action book does not fit" in held["reason"]
        assert "--result JSON" in held["reason"]
        assert (await said(runtime, run, "7")).first
        await runtime.drain()
    assert told == [7]


class Order:
    """An agent that books, and then does something with the number."""

    def __init__(self, app: App, *, fails: type[Exception] = Persistent) -> None:
        self.told: list[str] = []
        self.right = "A7"

        @action
        async def book(op: Operation) -> str:
            raise TimeoutError("no answer")

        async def fetch(number: str) -> str:
            self.told.append(number)
            if number != self.right:
                raise fails("no such booking")
            return f"ticket of {number}"

        @app.agent(on("go"), name="agent", attempts=2)
        async def agent(run: Run) -> str:
            number = await run.act(book)
            if number == "unread":
                raise Persistent("that is no number")
            return await run.step(fetch, number)


class TestCorrecting:
    async def test_a_run_that_died_of_a_wrong_result_goes_on_with_the_right_one(self, app: App):
        order = Order(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await said(runtime, run, '"B8"')
            await runtime.drain()
            assert (await seen(runtime, run))["state"] == "dead"
            corrected = await said(runtime, run, '"A7"', by="bob")
            assert (corrected.first, corrected.corrected, corrected.effect.settled_by) == (True, True, "bob")
            await runtime.store.do(RedoRun(run["id"], by=Actor("bob", "code")))
            await runtime.drain()
            after = await seen(runtime, run)
        assert (after["state"], after["output"]) == ("done", "ticket of A7")
        assert order.told == ["B8", "A7"]

    async def test_one_that_waits_for_its_next_try_does_too(self, app: App):
        order = Order(app, fails=Transient)
        async with working(app) as runtime:
            run = await go(runtime)
            await said(runtime, run, '"B8"')
            await runtime.drain()
            assert (await seen(runtime, run))["state"] == "waiting"
            assert (await said(runtime, run, '"A7"')).corrected
            await pass_time(runtime)
            assert (await seen(runtime, run))["state"] == "done"
        assert order.told[-1] == "A7"

    async def test_before_it_was_ever_read(self, app: App):
        order = Order(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await runtime.store.do(ChangePause("app", "agent", paused=True, by=Actor("ada", "code")))
            await said(runtime, run, '"unread"')
            assert (await said(runtime, run, '"A7"')).corrected
            await runtime.store.do(ChangePause("app", "agent", paused=False, by=Actor("ada", "code")))
            await runtime.drain()
        assert order.told == ["A7"]

    async def test_once_anything_more_is_stored_it_stands(self, app: App):
        Order(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await said(runtime, run, '"A7"')
            await runtime.drain()
            refused = await said(runtime, run, '"B8"', by="bob")
            assert (refused.first, refused.unfit) == (False, False)
            assert (
                refused.refused
                == f"run {run['id']} went on with the result that ada gave and stored more: it can no longer be corrected"
            )
            assert (await seen(runtime, run))["effects"][0]["result"] == "A7"

    async def test_while_the_run_is_at_work_it_stands(self, app: App):
        refused: list[Settled] = []

        @action
        async def book(op: Operation) -> str:
            raise TimeoutError("no answer")

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> str:
            number = await run.act(book)
            refused.append(await said(runtime, {"effects": [{"id": effect}]}, '"A7"'))
            return number

        async with working(app) as runtime:
            run = await go(runtime)
            effect = run["effects"][0]["id"]
            await said(runtime, run, '"B8"')
            await runtime.drain()
            assert (await seen(runtime, run))["output"] == "B8"
        assert not refused[0].first
        assert f"run {run['id']} is running with the result that ada gave" in str(refused[0].refused)

    async def test_one_that_a_person_had_called_again_has_a_result_of_its_own(self, app: App):
        answers: list[Any] = [TimeoutError(), "C9"]

        @action
        async def book(op: Operation) -> str:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return str(answer)

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> str:
            await run.act(book)
            raise Persistent("broken")

        async with working(app) as runtime:
            run = await go(runtime)
            await said(runtime, run, verb="repeat")
            await runtime.drain()
            refused = await said(runtime, run, '"A7"')
            assert (refused.first, refused.corrected) == (False, False)
            assert (await seen(runtime, run))["effects"][0]["result"] == "C9"

    async def test_a_correction_must_fit_too(self, app: App):
        Order(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await said(runtime, run, '"B8"')
            assert (await said(runtime, run, "7")).unfit
