"""`app.result`: the output of a run, for whoever waits for it, without polling."""

from __future__ import annotations

import asyncio
import sys
import textwrap

import pytest
from pydantic import BaseModel

from support.apps import NewApp, working
from wakeful import App, Persistent, Run, RunFailed, TimedOut, on
from wakeful.errors import ConfigError, NotFound, StoreUnavailable
from wakeful.execution import results
from wakeful.stores.request import Actor
from wakeful.stores.verbs.cancel import CancelRun
from wakeful.stores.verbs.redo import RedoRun


@pytest.fixture(autouse=True)
def no_safety_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look that is taken anyway: what is tested is that a waiter is woken."""
    monkeypatch.setattr(results, "FIRST_LOOK", 3600.0)


class Answer(BaseModel):
    words: str
    length: int


def answering(app: App) -> App:
    @app.agent(on("ask"))
    async def answer(run: Run, words: str) -> Answer:
        if words == "boom":
            message = "no such words"
            raise Persistent(message)
        return Answer(words=words, length=len(words))

    return app


async def test_the_output_as_what_the_handler_returns(new_app: NewApp):
    app = answering(new_app(clock=None))
    async with working(app):
        receipt = await app.emit("ask", "hello")
        assert await app.result(receipt) == Answer(words="hello", length=5)
        assert await app.result(receipt.runs[0]) == Answer(words="hello", length=5)  # also when it is long over


async def test_a_run_that_is_dead(new_app: NewApp):
    app = answering(new_app(clock=None))
    async with working(app):
        receipt = await app.emit("ask", "boom")
        with pytest.raises(RunFailed, match="no such words") as failed:
            await app.result(receipt, timeout="30s")
    assert (failed.value.run, failed.value.state) == (receipt.runs[0], "dead")
    assert isinstance(failed.value.error, Persistent)
    assert str(failed.value.error) == "no such words"
    assert failed.value.__cause__ is failed.value.error


async def test_a_run_that_is_not_over_in_time_goes_on(new_app: NewApp):
    app, release = new_app(clock=None), asyncio.Event()

    @app.agent(on("ask"))
    async def slow(run: Run) -> str:
        await release.wait()
        return "at last"

    async with working(app):
        receipt = await app.emit("ask")
        with pytest.raises(TimedOut, match=f"run {receipt.runs[0]} of agent slow is not over within 10 ms"):
            await app.result(receipt, timeout="10ms")
        release.set()
        assert await app.result(receipt) == "at last"


async def test_many_waiters_at_once(new_app: NewApp):
    app = answering(new_app(clock=None))
    async with working(app):
        receipts = await asyncio.gather(*[app.emit("ask", "x" * number, id=str(number)) for number in range(64)])
        answers = await asyncio.gather(*[app.result(receipt) for receipt in receipts])
    assert [answer.length for answer in answers] == list(range(64))


async def test_a_process_that_only_sends_hears_of_a_run_that_another_one_ended(new_app: NewApp):
    worker, sender, release = new_app(clock=None), new_app(clock=None), asyncio.Event()
    for app in (worker, sender):

        @app.agent(on("ask"))
        async def slow(run: Run) -> str:
            await release.wait()
            return "done there"

    async with working(worker) as runtime, working(sender, worker=False) as sending:
        receipt = await sender.emit("ask")
        waiting = asyncio.create_task(sender.result(receipt, timeout="60s"))
        await waited_for_elsewhere(runtime, sending)
        release.set()
        assert await waiting == "done there"


async def waited_for_elsewhere(runtime, sending) -> None:
    """Until the caller waits, and the process that has the run knows it (where it must know)."""
    while not sending.results._waiters or (runtime.database.dialect == "postgres" and not runtime.results._elsewhere):
        await asyncio.sleep(0)


async def test_the_store_alone_will_do(new_app: NewApp):
    """Outside of app.running(): the store is opened for as long as the wait takes."""
    worker, outside = answering(new_app(clock=None)), answering(new_app(clock=None))
    async with working(worker):
        receipt = await outside.emit("ask", "from outside")
        assert await outside.result(receipt) == Answer(words="from outside", length=12)
    assert outside.runtime is None


async def test_a_real_other_process_waits(new_app: NewApp, store_url: str):
    child = textwrap.dedent(
        """
        import asyncio, sys
        from wakeful import App, on

        app = App("app", store=sys.argv[1])

        @app.agent(on("ask"))
        async def answer(run, words): ...

        async def main():
            receipt = await app.emit("ask", "over there", id="1")
            print((await app.result(receipt, timeout="60s"))["length"])

        asyncio.run(main())
        """
    )
    async with working(answering(new_app(clock=None))):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", child, store_url, stdout=pipe)
        said, _ = await process.communicate()
    assert (said.decode().strip(), process.returncode) == ("10", 0)


async def test_a_run_that_a_person_cancels(new_app: NewApp):
    app = new_app(clock=None)

    @app.agent(on("ask"))
    async def patient(run: Run) -> None:
        await run.sleep("30d")

    async with working(app) as runtime:
        receipt = await app.emit("ask")
        waiting = asyncio.create_task(app.result(receipt, timeout="60s"))
        while not runtime.results._waiters:
            await asyncio.sleep(0)
        await runtime.store.do(CancelRun(receipt.runs[0], by=Actor("ada", "code"), note="not needed"))
        with pytest.raises(RunFailed, match="not needed") as failed:
            await waiting
    assert (failed.value.state, failed.value.error) == ("cancelled", None)


async def test_an_event_that_takes_the_place_of_a_run_ends_the_wait_for_it(new_app: NewApp):
    app = new_app(clock=None)

    @app.agent(on("ask"), debounce=("1h", "2h"))
    async def newest(run: Run) -> None: ...

    async with working(app):
        first = await app.emit("ask", id="1")
        waiting = asyncio.create_task(app.result(first, timeout="60s"))
        await asyncio.sleep(0)
        await app.emit("ask", id="2")
        with pytest.raises(RunFailed, match="event 2 took its place"):
            await waiting


async def test_what_cannot_be_waited_for(new_app: NewApp):
    app = answering(new_app(clock=None))

    @app.agent(on("ask"))
    async def second(run: Run) -> None: ...

    async with working(app):
        receipt = await app.emit("ask", "hello", id="both")
        with pytest.raises(ValueError, match=f"event both has 2 runs.*{receipt.runs[0]}, {receipt.runs[1]}"):
            await app.result(receipt)
        with pytest.raises(ValueError, match="event lonely is unmatched and has no run"):
            await app.result(await app.emit("nobody", id="lonely"))
        with pytest.raises(NotFound, match="no run 0815"):
            await app.result("0815")
        with pytest.raises(ConfigError, match=r"app\.result: timeout"):
            await app.result(receipt.runs[0], timeout="soon")


async def test_an_app_that_stops_tells_whoever_waits(new_app: NewApp):
    app = new_app(clock=None)

    @app.agent(on("ask"))
    async def patient(run: Run) -> None:
        await run.sleep("30d")

    async with working(app) as runtime:
        receipt = await app.emit("ask")
        waiting = asyncio.create_task(app.result(receipt, timeout=None))
        while not runtime.results._waiters:
            await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="the app stopped"):
        await waiting


async def test_the_safety_net_finds_an_end_that_nothing_told_of(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(results, "FIRST_LOOK", 0.01)
    app = answering(new_app(clock=None))
    async with working(app) as runtime:
        monkeypatch.setattr(runtime.results, "_committed", lambda _: None)
        assert (await app.result(await app.emit("ask", "hello"))).length == 5


async def test_without_a_waiter_no_commit_is_looked_at(new_app: NewApp):
    """A run that nobody waits for costs nothing here."""
    app = answering(new_app(clock=None))
    async with working(app) as runtime:
        assert runtime.store.journal.on_committed is None
        receipt = await app.emit("ask", "hello")
        await app.result(receipt)
        assert runtime.store.journal.on_committed is None or runtime.results._elsewhere
        assert not runtime.results._waiters
        assert runtime.results._net is None


async def test_what_other_processes_wait_for_is_forgotten_in_time(new_app: NewApp, monkeypatch: pytest.MonkeyPatch):
    """A caller that died never takes its word back: commits must not be looked at for it for ever."""
    monkeypatch.setattr(results, "REMEMBERED", 0.01)
    async with working(answering(new_app(clock=None))) as runtime:
        runtime.results.hear("awaits 0815 4711")
        assert runtime.store.journal.on_committed is not None
        while runtime.store.journal.on_committed is not None:
            await asyncio.sleep(0.001)
        assert runtime.results._forgetting is None


async def test_a_run_that_was_joined_is_waited_for_like_its_own(new_app: NewApp):
    app = new_app(clock=None)

    @app.agent(on("ask"), batch=(2, "1h"))
    async def together(run: Run) -> int:
        return len(run.events)

    async with working(app):
        receipts = [await app.emit("ask", id=str(number)) for number in range(2)]
        assert await asyncio.gather(*map(app.result, receipts)) == [2, 2]


async def test_a_dead_run_that_is_replayed_is_waited_for_anew(new_app: NewApp):
    """The result of a run id is the one that it has now."""
    app, calls = new_app(clock=None), []

    @app.agent(on("ask"))
    async def flaky(run: Run) -> str:
        calls.append(1)
        if len(calls) == 1:
            message = "not yet"
            raise Persistent(message)
        return "well"

    async with working(app) as runtime:
        receipt = await app.emit("ask")
        with pytest.raises(RunFailed):
            await app.result(receipt)
        await runtime.store.do(RedoRun(receipt.runs[0], by=Actor("ada", "code"), note="replay"))
        assert await app.result(receipt) == "well"
