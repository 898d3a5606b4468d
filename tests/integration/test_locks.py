"""run.lock: one run at a time among all workers, fenced, and free as soon as its holder is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.apps import FOREVER, NewApp, ended, go, the_run, working
from support.stores import query
from wakeful import App, Run, VirtualClock, action, on
from wakeful.errors import LockLost, LockTimeout, Transient
from wakeful.execution.actions import Operation
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.processes import BuryProcess


class Gate:
    """Lets a handler stop where the test wants it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def stop(self) -> None:
        self.reached.set()
        await self.open.wait()


async def note(word: str) -> str:
    return word


class TestOneAtATime:
    async def test_runs_of_two_workers_never_hold_it_together(self, new_app: NewApp):
        inside, most, tokens = 0, 0, []

        def declare(app: App) -> App:
            @app.agent(on("go"))
            async def work(run: Run) -> None:
                nonlocal inside, most
                async with run.lock("till", wait="1h") as lock:
                    inside += 1
                    most = max(most, inside)
                    tokens.append(lock.token)
                    await run.step(note, "in")
                    inside -= 1

            return app

        first, second = declare(new_app()), declare(new_app())
        async with working(first) as one, working(second) as two:
            receipts = [await first.emit("go", n) for n in range(20)]
            await asyncio.gather(one.drain(), two.drain())
            assert [(await the_run(one, receipt))["state"] for receipt in receipts] == ["done"] * 20
        assert most == 1
        assert tokens == list(range(1, 21))

    async def test_other_names_do_not_wait_for_each_other(self, app: App):
        gates = {"a": Gate(), "b": Gate()}

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async with run.lock(run.event.data):
                await gates[run.event.data].stop()

        async with working(app) as runtime:
            for name in gates:
                await app.emit("go", name)
            runtime.worker.look()
            for gate in gates.values():
                await gate.reached.wait()
                gate.open.set()
            await runtime.drain()

    async def test_branches_of_one_run_take_turns(self, app: App):
        order: list[str] = []

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async def branch(name: str) -> None:
                async with run.lock("till", wait="1h"):
                    order.append(f"{name} in")
                    await run.step(note, name)
                    order.append(f"{name} out")

            await asyncio.gather(branch("a"), branch("b"))

        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "done"
        assert order in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])


class TestWaiting:
    async def test_ends_with_an_error_that_names_the_holder(self, app: App):
        gate, told = Gate(), []

        @app.agent(on("hold"))
        async def hold(run: Run) -> None:
            async with run.lock("till"):
                await gate.stop()

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            try:
                async with run.lock("till", wait="20ms"):
                    pass
            except LockTimeout as error:
                told.append(str(error))
                gate.open.set()

        async with working(app) as runtime:
            held = await app.emit("hold")
            runtime.worker.look()
            await gate.reached.wait()
            await go(runtime)
        assert told[0].startswith('lock "till" was not free within 20 ms: run ' + held.runs[0] + " of agent hold")
        assert f"wakeful why {held.runs[0]}" in told[0]

    async def test_is_told_by_why_as_long_as_it_lasts(self, app: App):
        gate = Gate()

        @app.agent(on("hold"))
        async def hold(run: Run) -> None:
            async with run.lock("till"):
                await gate.stop()

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async with run.lock("till", wait="1h"):
                pass

        async with working(app) as runtime:
            held = await app.emit("hold")
            runtime.worker.look()
            await gate.reached.wait()
            waiting = await app.emit("go")
            runtime.worker.look()
            while not await runtime.database.fetch("waits_for_locks", waiting.runs[0]):
                await asyncio.sleep(0)
            story = " ".join((await runtime.reader.why(waiting.runs[0]) or {})["story"])
            assert 'It waits for lock "till" since' in story
            assert f"run {held.runs[0]} of agent hold has held it since" in story
            assert 'It has held lock "till" since' in " ".join((await runtime.reader.why(held.runs[0]) or {})["story"])
            (listed,) = await runtime.reader.locks()
            assert (listed["name"], listed["run"], listed["waiting"]) == ("till", held.runs[0], 1)
            gate.open.set()
            assert (await ended(runtime, waiting))["state"] == "done"
            assert await runtime.reader.locks() == []
            assert "waited for lock" not in " ".join((await runtime.reader.why(waiting.runs[0]) or {})["story"])

    async def test_one_who_stops_waiting_does_not_keep_it(self, app: App):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async def take() -> None:
                async with run.lock("till"):
                    await asyncio.get_running_loop().create_future()

            task = asyncio.ensure_future(take())
            for _ in range(run.event.data):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            async with run.lock("till", wait="0s"):
                pass

        async with working(app) as runtime:
            for turns in (0, 1, 2, 3, 5, 10, 100):
                assert (await go(runtime, turns))["state"] == "done", turns


