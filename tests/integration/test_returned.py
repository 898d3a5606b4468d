"""Outputs that a person returns: the handler runs again, with the remarks."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from support.apps import NewApp, go, pass_time, working
from support.stores import query
from wakeful import App, Operation, Run, action, on, step
from wakeful.runtime import Runtime
from wakeful.stores.keyring import new_key
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.fork import ForkRun
from wakeful.stores.verbs.redo import RedoRun
from wakeful.stores.verbs.returning import Returned, ReturnRun

ADA = Actor("ada", "code")


def polite(text: str) -> str | None:
    return "no exclamation marks" if "!" in text else None


async def give_back(runtime: Runtime, run: dict[str, Any], remark: str = "calmer, please") -> Returned | None:
    return await runtime.store.do(ReturnRun(run["id"], remark, by=ADA))


async def look(runtime: Runtime, run: dict[str, Any]) -> dict[str, Any]:
    found = await runtime.reader.run(run["id"])
    assert found is not None
    return dict(found)


class Desk:
    """An agent whose step writes a louder text the fewer remarks there are, and what was done outside."""

    def __init__(self, app: App, *, returns: int = 1) -> None:
        self.written: list[int] = []
        self.read: list[int] = []
        self.posted: list[str] = []
        self.booked: list[str] = []
        self.remarks: list[Any] = []

        @step
        async def fetch() -> int:
            self.read.append(1)
            return len(self.read)

        @step
        async def write(remarks: int) -> str:
            self.written.append(remarks)
            return "HELP" + "!" * (returns - remarks)

        @action(safety="idempotent")
        async def post(_: Operation, text: str) -> str:
            self.posted.append(text)
            return f"posted {text}"

        @action(safety="idempotent")
        async def book(_: Operation, text: str) -> None:
            self.booked.append(text)

        @app.agent(on("go"), name="agent", checks=[polite], deliver="log", attempts=1)
        async def agent(run: Run) -> str:
            self.remarks = [(one.text, one.by) for one in run.remarks]
            await run.step(fetch)
            await run.act(post, "once")
            text = await run.step(write, len(run.remarks))
            run.stage(book, text)
            run.send("log", {"about": text})
            return text


class TestTheHandlerRunsAgain:
    async def test_with_the_remarks_and_its_effects_but_new_steps(self, app: App):
        desk = Desk(app, returns=2)
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["output"], desk.remarks) == ("held", "HELP!!", [])
            first = await give_back(runtime, run)
            assert first is not None
            assert (first.refused, first.number) == (None, 1)
            await runtime.drain()
            held = await look(runtime, run)
            assert (held["state"], held["output"]) == ("held", "HELP!")
            second = await give_back(runtime, run, "calmer still")
            assert second is not None
            assert second.number == 2
            (_, last) = (await look(runtime, run))["remedies"]
            assert last["note"] == "calmer still"
            await runtime.drain()
            done = await look(runtime, run)
        assert (done["state"], done["output"]) == ("done", "HELP")
        assert desk.remarks == [("calmer, please", "ada"), ("calmer still", "ada")]
        assert (desk.posted, desk.booked) == (["once"], ["HELP"])
        assert (len(desk.read), desk.written) == (3, [0, 1, 2])
        names = [one["name"] for one in done["steps"]]
        assert names == ["fetch", "write", "fetch@2", "write@2", "fetch@3", "write@3"]
        returned = [one for one in done["remedies"] if one["verb"] == "return"]
        assert [one["data"] for one in returned] == [{"output": "HELP!!"}, {"output": "HELP!"}]
        assert [one["note"] for one in returned] == ["calmer, please", "calmer still"]

    async def test_what_would_have_left_never_leaves(self, app: App):
        Desk(app)
        async with working(app) as runtime:
            run = await go(runtime)
            before = {one["id"]: one["state"] for one in run["deliveries"]}
            assert set(before.values()) == {"held"}
        async with app.running(worker=False) as runtime:
            await give_back(runtime, run)
            ready = await look(runtime, run)
        assert (ready["state"], ready["output"], ready["outcome"]) == ("ready", None, None)
        assert ready["reason"] == "returned by ada: calmer, please"
        assert {one["state"] for one in ready["deliveries"]} == {"discarded"}
        assert [one["state"] for one in ready["effects"]] == ["confirmed", "abandoned"]
        async with working(app) as runtime:
            await runtime.drain()
            done = await look(runtime, run)
            assert await alarms(runtime) == []
        assert {one["state"] for one in done["deliveries"] if one["id"] in before} == {"discarded"}
        assert {one["state"] for one in done["deliveries"] if one["id"] not in before} == {"delivered"}

    async def test_a_step_of_the_new_round_is_done_once(self, app: App):
        calls: list[str] = []

        @step
        async def count(name: str) -> int:
            calls.append(name)
            return len(calls)

        @app.agent(on("go"), name="agent", checks=[lambda output: output > 2])
        async def agent(run: Run) -> int:
            number = await run.step(count, "a")
            await run.sleep("1d")
            await run.map(count, ["b", "c"]) if run.remarks else None
            await run.sleep("2d")
            return number

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1d")
            await pass_time(runtime, "2d")
            assert (await look(runtime, run))["state"] == "held"
            await give_back(runtime, run)
            await runtime.drain()
            done = await look(runtime, run)
            assert done["state"] == "held"  # its sleeps were over, and a, b and c were done at once
            await give_back(runtime, run)
            await runtime.drain()
            done = await look(runtime, run)
        assert (done["state"], done["output"]) == ("done", 5)
        assert calls == ["a", "a", "b", "c", "a", "b", "c"]

    async def test_answers_of_people_and_the_time_of_sleeps_stay(self, app: App):
        times: list[Any] = []

        @app.agent(on("go"), name="agent", checks=[lambda output: output["round"] > 0])
        async def agent(run: Run) -> Any:
            times.append(run.now())
            answer = await run.ask("may I?", schema=bool, timeout="1d")
            return {"answer": answer, "round": len(run.remarks), "id": str(run.uuid())}

        async with working(app) as runtime:
            run = await go(runtime)
            (asked,) = (await runtime.reader.approvals(state="open"))["approvals"]
            await runtime.store.do(AnswerApproval(asked["id"], "true", by=ADA))
            await runtime.drain()
            held = await look(runtime, run)
            await pass_time(runtime, "3h")
            await give_back(runtime, run)
            await runtime.drain()
            done = await look(runtime, run)
        assert done["output"] == {"answer": True, "round": 1, "id": held["output"]["id"]}
        assert times[0] == times[1] < times[2]  # the clock is read anew in a new round

    async def test_other_arguments_for_a_confirmed_effect_hold_the_run(self, app: App):
        calls: list[int] = []

        @action(safety="idempotent")
        async def charge(_: Operation, amount: int) -> None:
            calls.append(amount)

        @app.agent(on("go"), name="agent", checks=[lambda output: output > 0], attempts=1)
        async def agent(run: Run) -> int:
            await run.act(charge, 10 + len(run.remarks))
            return len(run.remarks)

        async with working(app) as runtime:
            run = await go(runtime)
            await give_back(runtime, run)
            await runtime.drain()
            held = await look(runtime, run)
        assert (held["state"], calls) == ("held", [10])
        assert "arguments changed: was (10), now (11)" in held["reason"]

    async def test_the_state_of_the_agent_is_read_again(self, app: App):
        class Memory(BaseModel):
            seen: int = 0

        @app.agent(on("go"), name="agent", state=Memory, checks=[lambda output: output["remarks"] > 0])
        async def agent(run: Run) -> Any:
            run.state.seen += 1
            return {"seen": run.state.seen, "remarks": len(run.remarks)}

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["output"] == {"seen": 1, "remarks": 0}
            await give_back(runtime, run)
            await runtime.drain()
            done = await look(runtime, run)
            assert done["output"] == {"seen": 1, "remarks": 1}

    async def test_the_deadline_counts_anew(self, app: App):
        @app.agent(on("go"), name="agent", deadline="1h", checks=[lambda output: output > 0])
        async def agent(run: Run) -> int:
            return len(run.remarks)

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "5h")
            await give_back(runtime, run)
            await runtime.drain()
            assert (await look(runtime, run))["state"] == "done"

    async def test_a_run_of_a_key_keeps_its_place(self, app: App):
        order: list[Any] = []

        @app.agent(on("go"), name="agent", key="data.key", checks=[lambda output: output != "first"])
        async def agent(run: Run) -> Any:
            order.append(run.event.data["number"])
            return "first" if not run.remarks and run.event.data["number"] == 1 else "later"

        async with working(app) as runtime:
            run = await go(runtime, {"key": "k", "number": 1})
            await app.emit("go", {"key": "k", "number": 2})
            await runtime.drain()
            before = list(order)
            await give_back(runtime, run)
            await runtime.drain()
            assert (await look(runtime, run))["state"] == "done"
        assert order == [*before, *([1, 2] if before == [1] else [1])]

    async def test_other_code_may_continue_it(self, new_app: NewApp):
        old = new_app()

        @old.agent(on("go"), name="agent", checks=[polite], on_change="hold")
        async def agent(run: Run) -> str:
            return "HELP!"

        async with working(old) as runtime:
            run = await go(runtime)
        new = new_app()

        @new.agent(on("go"), name="agent", checks=[polite], on_change="hold")
        async def agent_of_later(run: Run) -> str:
            return f"help, {run.remarks[0].text}"

        async with working(new) as runtime:
            await give_back(runtime, run, "please")
            await runtime.drain()
            done = await look(runtime, run)
        assert (done["state"], done["output"]) == ("done", "help, please")
        assert done["change"] is None or done["change"]["not_asked_for"] == []

    async def test_a_restart_with_other_code_knows_the_remarks(self, new_app: NewApp):
        old = new_app()

        @old.agent(on("go"), name="agent", checks=[polite])
        async def agent(run: Run) -> str:
            if run.remarks:
                await run.sleep("1d")
            return "HELP!"

        async with working(old) as runtime:
            run = await go(runtime)
            await give_back(runtime, run, "please")
            await runtime.drain()
            assert (await look(runtime, run))["state"] == "waiting"
        new = new_app()

        @new.agent(on("go"), name="agent", checks=[polite], on_change="restart")
        async def agent_of_later(run: Run) -> str:
            return f"help, {[one.text for one in run.remarks]}"

        async with working(new) as runtime:
            await pass_time(runtime, "2d")
            done = await look(runtime, run)
        assert done["output"] == "help, ['please']"

    async def test_a_fork_of_a_later_round_keeps_the_remarks(self, app: App):
        desk = Desk(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await give_back(runtime, run)
            await runtime.drain()
            done = await look(runtime, run)
            key = next(one["key"] for one in done["steps"] if one["name"] == "write@2")
            forked = await runtime.store.do(ForkRun(run["id"], key, "write@2", by=ADA))
            assert forked is not None
            await runtime.drain()
            again = await look(runtime, {"id": forked.run})
            key = next(one["key"] for one in done["steps"] if one["name"] == "write")
            first = await runtime.store.do(ForkRun(run["id"], key, "write", by=ADA))
            assert first is not None
            await runtime.drain()
            of_first = await look(runtime, {"id": first.run})
        assert (again["state"], again["output"]) == ("done", "HELP")
        assert (of_first["state"], of_first["output"]) == ("held", "HELP!")
        assert (len(desk.read), desk.written) == (2, [0, 1, 1, 0])

    async def test_a_log_line_of_the_repeated_part_is_not_repeated(self, app: App):
        said: list[str] = []

        @step
        async def nothing() -> None: ...

        @app.agent(on("go"), name="agent", checks=[lambda output: output > 0])
        async def agent(run: Run) -> int:
            await run.step(nothing)
            said.extend([] if run.replaying else ["after the step"])
            await run.sleep("1d")
            said.extend([] if run.replaying else ["after the sleep"])
            if run.remarks:
                await run.sleep("3d")
            said.extend([] if run.replaying else ["at the end"])
            return len(run.remarks)

        async with working(app) as runtime:
            run = await go(runtime)
            await pass_time(runtime, "1d")
            await give_back(runtime, run)
            await runtime.drain()
            await pass_time(runtime, "3d")
            assert (await look(runtime, run))["state"] == "done"
        assert said == ["after the step", "after the sleep", "at the end"] * 2

    async def test_an_encrypted_store_keeps_its_remarks_and_outputs_secret(self, new_app: NewApp, store_url: str):
        app = new_app(encryption=[new_key()])
        desk = Desk(app, returns=2)
        async with working(app) as runtime:
            run = await go(runtime)
            await give_back(runtime, run, "calmer, please")
            await runtime.drain()
            await give_back(runtime, run, "calmer still")
            await runtime.drain()
            done = await look(runtime, run)
        assert (done["state"], done["output"]) == ("done", "HELP")
        assert desk.remarks == [("calmer, please", "ada"), ("calmer still", "ada")]
        stored = await query(store_url, "select key, result from wakeful_step where key like 'remark %'")
        assert len(stored) == 2
        assert not any("calmer" in row[1] for row in stored)
        remedies = await query(store_url, "select note, data from wakeful_remedy")
        assert not any("calmer" in row[0] or "HELP" in row[1] for row in remedies)


async def alarms(runtime: Runtime) -> list[str]:
    return [one["key"] for one in (await runtime.reader.alarms(state="open"))["alarms"]]


class TestRefused:
    async def test_a_run_that_is_not_held(self, app: App):
        Desk(app, returns=0)
        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "done"
            refused = await give_back(runtime, run)
            assert refused is not None
            assert refused.refused == (
                f"is done: only a held output can be returned; `wakeful replay {run['id']} --again` does it once more"
            )
            assert await look(runtime, run) == run

    async def test_one_that_has_ended(self, app: App):
        Desk(app)
        async with working(app) as runtime:
            run = await go(runtime)
            await runtime.store.do(RedoRun(run["id"], discard=True, by=ADA))
            refused = await give_back(runtime, run)
            assert refused is not None
            assert f"`wakeful replay {run['id']}` runs it again" in (refused.refused or "")

    async def test_one_that_is_held_for_an_effect(self, app: App):
        @action
        async def charge(_: Operation) -> None:
            raise TimeoutError("no answer")

        @app.agent(on("go"), name="agent")
        async def agent(run: Run) -> None:
            await run.act(charge)

        async with working(app) as runtime:
            run = await go(runtime)
            assert run["state"] == "held"
            refused = await give_back(runtime, run)
            assert refused is not None
            assert "is held for an effect: `wakeful effects list`" in (refused.refused or "")

    async def test_one_that_is_held_for_its_code(self, new_app: NewApp):
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

        async with working(new) as runtime:
            await pass_time(runtime, "2d")
            held = await look(runtime, run)
            assert held["state"] == "held"
            refused = await give_back(runtime, run)
            assert refused is not None
            assert f"is held, but not for its output: `wakeful why {run['id']}`" in (refused.refused or "")

    async def test_one_that_does_not_exist(self, app: App):
        async with working(app) as runtime:
            assert await give_back(runtime, {"id": "nothing"}) is None

    async def test_the_second_of_two_people(self, app: App):
        Desk(app)
        async with working(app) as runtime:
            run = await go(runtime)
            first, second = await asyncio.gather(give_back(runtime, run), give_back(runtime, run, "louder"))
            assert first is not None
            assert second is not None
            assert first.refused is None
            assert second.refused == "is ready: only a held output can be returned"
            await runtime.drain()
            done = await look(runtime, run)
        assert (done["state"], len([one for one in done["remedies"] if one["verb"] == "return"])) == ("done", 1)
