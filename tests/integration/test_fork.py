"""Forking, on both stores: a new run of the family keeps what was finished before a step, and finds what was done."""

from __future__ import annotations

from typing import Any

import pytest

from support.apps import go, working
from wakeful import App, Operation, Persistent, Run, action, on
from wakeful.errors import InvalidData, NotFound
from wakeful.operations.forking import plan_fork
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.redo import Redone, RedoRun


class Press:
    """An agent that fetches, sums up, prints and tells; and what it was asked for."""

    def __init__(self, app: App) -> None:
        self.calls: list[str] = []
        self.broken = False

        async def fetch(number: int) -> str:
            self.calls.append(f"fetch {number}")
            return f"text {number}"

        async def sum_up(texts: list[str]) -> str:
            self.calls.append("sum up")
            if self.broken:
                raise Persistent("broken")
            return " and ".join(texts)

        @action(safety="idempotent")
        async def tell(op: Operation) -> str:
            self.calls.append("tell")
            return "told"

        @app.agent(on("go"), name="press")
        async def press(run: Run) -> dict[str, Any]:
            began = run.now()
            texts = [await run.step(fetch, 1), await run.step(fetch, 2)]
            await run.act(tell)
            summary = await run.step(sum_up, texts)
            return {"summary": summary, "data": run.event.data, "began": began.isoformat()}


async def fork(runtime: Runtime, run: dict[str, Any], step: str, edit: Any = None, note: str | None = None) -> Redone:
    request = plan_fork(run, step).request(edit, by=Actor("ada", "code"), note=note)
    forked = await runtime.store.do(request)
    assert forked is not None
    await runtime.drain()
    return forked


async def shown(runtime: Runtime, identifier: str) -> dict[str, Any]:
    run = await runtime.reader.run(identifier)
    assert run is not None
    return run


async def test_what_was_finished_before_the_step_is_kept_and_effects_are_found(app: App):
    press = Press(app)
    async with working(app) as runtime:
        run = await go(runtime, "data")
        press.calls.clear()
        forked = await fork(runtime, run, "sum_up", note="another way")
        assert (forked.run, forked.was, forked.refused) == (f"{run['id']}.1", "done", None)
        after = await shown(runtime, forked.run)
        story = await runtime.reader.why(forked.run)
    assert press.calls == ["sum up"]
    assert (after["state"], after["output"]) == ("done", run["output"])
    assert [one["name"] for one in after["steps"]] == ["fetch", "fetch#2", "sum_up"]
    (remedy,) = after["remedies"]
    assert (remedy["verb"], remedy["operator"], remedy["data"]) == ("fork", "ada", {"run": run["id"], "step": "sum_up"})
    assert story is not None
    assert any(
        f"ada forked it from run {run['id']}" in line and "before step sum_up" in line for line in story["story"]
    )


async def test_from_the_second_of_two_the_first_is_kept(app: App):
    press = Press(app)
    async with working(app) as runtime:
        run = await go(runtime)
        press.calls.clear()
        await fork(runtime, run, "fetch#2")
    assert press.calls == ["fetch 2", "sum up"]


async def test_from_the_first_everything_is_done_again_but_for_effects(app: App):
    press = Press(app)
    async with working(app) as runtime:
        run = await go(runtime)
        press.calls.clear()
        await fork(runtime, run, "fetch")
    assert press.calls == ["fetch 1", "fetch 2", "sum up"]


async def test_what_it_keeps_can_be_edited(app: App):
    press = Press(app)
    async with working(app) as runtime:
        run = await go(runtime, {"number": 1})
        plan = plan_fork(run, "sum_up")
        kept = plan.shown()
        assert kept == {"data": {"number": 1}, "steps": {"fetch": "text 1", "fetch#2": "text 2"}}
        kept["data"]["number"] = 2
        kept["steps"]["fetch#2"] = "another text"
        forked = await fork(runtime, run, "sum_up", kept)
        after = await shown(runtime, forked.run)
        story = await runtime.reader.why(forked.run)
        again = await shown(runtime, (await fork(runtime, after, "sum_up")).run)
    assert after["output"]["summary"] == "text 1 and another text"
    assert after["output"]["data"] == {"number": 2}
    assert after["remedies"][0]["data"]["steps"] == {"fetch#2": "another text"}
    assert story is not None
    assert any("with edited data, result of fetch#2" in line for line in story["story"])
    assert again["output"] == after["output"], "what was edited is kept by the next fork"
    assert press.calls.count("tell") == 1