class TestGone:
    async def test_a_process_that_dies_lets_go(self, new_app: NewApp, clock: Any):
        gate = Gate()

        def declare(app: App, *, stops: bool) -> App:
            @app.agent(on("go"))
            async def work(run: Run) -> int:
                async with run.lock("till", wait="0s") as lock:
                    if stops:
                        await gate.stop()
                    return lock.token

            return app

        async with working(declare(new_app(), stops=False), worker=False) as runtime:
            dying = declare(new_app(), stops=True).running(lease=FOREVER)
            one = await dying.__aenter__()
            receipt = await one.app.emit("go")
            await gate.reached.wait()
            await one.die()
            process = one.membership.process
            await runtime.start()
            await runtime.store.do(BuryProcess(process, certain=True))
            run = await ended(runtime, receipt)
            assert (run["state"], run["output"]) == ("done", 2)

    async def test_a_run_that_is_put_away_lets_go(self, app: App, clock: Any):
        tries = 0

        async def fails_once() -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise Transient("later", retry_after="1m")

        @app.agent(on("go"))
        async def work(run: Run) -> int:
            async with run.lock("till", wait="0s") as lock:
                await run.step(fails_once)
                return lock.token

        @app.agent(on("other"))
        async def other(run: Run) -> int:
            async with run.lock("till", wait="0s") as lock:
                return lock.token

        async with working(app) as runtime:
            receipt = await app.emit("go")
            assert (await ended(runtime, receipt))["state"] == "waiting"
            assert (await ended(runtime, await app.emit("other")))["output"] == 2
            clock.move("2m")
            assert (await ended(runtime, receipt))["output"] == 3

    async def test_a_paused_attempt_commits_nothing_once_another_has_it(self, new_app: NewApp, store_url: str):
        gate = Gate()

        def declare(app: App, *, stops: bool) -> App:
            @app.agent(on("go"))
            async def work(run: Run) -> str:
                async with run.lock("till", wait="0s"):
                    if stops:
                        await gate.stop()
                    return await run.step(note, f"{run.event.data} by {'first' if stops else 'second'}")

            return app

        async with working(declare(new_app(), stops=True)) as one, working(declare(new_app(), stops=False)) as two:
            receipt = await one.app.emit("go", "work")
            one.worker.look()
            await gate.reached.wait()
            one.worker.claim_nothing_more()
            await two.store.do(BuryProcess(one.membership.process, certain=True))
            assert (await ended(two, receipt))["output"] == "work by second"
            gate.open.set()
            await one.worker.idle()
            run = await the_run(two, receipt)
            assert [step["result"] for step in run["steps"]] == ["work by second"]


class TestFence:
    async def test_a_step_that_comes_after_its_block_is_refused(self, app: App):
        told: list[Exception] = []

        @app.agent(on("go"), attempts=1)
        async def work(run: Run) -> None:
            let_go = asyncio.Event()

            async def late() -> None:
                await let_go.wait()
                await run.step(note, "late")

            async with run.lock("till"):
                task = asyncio.ensure_future(late())
                await run.step(note, "in time")
            let_go.set()
            try:
                await task
            except LockLost as error:
                told.append(error)
                raise

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert [step["result"] for step in run["steps"]] == ["in time"]
        assert 'lock "till" is no longer held' in str(told[0])

    async def test_effects_transactions_and_events_are_refused_too(self, app: App, dialect: str):
        called, refused = [], []

        @action(safety="idempotent")
        async def pay(op: Operation) -> None:
            called.append(op.id)

        def plain(db: Any) -> None:
            called.append("sqlite")

        async def awaited(db: Any) -> None: ...

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            let_go = asyncio.Event()

            async def late(call: Any) -> None:
                await let_go.wait()
                try:
                    await call()
                except LockLost:
                    refused.append(call)

            async with run.lock("till"):
                calls = [
                    lambda: run.act(pay),
                    lambda: run.emit("more"),
                    lambda: run.transaction(plain if dialect == "sqlite" else awaited),
                ]
                tasks = [asyncio.ensure_future(late(call)) for call in calls]
            let_go.set()
            await asyncio.gather(*tasks)

        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["steps"], run["effects"]) == ("done", [], [])
            assert len((await runtime.reader.events())["events"]) == 1
        assert len(refused) == 3
        assert called == []

    async def test_branches_beside_the_block_are_not_concerned(self, app: App):
        @app.agent(on("go"))
        async def work(run: Run) -> list[str]:
            freed = asyncio.Event()

            async def beside() -> str:
                await freed.wait()
                return await run.step(note, "beside")

            async def inside() -> str:
                async with run.lock("till"):
                    word = await run.step(note, "inside")
                freed.set()
                return word

            return list(await asyncio.gather(inside(), beside()))

        async with working(app) as runtime:
            assert (await go(runtime))["output"] == ["inside", "beside"]


