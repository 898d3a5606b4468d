"""What people see of runs that wait, and what they can do: over HTTP and in the story of a run, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from pydantic import BaseModel

from support.apps import go, working
from support.tokens import TOKEN
from wakeful import App, Run, on
from wakeful.runtime import Runtime

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada"}


class Refund(BaseModel):
    amount: int
    reason: str


@asynccontextmanager
async def served(app: App) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as http:
            yield runtime, http


def shown(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


async def story(runtime: Runtime, identifier: str) -> str:
    told = await runtime.reader.why(identifier)
    assert told is not None
    return "\n".join(told["story"])


async def test_a_question_with_a_character_that_no_database_stores(app: App):
    @app.agent(on("go"), attempts=1)
    async def ask(run: Run) -> bool:
        return bool(await run.ask("Refund \0 it?", to="ops", schema=bool))

    async with working(app) as runtime:
        run = await go(runtime)
        assert run["state"] == "waiting"
        (asked,) = (await runtime.reader.approvals(state="open"))["approvals"]
        assert asked["question"] == "Refund \N{REPLACEMENT CHARACTER} it?"


class TestOverHttp:
    async def test_a_question_is_seen_and_answered(self, app: App):
        @app.agent(on("go"))
        async def ask(run: Run) -> int:
            refund: Refund = await run.ask("How much?", to="ops", schema=Refund)
            return refund.amount

        async with served(app) as (runtime, http):
            run = await go(runtime)
            (question,) = shown(await http.get("/v1/approvals", params={"state": "open"}))["approvals"]
            assert (question["question"], question["to"], question["run"]) == ("How much?", "ops", run["id"])
            one = f"/v1/approvals/{question['id'][:8]}"
            assert shown(await http.get(one)) == question
            wrong = shown(await http.post(f"{one}/answer", json={"answer": {"amount": "x"}}), 422)
            assert wrong["detail"] == 'reason is missing: text is expected; amount: a whole number is expected, not "x"'
            shown(await http.post(f"{one}/answer", json={"note": "?"}), 400)
            shown(await http.post("/v1/approvals/nothing/answer", json={"answer": 1}), 404)
            given = {"amount": 40, "reason": "broken"}
            answered = shown(await http.post(f"{one}/answer", json={"answer": given, "note": "seen it"}))
            told = {"state": "answered", "votes": 0, "of": 1}
            assert answered == {"id": question["id"], "run": run["id"], "answer": given, **told}
            late = shown(await http.post(f"{one}/answer", json={"answer": given}), 409)
            assert "ada answered it at " in late["detail"]
            await runtime.drain()
            run = (await runtime.reader.run(run["id"])) or {}
            assert (run["state"], run["output"]) == ("done", 40)
            kept = shown(await http.get(one))
            assert (kept["state"], kept["answered_by"], kept["note"]) == ("answered", "ada", "seen it")
            assert "ada answered its approval at" in await story(runtime, run["id"])

    async def test_it_needs_the_token(self, app: App):
        async with working(app):
            transport = httpx2.ASGITransport(app.asgi(open_to="loopback"))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                assert shown(await http.get("/v1/approvals"))["approvals"] == []
                shown(await http.post("/v1/approvals/x/answer", json={"answer": 1}), 403)


class TestTheStory:
    async def test_of_a_run_that_sleeps(self, app: App):
        @app.agent(on("go"))
        async def nap(run: Run) -> None:
            await run.sleep("3h")

        async with working(app) as runtime:
            told = await story(runtime, (await go(runtime))["id"])
        assert "the run has been asleep; it continues automatically at" in told
        assert "3 h 0 m from now." in told

    async def test_of_a_run_that_waits_for_an_event_and_of_that_event(self, app: App):
        @app.agent(on("go"))
        async def order(run: Run) -> None:
            await run.wait_for("paid", subject="order-7", where="data > 1", timeout="1d")

        async with working(app) as runtime:
            run = await go(runtime)
            told = await story(runtime, run["id"])
            assert "the run has waited for an event paid about order-7 where data > 1, until" in told
            assert "`wakeful emit APP paid --subject order-7` sends one" in told
            receipt = await app.emit("paid", 2, subject="order-7")
            assert f"Run {run['id']} of agent order waited for it and received it." in await story(runtime, receipt.id)

    async def test_of_a_run_that_called_another_and_of_that_one(self, app: App):
        @app.agent(on("go"))
        async def parent(run: Run) -> Any:
            return await run.call("child", 1)

        @app.agent()
        async def child(run: Run) -> str:
            await run.sleep("1h")
            return "done"

        async with working(app) as runtime:
            run = await go(runtime)
            (called,) = run["children"]
            assert (called["agent"], called["state"], run["parent"]) == ("child", "waiting", None)
            told = await story(runtime, run["id"])
            waits = f"the run has waited for run {called['id']} of agent child, which it called and which is waiting"
            assert waits in told
            assert f"`wakeful why {called['id']}` explains that run" in told
            assert ((await runtime.reader.run(called["id"])) or {})["parent"] == run["id"]
            assert f"It was called by run {run['id']}:" in await story(runtime, called["id"])

    async def test_of_a_run_that_asks_and_is_not_answered(self, app: App):
        @app.agent(on("go"))
        async def ask(run: Run) -> None:
            await run.ask("Sure?", to="ops", schema=bool, timeout="4h")

        async with working(app) as runtime:
            run = await go(runtime)
            (question,) = (await runtime.reader.approvals())["approvals"]
            told = await story(runtime, run["id"])
            assert "the run has asked ops: Sure? It waits for an answer until" in told
            assert f"`wakeful approvals answer {question['id']} ANSWER`" in told
            runtime.clock.move("4h")  # type: ignore[attr-defined]
            await runtime.drain()
            told = await story(runtime, run["id"])
        assert "Its wait ask ended without a result: TimedOut" in told
