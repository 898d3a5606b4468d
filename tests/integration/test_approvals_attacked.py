"""Ways around an approval: each ends with the effect waiting, refused, or done by exactly the yes that its rules want."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from support.apps import NewApp, pass_time, the_run, working
from support.at_rest import everything_at_rest
from support.paying import (
    ADA,
    EVE,
    PEOPLE,
    approvals,
    begin,
    busy,
    declare,
    effects,
    halt,
    policy_of,
    put_in_force,
    say,
    write,
)
from wakeful import Denied, Operation, Run, Transient, action, on
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.redo import RedoRun

ALLOW_ALL = "policy: 1\nrules:\n  - {id: fine, action: pay, answer: allow}\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(policy_of())
    return path


@pytest.fixture
def new_app(new_app: NewApp, tmp_path: Path) -> NewApp:
    """Apps with people."""
    people = tmp_path / "people.yaml"
    people.write_text(PEOPLE)
    return lambda **options: new_app(people=people, **options)


class TestMostAsks:
    async def test_five_at_once_are_five(self, new_app: NewApp, policy: Path):
        """An answer to one resumes the run, which looks at the others again: they are not asked once more."""
        app = new_app(policy=policy)

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> Any:
            return await asyncio.gather(*(run.act(pay, amount) for amount in range(200, 205)))

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            for left in (5, 4, 3, 2, 1):
                asked = await approvals(runtime)
                assert len(asked) == left
                await say(runtime, asked[0])
            assert (await the_run(runtime, receipt))["output"] == [200, 201, 202, 203, 204]

    async def test_time_for_which_the_run_was_parked_gives_no_more(self, new_app: NewApp, policy: Path):
        """The start of a run is moved by that time."""
        app = new_app(policy=policy)

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> None:
            for amount in range(200, 206):
                await run.act(pay, amount)

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            for _ in range(4):
                await say(runtime, (await approvals(runtime))[0])
            await halt(runtime)
            await say(runtime, (await approvals(runtime))[0])
            assert (await the_run(runtime, receipt))["state"] == "parked"
            await pass_time(runtime, "1h")
            await halt(runtime, halted=False)
            run = await the_run(runtime, receipt)
            assert (run["state"], await approvals(runtime)) == ("denied", [])
            assert "asked 5 times" in run["reason"]


class TestNo:
    async def test_stands_if_the_policy_allows_it_by_now(self, new_app: NewApp, policy: Path):
        """The no comes after the run was claimed and before its effect is judged by the new policy."""
        app = new_app(policy=policy)
        paid: list[int] = []
        meanwhile: list[Callable[[], Awaitable[Any]]] = []

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            paid.append(amount)
            return amount

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> str:
            while meanwhile:
                await meanwhile.pop()()
            try:
                await run.act(pay, 150)
            except Denied as error:
                return str(error)
            return "paid"

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            meanwhile.append(lambda: runtime.store.do(AnswerApproval(asked["id"], "false", by=EVE)))
            await put_in_force(runtime, ALLOW_ALL)
            await runtime.drain()
            assert (await the_run(runtime, receipt))["output"] == "action pay: large: eve said no"
            assert [one["state"] for one in await effects(runtime)] == ["abandoned"]
        assert paid == []


class TestReplay:
    async def test_asks_anew_although_the_effect_has_not_ended(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app, busy("5h"))
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await say(runtime, (await approvals(runtime))[0])
            assert len(till.paid) == 1
            await pass_time(runtime, "6h")  # past the deadline of the run
            run = await the_run(runtime, receipt)
            if run["state"] != "dead":
                pytest.fail(f"{run['state']}: {run['reason']}")
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            await pass_time(runtime, "1h")
            assert len(till.paid) == 1
            assert len(await approvals(runtime)) == 1

    async def test_of_a_cancelled_run_asks_anew(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            run = await the_run(runtime, receipt)
            await asyncio.gather(
                runtime.store.do(AnswerApproval(asked["id"], "true", by=EVE)),
                runtime.store.do(CancelRun(run["id"], by=EVE)),
            )
            await runtime.drain()
            assert till.paid == []
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            assert till.paid == []
            (anew,) = await approvals(runtime)
            assert anew["id"] != asked["id"]
            await say(runtime, anew)
            assert len(till.paid) == 1


class TestVanished:
    async def test_a_handler_that_stops_waiting_is_done(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> int:
            return amount

        async def fail() -> None:
            raise ValueError("broken")

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> Any:
            return await asyncio.gather(run.act(pay, 150), run.step(fail))

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            await pass_time(runtime, "5h")
            run = await the_run(runtime, receipt)
            assert run["state"] == "dead"
            assert [one["state"] for one in await approvals(runtime, None)] == ["withdrawn"]
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] in {"dead", "waiting"}

    async def test_a_handler_that_does_not_ask_again_has_given_it_up(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        asks = [150]
        paid: list[int] = []

        @action(safety="idempotent")
        async def pay(_: Operation, amount: int, card: str = "4111") -> None:
            paid.append(amount)

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> str:
            await asyncio.gather(*(run.act(pay, one) for one in asks), run.wait_for("settled", timeout="1h"))
            return "settled in another way"

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            asks.clear()
            await app.emit("settled")
            await runtime.drain()
            assert (await the_run(runtime, receipt))["output"] == "settled in another way"
            assert [one["state"] for one in await approvals(runtime, None)] == ["withdrawn"]
            (effect,) = await effects(runtime)
            assert (effect["state"], effect["reason"]) == ("abandoned", "its run ended without asking for it")
        assert paid == []

    async def test_a_cancelled_run_ends_at_once(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            run = await the_run(runtime, receipt)
            await runtime.store.do(CancelRun(run["id"], by=EVE))
            await runtime.drain()
            assert (await the_run(runtime, receipt))["state"] == "cancelled"
            assert [one["state"] for one in await approvals(runtime, None)] == ["withdrawn"]
            assert [one["state"] for one in await effects(runtime)] == ["abandoned"]
        assert till.paid == []


class TestOnce:
    def shop(self, app: Any, refused: Any = ()) -> list[Any]:
        paid: list[Any] = []

        @action(safety="idempotent", once="arguments.invoice", once_for="30d")
        async def pay(_: Operation, amount: int, invoice: str, card: str = "4111") -> str:
            paid.append(invoice)
            return "paid"

        @app.agent(on("go"), name="billing", attempts=1)
        async def billing(run: Run) -> str:
            try:
                return await run.act(pay, run.event.data["amount"], run.event.data["invoice"])
            except refused:
                raise
            except Denied as error:
                return str(error)

        return paid

    @pytest.mark.usefixtures("durably")
    async def test_a_follower_gets_the_result(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        paid = self.shop(app)
        async with working(app) as runtime:
            first = await begin(app, runtime, invoice="a")
            second = await begin(app, runtime, invoice="a")
            await say(runtime, (await approvals(runtime))[0])
            await pass_time(runtime, "10m")
            assert [(await the_run(runtime, one))["output"] for one in (first, second)] == ["paid", "paid"]
        assert paid == ["a"]

    @pytest.mark.usefixtures("durably")
    @pytest.mark.parametrize("how", ["no", "nobody", "cancelled"])
    async def test_a_follower_of_one_that_was_not_done_goes_on(self, new_app: NewApp, policy: Path, how: str):
        app = new_app(policy=policy)
        paid = self.shop(app)
        async with working(app) as runtime:
            first = await begin(app, runtime, invoice="a")
            second = await begin(app, runtime, invoice="a")
            (asked,) = await approvals(runtime)
            if how == "no":
                await say(runtime, asked, "false")
            elif how == "nobody":
                await pass_time(runtime, "5h")
            else:
                await runtime.store.do(CancelRun((await the_run(runtime, first))["id"], by=EVE))
            await pass_time(runtime, "10m")
            assert ((await the_run(runtime, second))["state"], paid) == ("waiting", [])
            await say(runtime, (await approvals(runtime))[0])
            assert ((await the_run(runtime, second))["output"], paid) == ("paid", ["a"])

    async def test_a_replay_asks_anew(self, new_app: NewApp, policy: Path):
        app = new_app(policy=policy)
        paid = self.shop(app, refused=Denied)
        async with working(app) as runtime:
            receipt = await begin(app, runtime, invoice="a")
            await say(runtime, (await approvals(runtime))[0], "false")
            run = await the_run(runtime, receipt)
            assert run["state"] == "denied"
            await runtime.store.do(RedoRun(run["id"], by=EVE))
            await runtime.drain()
            await say(runtime, (await approvals(runtime))[0])
            assert ((await the_run(runtime, receipt))["output"], paid) == ("paid", ["a"])


class TestSealed:
    SECRET = "the-moon-is-made-of-cheese"

    @pytest.mark.parametrize(("answer", "edit"), [("true", None), ("false", None), ("true", "moon-cheese")])
    async def test_the_whole_way(
        self,
        new_app: NewApp,
        policy: Path,
        store_url: str,
        monkeypatch: pytest.MonkeyPatch,
        answer: str,
        edit: str | None,
    ):
        """Nothing of the arguments is readable at rest, and a run that people refused is not taken for tampered with."""
        pytest.importorskip("cryptography")
        monkeypatch.setenv("WAKEFUL_ENCRYPTION_KEYS", urlsafe_b64encode(bytes([1]) * 32).decode())
        write(
            policy, "policy: 1\nrules:\n  - {id: large, action: pay, answer: ask, approve: {edit: true, within: 4h}}\n"
        )
        app = new_app(policy=policy)
        paid: list[str] = []
        fails = ["once"]

        @action(safety="idempotent")
        async def pay(_: Operation, to: str) -> str:
            paid.append(to)
            return to

        async def flaky() -> None:
            if fails:
                raise Transient(fails.pop())

        @app.agent(on("go"), name="billing")
        async def billing(run: Run) -> str:
            try:
                got = await run.act(pay, self.SECRET)
            except Denied as error:
                got = str(error)
            await run.sleep("1h")
            await flaky()
            return got

        async with working(app) as runtime:
            receipt = await begin(app, runtime)
            (asked,) = await approvals(runtime)
            more: dict[str, Any] = (
                {} if edit is None else {"arguments": to_json({"to": f"{self.SECRET} {edit}"}).decode()}
            )
            await say(runtime, asked, answer, note=f"because {self.SECRET}", **more)
            for _ in range(3):
                await pass_time(runtime, "2h")
            run = await the_run(runtime, receipt)
            wanted = f"{self.SECRET} {edit}" if edit else self.SECRET
            assert (run["state"], paid) == ("done", [wanted] if answer == "true" else []), run["reason"]
        assert self.SECRET not in await everything_at_rest(store_url)


class TestVoters:
    async def test_a_kept_out_person_is_kept_out_by_any_way(self, new_app: NewApp, policy: Path):
        write(policy, policy_of("{by: [ops], edit: true, not_by: data.author, within: 4h}"))
        app = new_app(policy=policy)
        till = declare(app)
        async with working(app) as runtime:
            await begin(app, runtime, author="ada")
            (asked,) = await approvals(runtime)
            for by in (ADA, Actor("ada", "cli")):
                for more in ({}, {"arguments": '{"amount": 120}'}):
                    said = await say(runtime, asked, by=by, **more)
                    assert said.refused is not None
                    assert said.refused.kind == "person"
        assert till.paid == []