class TestRefused:
    @pytest.mark.parametrize("bad", ["", 7, "x" * 201])
    async def test_names_that_are_none(self, app: App, bad: Any):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            run.lock(bad)

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "a lock's name is a text" in run["error"]["message"]

    async def test_a_wait_that_is_none(self, app: App):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            run.lock("till", wait="soon")

        async with working(app) as runtime:
            assert "is not a duration" in (await go(runtime))["error"]["message"]

    async def test_taking_it_inside_itself(self, app: App):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async with run.lock("till"), run.lock("till"):
                pass

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert "agent work already holds this lock" in run["error"]["message"]

    async def test_inside_a_step(self, app: App):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async def step() -> None:
                run.lock("till")

            await run.step(step)

        async with working(app) as runtime:
            assert "run.lock inside step step" in (await go(runtime))["error"]["message"]

    @pytest.mark.parametrize("call", ["sleep", "wait_for", "call", "ask"])
    async def test_a_durable_wait_inside_it(self, app: App, call: str):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            waits = {
                "sleep": lambda: run.sleep("1h"),
                "wait_for": lambda: run.wait_for("answer", timeout="1h"),
                "call": lambda: run.call("work"),
                "ask": lambda: run.ask("well?", timeout="1h"),
            }
            async with run.lock("till"):
                await waits[call]()

        async with working(app) as runtime:
            run = await go(runtime)
        assert run["state"] == "dead"
        assert f'run.{call} inside run.lock("till") of agent work' in run["error"]["message"]

    async def test_but_not_one_after_it(self, app: App, clock: VirtualClock):
        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async with run.lock("till"):
                pass
            await run.sleep("1h")

        async with working(app) as runtime:
            receipt = await app.emit("go")
            assert (await ended(runtime, receipt))["state"] == "waiting"
            clock.move("1h")
            assert (await ended(runtime, receipt))["state"] == "done"

    async def test_its_token_outside_the_block(self, app: App):
        @app.agent(on("go"))
        async def work(run: Run) -> int:
            return run.lock("till").token

        async with working(app) as runtime:
            assert "only known inside `async with`" in (await go(runtime))["error"]["message"]


async def test_every_name_keeps_its_counter(app: App, store_url: str):
    """The token never falls: another system that saw a higher one refuses what comes later."""

    @app.agent(on("go"))
    async def work(run: Run) -> int:
        async with run.lock("till") as lock:
            return lock.token

    async with working(app) as runtime:
        assert [(await go(runtime, n))["output"] for n in range(3)] == [1, 2, 3]
    assert await query(store_url, "select token, run_seq from wakeful_lock") == [(3, None)]


class TestCancelled:
    async def test_a_run_that_undoes_what_it_did_has_no_lock(self, app: App):
        gate, undoing = Gate(), Gate()

        async def take_back(op: Operation) -> None:
            await undoing.stop()

        @action(safety="idempotent", undo=take_back)
        async def give(op: Operation) -> None: ...

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            await run.act(give)
            async with run.lock("till"):
                await run.step(gate.stop)
                await run.step(note, "never")

        @app.agent(on("next"))
        async def follow(run: Run) -> str:
            async with run.lock("till", wait="0s"):
                return "got it"

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await gate.reached.wait()
            await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code")))
            gate.open.set()
            await undoing.reached.wait()
            following = await app.emit("next")
            while (run := await the_run(runtime, following))["state"] in {"ready", "running"}:
                await asyncio.sleep(0.01)
            undoing.open.set()
            cancelled = await ended(runtime, receipt)
        assert (run["state"], run["output"], cancelled["state"]) == ("done", "got it", "cancelled")

    async def test_a_run_that_waits_for_one_stops_at_once(self, app: App):
        gate, asking = Gate(), asyncio.Event()

        @app.agent(on("go"))
        async def work(run: Run) -> None:
            async with run.lock("till"):
                await run.step(gate.stop)

        @app.agent(on("next"))
        async def follow(run: Run) -> None:
            asking.set()
            async with run.lock("till", wait="1h"):
                await run.step(note, "never")

        async with working(app) as runtime:
            receipt = await app.emit("go")
            await gate.reached.wait()
            following = await app.emit("next")
            await asking.wait()
            await runtime.store.do(CancelRun(following.runs[0], by=Actor("ada", "code")))
            async with asyncio.timeout(60):
                while (run := await the_run(runtime, following))["state"] != "cancelled":
                    await asyncio.sleep(0.01)
            gate.open.set()
            first = await ended(runtime, receipt)
        assert (run["steps"], first["state"]) == ([], "done")
