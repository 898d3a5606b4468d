"""Killed at every boundary: a sound agent is found to be sound, and each bug that is planted in one is found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import structlog

from testing.shop import Bank, Bug, build
from wakeful import App, Backoff, Operation, Run, Transient, action, cron, on, step
from wakeful.errors import ConfigError
from wakeful.testing import CrashReport, World, crash_everywhere

PAID = ("order.paid", {"amount": 20, "name": "the customer"})


async def crash(bug: Bug, store_url: str, event: Any = PAID) -> CrashReport:
    bank = Bank()
    return await crash_everywhere(build(bank, bug), event, store=store_url, observe=bank.holdings, reset=bank.clear)


async def test_a_sound_agent_is_clean(store_url: str):
    bank = Bank()
    report = await crash_everywhere(build(bank), PAID, store=store_url, observe=bank.holdings, reset=bank.clear)
    report.check()
    assert not report.problems
    assert not report.held
    assert bank.looks, "some crashes left it open whether a transfer was done"
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert {"AcceptEvents", "ClaimRuns", "SaveSteps", "OpenEffect", "SaveEffect", "FinishRun"} <= kinds
    assert {one.boundary.point for one in report.crashes} == {"before", "within", "after"}
    assert [one.boundary.number for one in report.crashes] == list(range(1, len(report.crashes) + 1))
    assert all(set(one.states.values()) == {"done"} for one in report.crashes)


async def test_a_side_effect_in_a_step_is_found(store_url: str):
    report = await crash("step", store_url)
    assert {problem.kind for problem in report.problems} == {"twice"}
    found = report.problems[0]
    assert "letters: thank you, the customer 2 times instead of 1" in found.what
    assert "SaveSteps" in found.boundary.requests
    assert found.boundary.point in {"before", "within"}, "once the step is stored it is not done again"
    with pytest.raises(AssertionError, match=r"(?s)shows: \d+ × twice.*! outside has letters: thank you"):
        report.check()


async def test_a_side_effect_in_the_handler_is_found(store_url: str):
    report = await crash("handler", store_url)
    assert any("letters: from the handler 2 times instead of 1" in str(problem) for problem in report.problems)


async def test_an_idempotent_action_that_ignores_its_id_is_found(store_url: str):
    report = await crash("ignores-id", store_url)
    assert any("charges: 20 2 times instead of 1" in problem.what for problem in report.problems)
    assert {problem.kind for problem in report.problems} == {"twice"}


async def test_a_find_that_never_finds_is_found(store_url: str):
    """Without a look outside: the kit itself counts what actions do."""
    report = await crash_everywhere(build(Bank(), "blind-find"), PAID, store=store_url)
    assert {problem.what for problem in report.problems} == {"transfer(20) was done 2 times instead of 1 (reconcile)"}
    assert any("SaveEffect" in problem.boundary.requests for problem in report.problems)


async def test_arguments_that_change_are_found(store_url: str):
    report = await crash("fresh-arguments", store_url)
    assert any("do its arguments change?" in problem.what for problem in report.problems)


async def test_what_may_happen_at_most_once_is_held_and_no_problem(store_url: str):
    report = await crash("none", store_url, "letter.wanted")
    report.check()
    assert report.held
    assert "held: send_letter: write: the process died during the call" in str(report)
    assert any(one.states == {"send_letter": "done"} for one in report.crashes)


async def test_back_offs_and_retries_are_crashed_too(store_url: str):
    app = App("app")
    tries: list[int] = []
    done: list[str] = []

    @step(attempts=3, backoff=Backoff(first="1h", cap="1h"))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise Transient("not now")
        return "at last"

    @action(safety="idempotent")
    async def note(op: Operation, text: str) -> None:
        if op.id not in done:
            done.append(op.id)

    @app.agent(on("go"))
    async def go(run: Run) -> str:
        text = await run.step(flaky)
        await run.act(note, text)
        return text

    def reset() -> None:
        tries.clear()
        done.clear()

    report = await crash_everywhere(app, "go", store=store_url, observe=lambda: len(done), reset=reset)
    report.check()
    assert "LeaveRun" in {request for one in report.crashes for request in one.boundary.requests}


async def test_a_transaction_is_done_once(store_url: str, dialect: str):
    app = App("app")

    def book_here(db: Any, number: int) -> int:
        db.execute("insert into booked values (?)", (number,))
        return number

    async def book_there(db: Any, number: int) -> int:
        await db.execute("insert into booked values ($1)", number)
        return number

    book = book_here if dialect == "sqlite" else book_there
    booked: list[int] = []

    @app.agent(on("go"))
    async def go(run: Run) -> int:
        await run.transaction(book, 7)
        return await run.transaction(count_here if dialect == "sqlite" else count_there)

    def count_here(db: Any) -> int:
        return int(next(iter(db.execute("select count(*) from booked")))[0])

    async def count_there(db: Any) -> int:
        return int(await db.fetchval("select count(*) from booked"))

    async def prepare(url: str) -> None:
        from support.stores import query

        await query(url, "create table booked (number bigint)")

    report = await crash_everywhere(app, "go", store=store_url, prepare=prepare, observe=lambda: booked)
    report.check()
    assert report.baseline.runs
    assert [run["output"] for run in report.baseline.runs.values()] == [1]
    kinds = {request for one in report.crashes for request in one.boundary.requests}
    assert kinds & {"TransactStep", "SaveTransacted"}


async def test_the_store_that_was_given_is_left_as_it_was(postgres_url: str):
    from support.stores import count, query

    await crash("none", postgres_url, "letter.wanted")
    assert await count(postgres_url, "wakeful_event") == 0
    assert await query(postgres_url, "select 1 from pg_namespace where nspname like 'wakeful_test%'") == []


async def test_fakes_are_arranged_in_each_world(store_url: str):
    app = App("app")
    sent: list[str] = []

    async def fetch() -> str:
        raise AssertionError

    @action(safety="idempotent")
    async def send(op: Operation, text: str) -> None:
        sent.append(op.id)

    @app.agent(on("go"))
    async def go(run: Run) -> str:
        text = await run.step(fetch)
        await run.act(send, text)
        return text

    def arrange(world: World) -> None:
        world.fake(fetch, returns="hello", takes="1h")
        world.fake(send, returns=None)

    report = await crash_everywhere(app, "go", store=store_url, arrange=arrange)
    report.check()
    assert {run["output"] for run in report.baseline.runs.values()} == {"hello"}
    assert [str(one) for one in report.baseline.deeds] == ['send("hello")']
    assert not sent
    with pytest.raises(ConfigError, match="arrange= cannot reach another one"):
        await crash_everywhere("app.py", "go", processes=True, arrange=arrange)


async def test_an_output_that_changes_is_found_unless_it_may():
    app = App("app")
    numbers = iter(range(1000))

    @app.agent(on("go"))
    async def go(run: Run) -> int:
        return next(numbers)

    report = await crash_everywhere(app, "go")
    assert {problem.kind for problem in report.problems} == {"otherwise"}
    assert "agent go returned" in report.problems[0].what
    (await crash_everywhere(app, "go", outputs=False)).check()


async def test_mistakes_are_told():
    with pytest.raises(ConfigError, match="no agent handles nothing: there is nothing to crash"):
        await crash_everywhere(build(Bank()), "nothing")
    with pytest.raises(ConfigError, match="pass the App itself, or set processes=True"):
        await crash_everywhere("shop:app", "order.paid")


async def test_an_event_that_nobody_takes_is_compared_too(store_url: str):
    app, chance = App("app"), iter(range(10_000))

    @app.agent(on("go"))
    async def go(run: Run) -> None:
        await run.emit("steady", 1)
        await run.emit("random", next(chance))

    report = await crash_everywhere(app, "go", store=store_url)
    assert {problem.kind for problem in report.problems} == {"otherwise", "twice"}
    assert all("event random" in problem.what for problem in report.problems)


async def test_an_agent_that_wakes_by_time_is_started(store_url: str):
    app, letters = App("app"), Counter[str]()

    @action(safety="idempotent")
    async def send(op: Operation, day: str) -> None:
        letters[f"{op.id} {day}"] = 1

    @app.agent(cron("0 8 * * *"))
    async def report(run: Run) -> str:
        assert run.scheduled_for is not None
        await run.act(send, run.scheduled_for.isoformat())
        return run.scheduled_for.isoformat()

    @app.agent(on("go"))
    async def other(run: Run) -> None:
        letters["other"] += 1

    for agent in ("report", report):
        crashed = await crash_everywhere(
            app, agent=agent, store=store_url, observe=lambda: letters, reset=letters.clear
        )
        crashed.check()
        kinds = {request for one in crashed.crashes for request in one.boundary.requests}
        assert {"AcceptEvents", "OpenEffect", "FinishRun"} <= kinds
        assert len(letters) == 1
    (await crash_everywhere(app, ("other.type", 7), agent="other", outputs=False)).check()
    with pytest.raises(ConfigError, match=r'no agent "reprot"\. Did you mean "report"'):
        await crash_everywhere(app, agent="reprot")


@pytest.mark.parametrize("wrong", [None, 7, (), ("go",), ("go", 1, 2), (7, {})])
async def test_an_event_that_is_none_is_refused(wrong: Any):
    with pytest.raises(TypeError, match="the event is its type"):
        await crash_everywhere(App("app"), wrong)


async def test_a_dead_process_says_nothing_any_more():
    bank = Bank()
    with structlog.testing.capture_logs() as lines:
        (await crash_everywhere(build(bank), PAID, reset=bank.clear)).check()
    assert {line["event"] for line in lines} == {"working"}
