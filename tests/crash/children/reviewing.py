"""Apps in which a model decides, a person decides, or a person returns an output, so that a crash can cut any of it."""

from __future__ import annotations

from typing import Any, Literal

from wakeful import App, Choice, Operation, Run, action, on
from wakeful.operations.answering import answer_approval
from wakeful.stores.request import Actor
from wakeful.stores.verbs.returning import ReturnRun

Way = Literal["model", "person", "return"]
CLERK = Actor("the clerk", "code")
# In the process of the test: how often the model was asked, what the handler was told, and how often a step ran.
asked: list[str] = []
told: list[str] = []
written: list[int] = []


@action(safety="idempotent")
async def ship(op: Operation, what: str) -> None:
    """Counted by the kit: once."""


async def triage(question: str, options: list[str]) -> Choice:
    """Another answer each time: only the record can make it the same."""
    asked.append(question)
    return Choice(options[len(asked) % len(options)], 0.9 if question.endswith("surely?") else 0.1)


async def write(remarks: int) -> str:
    written.append(remarks)
    return "HELP" if remarks else "HELP!"


def polite(text: str) -> bool:
    return "!" not in text


def build(way: Way) -> App:
    app = App("reviewing")

    if way == "return":

        @app.agent(on("order.placed"), checks=[polite], deliver="log")
        async def order(run: Run) -> str:
            await run.act(ship, "one")
            text = await run.step(write, len(run.remarks))
            run.stage(ship, text)
            return text
    else:

        @app.agent(on("order.placed"))
        async def order(run: Run) -> str:
            question = "Ship it, surely?" if way == "model" else "Ship it?"
            answer = await run.decide(question, ["sea", "air"], model=triage, ask="ops", timeout="8d")
            told.append(answer)
            await run.act(ship, "one")
            await run.sleep("3h")
            told.append(await run.step(same, answer))
            return answer

    app.agent(on("order.placed"), name="clerk")(clerk_of(app, way))
    return app


async def same(answer: str) -> str:
    return answer


def clerk_of(app: App, way: Way) -> Any:
    async def act() -> None:
        """What a person does in a shell. Whether it is the first answer is known to the store."""
        runtime: Any = app.runtime
        if way == "return":
            for run in (await runtime.reader.runs(state="held"))["runs"]:
                await runtime.store.do(ReturnRun(run["id"], "calmer", by=CLERK))
        else:
            for question in (await runtime.reader.approvals(state="open"))["approvals"]:
                await answer_approval(runtime.store, question["id"], "air", by=CLERK)

    async def clerk(run: Run) -> None:
        await run.sleep("1h")
        await run.step(act)

    return clerk


def reset() -> None:
    asked.clear()
    told.clear()
    written.clear()
