"""Outages: while a dependency is down its runs are parked, one tries, and they come back in groups that double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, SupportsIndex

import httpx2
import pytest

from support.apps import NewApp, ended, go, pass_time, the_run, working
from support.receiver import Receiver, Reply
from support.stores import query
from wakeful import App, Circuit, Operation, Run, VirtualClock, action, on, step
from wakeful.model import Receipt
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.pauses import ChangePause
from wakeful.stores.verbs.progress import LeaveRun


class Down(list[Reply]):
    """The replies of a service that is down: never used up."""

    def __bool__(self) -> bool:
        return True

    def pop(self, index: SupportsIndex = -1, /) -> Reply:
        return Reply(503)


class Service:
    """A service on loopback that a test takes down and brings back."""

    def __init__(self, receiver: Receiver, http: httpx2.AsyncClient) -> None:
        self._receiver = receiver
        self._http = http

    @property
    def calls(self) -> int:
        return len(self._receiver.requests)

    def goes_down(self) -> None:
        self._receiver.replies = Down()

    def comes_back(self) -> None:
        self._receiver.replies = []

    async def call(self) -> int:
        answer = await self._http.get(self._receiver.url)
        answer.raise_for_status()
        return answer.status_code


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with Receiver() as receiver, httpx2.AsyncClient() as http:
        yield Service(receiver, http)


@pytest.fixture
def app(new_app: NewApp, service: Service) -> App:
    return declare(new_app(circuits={"stripe": Circuit(failures=3, rest="30s", interval="10s")}), service)


def declare(app: App, service: Service) -> App:
    @step(dependency="stripe", attempts=3, backoff="1ms")
    async def charge(number: int) -> int:
        return await service.call()

    @app.agent(on("go"), attempts=2)
    async def pay(run: Run) -> int:
        return await run.step(charge, run.event.data)

    return app


async def send(app: App, count: int) -> list[Receipt]:
    return [await app.emit("go", number) for number in range(count)]


async def states(runtime: Runtime, receipts: list[Receipt]) -> list[str]:
    return [(await the_run(runtime, receipt))["state"] for receipt in receipts]


async def circuit(runtime: Runtime) -> dict[str, Any]:
    (found,) = await runtime.reader.circuits()
    return found


class TestAnOutage:
    async def test_what_is_paused_is_not_asked_to_try(self, new_app: NewApp, service: Service):
        """Nobody would take it, and the others would wait for its word."""
        app = declare(new_app(circuits={"stripe": Circuit(failures=1, rest="30s", interval="10s")}), service)

        @step(dependency="stripe", attempts=1)
        async def refund(number: int) -> int:
            return await service.call()

        @app.agent(on("back"))
        async def repay(run: Run) -> int:
            return await run.step(refund, run.event.data)

        service.goes_down()
        async with working(app) as runtime:
            paused = await send(app, 3)
            await runtime.drain()
            others = [await app.emit("back", number) for number in range(2)]
            await runtime.drain()
            assert set(await states(runtime, paused + others)) == {"parked"}
            await runtime.store.do(ChangePause("app", "pay", paused=True, by=Actor("alice", "code")))
            service.comes_back()
            await pass_time(runtime, "30s")
            await pass_time(runtime, "10s")
            await pass_time(runtime, "10s")
            await pass_time(runtime, "10s")
            assert await states(runtime, others) == ["done", "done"]
            await runtime.store.do(ChangePause("app", "pay", paused=False, by=Actor("alice", "code")))
            await runtime.drain()
            assert set(await states(runtime, paused)) == {"done"}

    async def test_parks_its_runs_tries_with_one_and_lets_them_come_back_in_doubling_groups(
        self, app: App, service: Service
    ):
        service.goes_down()
        async with working(app) as runtime:
            receipts = await send(app, 20)
            await runtime.drain()
            assert set(await states(runtime, receipts)) == {"parked"}
            # The three that opened it, and those that were under way by then; none of them called twice.
            during = service.calls
            assert during <= 20
            for _ in range(3):
                await pass_time(runtime, "9s")
            assert service.calls == during
            await pass_time(runtime, "3s")
            assert service.calls == during + 1
            assert (await circuit(runtime))["rest"] == 60
            await pass_time(runtime, "59s")
            assert service.calls == during + 1
            service.comes_back()
            await pass_time(runtime, "1s")
            done = [(await states(runtime, receipts)).count("done")]
            for _ in range(4):
                await pass_time(runtime, "10s")
                done.append((await states(runtime, receipts)).count("done"))
            assert done == [2, 4, 8, 16, 20]  # the probe and one, two, four, eight, and the rest
            await pass_time(runtime, "10s")
            assert (await circuit(runtime))["state"] == "closed"

    async def test_uses_up_no_attempt_and_no_try(self, app: App, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            receipts = await send(app, 5)
            await runtime.drain()
            for _ in range(6):  # more probes than there are tries and attempts
                await pass_time(runtime, "20m")
            service.comes_back()
            await pass_time(runtime, "20m")
            for _ in range(3):
                await pass_time(runtime, "10s")
            for receipt in receipts:
                run = await the_run(runtime, receipt)
                assert (run["state"], run["attempts"]) == ("done", 1)
                assert {attempt["outcome"] for attempt in run["history"]} == {"parked"}
                assert run["steps"][0]["tries"] <= 3

    async def test_raises_an_alarm_that_resolves(self, app: App, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            await send(app, 3)
            await runtime.drain()
            (alarm,) = (await runtime.reader.alarms())["alarms"]
            assert (alarm["key"], alarm["state"]) == ("circuit/app/stripe", "open")
            assert "circuit stripe is open after 3 failures in a row, the last: HTTPStatusError" in alarm["text"]
            service.comes_back()
            await pass_time(runtime, "31s")
            for _ in range(3):
                await pass_time(runtime, "10s")
            (alarm,) = (await runtime.reader.alarms())["alarms"]
            assert alarm["state"] == "resolved"

    async def test_is_told_by_why(self, app: App, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            (receipt,) = await send(app, 1)
            await runtime.drain()
            story = " ".join((await runtime.reader.why(receipt.runs[0]) or {})["story"])
        assert "The run is parked (circuit stripe is open: HTTPStatusError" in story
        assert "Circuit stripe has been open since 2026-01-01 00:00:00" in story
        assert "`wakeful circuits close stripe` closes it now." in story

    async def test_stops_the_others_that_come_later(self, app: App, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            await send(app, 3)
            await runtime.drain()
            before = service.calls
            assert (await go(runtime, "later"))["state"] == "parked"
            assert service.calls == before

    async def test_is_known_to_processes_that_come_later(self, app: App, new_app: NewApp, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            await send(app, 3)
            await runtime.drain()
        before = service.calls
        async with working(declare(new_app(), service)) as second:
            assert (await go(second, "later"))["state"] == "parked"
        assert service.calls == before

    async def test_is_known_to_processes_beside(self, app: App, new_app: NewApp, service: Service, dialect: str):
        """By word on PostgreSQL, by the version of the file on SQLite: nobody waits for the slow look."""
        service.goes_down()
        async with working(app) as one, working(declare(new_app(), service)) as two:
            one.worker.claim_nothing_more()
            refreshed = asyncio.Event()
            refresh = two.circuits.refresh

            async def told() -> Any:
                found = await refresh()
                if any(circuit.state == "open" for circuit in found):
                    refreshed.set()
                return found

            two.circuits.refresh = told  # type: ignore[method-assign]  # a probe, not a stand-in
            for number in range(3):
                await one.circuits.report("stripe", number, ConnectionError("refused"))
            await refreshed.wait()
            receipt = await two.app.emit("go", "later")
            assert (await ended(two, receipt))["state"] == "parked"
        assert service.calls == 0


class TestWhatCounts:
    async def test_a_success_in_between_starts_the_count_anew(self, app: App, service: Service):
        async with working(app) as runtime:
            for number in range(4):
                service._receiver.replies = [Reply(503), Reply(503)]
                assert (await go(runtime, number))["state"] == "done"
            assert (await circuit(runtime))["state"] == "closed"

    @pytest.mark.parametrize("status", [404, 422, 429])
    async def test_a_service_that_says_no_is_there(self, app: App, service: Service, status: int):
        async with working(app) as runtime:
            for number in range(5):
                service._receiver.replies = [Reply(status, headers={"Retry-After": "600"})]
                await go(runtime, number)
            assert await runtime.reader.circuits() == []

    async def test_steps_without_a_dependency_are_not_concerned(self, app: App, service: Service):
        async def fails() -> None:
            message = "down"
            raise ConnectionError(message)

        @app.agent(on("other"), attempts=1)
        async def other(run: Run) -> None:
            await run.step(step(name="fails", attempts=10, backoff="1ms")(fails))

        async with working(app) as runtime:
            assert (await ended(runtime, await app.emit("other")))["state"] == "dead"
            assert await runtime.reader.circuits() == []


class TestProbes:
    async def test_one_that_ends_before_it_comes_to_the_dependency_is_followed_by_another(
        self, new_app: NewApp, service: Service
    ):
        app, gives_up = new_app(circuits={"stripe": Circuit(failures=1, rest="30s")}), False

        @step(dependency="stripe")
        async def charge(number: int) -> int:
            return await service.call()

        @app.agent(on("go"))
        async def pay(run: Run) -> int:
            if gives_up and run.event.data == 0:
                return 0
            return await run.step(charge, run.event.data)

        service.goes_down()
        async with working(app) as runtime:
            receipts = await send(app, 2)
            await runtime.drain()
            assert await states(runtime, receipts) == ["parked", "parked"]
            service.comes_back()
            gives_up, before = True, service.calls
            await pass_time(runtime, "30s")
            assert await states(runtime, receipts) == ["done", "done"]
            assert service.calls == before + 1

    async def test_with_nobody_parked_the_next_that_comes_is_the_probe(
        self, app: App, service: Service, clock: VirtualClock
    ):
        async with working(app) as runtime:
            for number in range(3):
                await runtime.circuits.report("stripe", number, ConnectionError("refused"))
            clock.move("31s")
            await runtime.drain()
            assert (await circuit(runtime))["state"] == "open"
            assert (await go(runtime))["state"] == "done"
            assert (await circuit(runtime))["state"] == "closed"

    async def test_a_run_that_is_about_to_be_parked_when_it_closes_is_ready_instead(
        self, app: App, service: Service, clock: VirtualClock
    ):
        """Nobody would let it come back: the circuit closes in the moment between its question and its commit."""
        service.goes_down()
        async with working(app) as runtime:
            do = runtime.store.do

            async def closes_first(request: Any) -> Any:
                if isinstance(request, LeaveRun) and request.state == "parked":
                    runtime.store.do = do  # type: ignore[method-assign]
                    service.comes_back()
                    await query(runtime.url, "update wakeful_circuit set state = 'closed', failures = 0")
                    await runtime.circuits.refresh()
                return await do(request)

            runtime.store.do = closes_first  # type: ignore[method-assign]  # a race that is forced, not a stand-in
            run = await go(runtime)
            assert run["state"] == "done"

    async def test_one_that_is_parked_for_a_closed_circuit_comes_back(self, app: App, service: Service, store_url: str):
        service.goes_down()
        async with working(app) as runtime:
            (receipt,) = await send(app, 1)
            await runtime.drain()
            await query(store_url, "update wakeful_circuit set state = 'closed', failures = 0")
            service.comes_back()
            assert (await ended(runtime, receipt))["state"] == "done"


class TestActions:
    @pytest.fixture
    def app(self, new_app: NewApp, service: Service) -> App:
        app = new_app(circuits={"stripe": Circuit(failures=2, rest="30s")})

        @action(safety="idempotent", dependency="stripe", attempts=2, backoff="1ms")
        async def charge(op: Operation, number: int) -> int:
            return await service.call()

        @app.agent(on("go"))
        async def pay(run: Run) -> int:
            return await run.act(charge, run.event.data)

        @app.agent(on("stage"))
        async def later(run: Run) -> str:
            run.stage(charge, run.event.data)
            return "committed"

        return app

    async def test_are_parked_and_done_once_it_is_back(self, app: App, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            receipts = await send(app, 2)
            await runtime.drain()
            assert await states(runtime, receipts) == ["parked", "parked"]
            effects = [(await the_run(runtime, one))["effects"][0] for one in receipts]
            assert {effect["state"] for effect in effects} == {"unknown"}  # 503: it may have been done
            late = await go(runtime, 7)
            assert late["state"] == "parked"
            (effect,) = late["effects"]
            assert (effect["state"], effect["tries"]) == ("retrying", 0)
            assert effect["reason"].startswith("not begun: circuit stripe is open")
            service.comes_back()
            await pass_time(runtime, "30s")
            for _ in range(3):
                await pass_time(runtime, "10s")
            assert await states(runtime, receipts) == ["done", "done"]

    async def test_staged_ones_too_and_the_handler_does_not_run_again(self, app: App, service: Service):
        service.goes_down()
        async with working(app) as runtime:
            for number in range(2):
                await runtime.circuits.report("stripe", number, ConnectionError("refused"))
            receipt = await app.emit("stage", 1)
            run = await ended(runtime, receipt)
            assert (run["state"], run["outcome"]["commit"]) == ("parked", "committed")
            service.comes_back()
            await pass_time(runtime, "30s")
            run = await the_run(runtime, receipt)
            assert (run["state"], run["output"], run["attempts"]) == ("done", "committed", 1)
            assert service.calls == 1

    async def test_what_may_be_done_at_most_once_is_held_as_declared(self, new_app: NewApp, service: Service):
        app = new_app(circuits={"stripe": Circuit(failures=1)})

        @action(dependency="stripe")
        async def once(op: Operation) -> int:
            return await service.call()

        @app.agent(on("go"))
        async def pay(run: Run) -> int:
            return await run.act(once)

        service.goes_down()
        async with working(app) as runtime:
            assert (await go(runtime))["state"] == "held"
            assert (await circuit(runtime))["state"] == "open"
            later = await go(runtime, id="2")
            assert (later["state"], later["effects"][0]["state"]) == ("parked", "retrying")

    async def test_find_is_not_asked_while_it_is_down(self, new_app: NewApp, service: Service):
        app, looked = new_app(circuits={"stripe": Circuit(failures=1)}), 0

        async def find(op: Operation) -> int | None:
            nonlocal looked
            looked += 1
            return 204

        @action(safety="reconcile", find=find, settle="0s", dependency="stripe")
        async def charge(op: Operation) -> int:
            return await service.call()

        @app.agent(on("go"))
        async def pay(run: Run) -> int:
            return await run.act(charge)

        service.goes_down()
        async with working(app) as runtime:
            run = await go(runtime)
            assert (run["state"], run["effects"][0]["state"], looked) == ("parked", "unknown", 0)
            service.comes_back()
            await pass_time(runtime, "30s")
            run = await the_run(runtime, Receipt("", "", "accepted", [run["id"]]))
            assert (run["state"], run["output"], looked) == ("done", 204, 1)


async def test_a_circuit_that_a_person_closes_lets_them_come_back_in_groups(app: App, service: Service):
    from wakeful.stores.verbs.circuits import CloseCircuit

    service.goes_down()
    async with working(app) as runtime:
        receipts = await send(app, 6)
        await runtime.drain()
        service.comes_back()
        await runtime.store.do(CloseCircuit("app", "stripe", by=Actor("ada", "code"), note="it is back"))
        await runtime.drain()
        assert (await states(runtime, receipts)).count("done") == 1
        for _ in range(3):
            await pass_time(runtime, "10s")
        assert (await states(runtime, receipts)).count("done") == 6
    (noted,) = await query(runtime.url, "select operator, verb, target, detail from wakeful_operation")
    assert tuple(noted) == ("ada", "circuit close", "stripe", "it is back")