async def test_a_dead_one_can_be_forked_before_the_step_that_failed(app: App):
    press = Press(app)
    press.broken = True
    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "dead"
        press.broken = False
        forked = await fork(runtime, run, "sum_up", {"steps": {"fetch": "mended"}})
        after = await shown(runtime, forked.run)
        before = await shown(runtime, run["id"])
    assert (after["state"], after["output"]["summary"]) == ("done", "mended and text 2")
    assert before["state"] == "dead"


async def test_a_cancelled_one_finds_what_was_not_undone(app: App):
    press = Press(app)
    async with working(app) as runtime:
        run = await go(runtime)
        redone = await runtime.store.do(RedoRun(run["id"], again=True, by=Actor("ada", "code")))
        assert redone is not None
        await runtime.store.do(CancelRun(redone.run, by=Actor("ada", "code")))
        await runtime.drain()
        forked = await fork(runtime, run, "sum_up")
        assert forked.run == f"{run['id']}.2"
    assert press.calls.count("tell") == 1


async def test_only_what_is_over_and_has_no_relative_at_work(app: App):
    Press(app)
    async with working(app) as runtime:
        run = await go(runtime)
    async with app.running(worker=False) as runtime:
        request = plan_fork(run, "sum_up").request(None, by=Actor("ada", "code"), note=None)
        first = await runtime.store.do(request)
        second = await runtime.store.do(request)
        assert first is not None
        assert second is not None
        assert first.refused is None
        assert second.refused == (
            f"shares its effects with run {first.run}, which has not ended: wait for that run, or cancel it"
        )
        request.id = first.run
        waiting = await runtime.store.do(request)
        assert waiting is not None
        assert waiting.refused == "is ready: only a run that has ended can be forked"
        request.id = "nothing"
        assert await runtime.store.do(request) is None


class TestAnEdit:
    @pytest.mark.parametrize(
        ("edit", "words"),
        [
            ([], "an edit is an object like"),
            ({"date": 1}, 'not "date". Did you mean "data"?'),
            ({"steps": []}, '"steps" is an object of results'),
            ({"steps": {"fetch#3": 1}}, 'does not keep a step "fetch#3". Did you mean "fetch#2"?'),
            ({"steps": {"sum_up": 1}}, 'a fork from sum_up does not keep a step "sum_up"'),
        ],
    )
    async def test_that_does_not_fit_is_refused(self, app: App, edit: Any, words: str):
        Press(app)
        async with working(app) as runtime:
            run = await go(runtime)
        with pytest.raises(InvalidData) as caught:
            plan_fork(run, "sum_up").request(edit, by=Actor("ada", "code"), note=None)
        assert words in str(caught.value)

    async def test_a_step_that_does_not_exist(self, app: App):
        Press(app)
        async with working(app) as runtime:
            run = await go(runtime)
        with pytest.raises(NotFound) as caught:
            plan_fork(run, "sumup")
        assert str(caught.value) == (
            f'run {run["id"]} has no step "sumup". Did you mean "sum_up"? Its steps, in order: fetch, fetch#2, sum_up.'
        )

    async def test_an_action_is_no_step(self, app: App):
        Press(app)
        async with working(app) as runtime:
            run = await go(runtime)
        with pytest.raises(NotFound) as caught:
            plan_fork(run, "tell")
        said = str(caught.value)
        assert '"tell" is an action: its confirmed effects are reused wherever the run is forked.' in said
        assert "fetch, fetch#2, sum_up" in said

    async def test_a_run_without_steps(self, app: App):
        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None: ...

        async with working(app) as runtime:
            run = await go(runtime)
        with pytest.raises(NotFound, match="It has no steps"):
            plan_fork(run, "fetch")
