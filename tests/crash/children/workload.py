"""The app that the crash tests put to work: two agents that use everything a run can do between two commits.

Whatever a step's body does is counted in a file outside of every database and process, with O_APPEND and fsync, so that
the count survives whoever wrote it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from wakeful import App, Backoff, Operation, Run, Transient, action, on, step
from wakeful.channels import Channel, Message
from wakeful.execution.actions import Action
from wakeful.testing.waiting import until

APP = "crash"
SOURCE = f"/{APP}"
NEIGHBOURS = 5
NEIGHBOURHOOD = {f"neighbour-{number}" for number in range(NEIGHBOURS)}
QUICKLY = Backoff(first="20ms", cap="20ms")


class Counter:
    """Lines `event step pid`, one for each time that a body ran."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        return self._path

    def note(self, event: str, name: str) -> None:
        line = f"{event} {name} {os.getpid()}\n".encode()
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def is_first(self, event: str) -> bool:
        """True once for each event, in whatever process."""
        marks = self._path.with_name("firsts")
        marks.mkdir(exist_ok=True)
        try:
            (marks / event).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def count(self, event: str, name: str) -> int:
        return sum(line[:2] == (event, name) for line in self.lines())

    def started_here(self) -> set[str]:
        return {event for event, name, pid in self.lines() if name == "start" and pid == os.getpid()}

    def lines(self) -> list[tuple[str, str, int]]:
        if not self._path.exists():
            return []
        return [(event, name, int(pid)) for event, name, pid in map(str.split, self._path.read_text().splitlines())]


def script(counter: Counter, name: str, gate: Path | None) -> str:
    """A program that counts itself as a step does, and waits at the gate."""
    wait = "" if gate is None else f"while [ ! -e {gate} ]; do sleep 0.02; done; "
    return f'echo "{name} start $$" >> {counter.path}; {wait}echo "{name} end $$" >> {counter.path}; echo done'


def build(
    url: str,
    counter: Counter,
    *,
    say: Callable[..., None] = lambda _what, **_more: None,
    in_flight: int = 64,
    gate: Path | None = None,
    slow_to_cancel: float = 0.0,
) -> App:
    """The app. `gate`: the step `held` waits until there is a file of that name, or in a folder of that name one that
    is called as the event.
    """
    app = App(APP, store=url, in_flight=in_flight, channels={"ops": Noting(counter)})
    repeatable, searchable, dangerous = actions_on(counter)
    book = book_on_sqlite if url.startswith("sqlite") else book_on_postgres

    @app.agent(on("order.placed"), backoff=QUICKLY)
    async def order(run: Run, data: dict[str, Any]) -> dict[str, Any]:
        number = data["number"]
        event = run.event.id
        moment = run.now()

        @step
        def fetch(number: int) -> int:  # sync on purpose: it runs in a thread
            counter.note(event, "fetch")
            return number * 10

        @step
        async def left(base: int) -> int:
            counter.note(event, "left")
            return base + 1

        @step
        async def right(base: int) -> int:
            counter.note(event, "right")
            return base + 2

        @step
        async def price(item: int) -> int:
            counter.note(event, f"price.{item}")
            return item * item

        @step(attempts=3, backoff=QUICKLY)
        async def flaky(number: int) -> str:
            counter.note(event, "flaky")
            if counter.is_first(event):
                raise Transient("the first try always fails")
            return f"ok {number}"

        @step
        async def close(total: int) -> int:
            counter.note(event, "close")
            return total + 1

        base = await run.step(fetch, number)
        both = await asyncio.gather(run.step(left, base), run.step(right, base))
        squares = await run.map(price, [1, 2, 3], limit=2)
        lucky = await run.step(flaky, number)
        total = sum(both) + sum(squares)
        counter.note(event, "before-booking")
        booked = await run.transaction(book, event, total)
        await run.emit("order.booked", {"number": number, "total": total})
        closed = await run.step(close, total)
        return {"closed": closed, "lucky": lucky, "booked": booked, "moment": moment.isoformat()}

    @app.agent(on("order.booked"), backoff=QUICKLY, state=Shipped, deliver="ops")
    async def ship(run: Run, data: dict[str, Any]) -> int:
        """Lets out everything that a run can: an effect, a staged one, its output, and a state."""
        event = str(run.event.causationid)

        @step
        async def pack(total: int) -> int:
            counter.note(event, "pack")
            return total * 2

        packed = await run.step(pack, data["total"])
        await run.act(repeatable, event)
        run.stage(searchable, event)
        run.state.orders.append(event)
        return packed

    @app.agent(on("gate.reached"), backoff=QUICKLY)
    async def wait(run: Run) -> str:
        event = run.event.id
        size = (run.event.data or {}).get("size", 0)

        @step
        async def before() -> str:
            counter.note(event, "before")
            return "before"

        @step
        async def held() -> str:
            counter.note(event, "held")
            if gate is not None:
                say("at the gate", run=run.id)
                try:
                    await until(lambda: gate.is_file() or (gate / event).is_file())
                except asyncio.CancelledError:
                    await asyncio.sleep(slow_to_cancel)  # cleaning up may take its time
                    raise
            counter.note(event, "through")
            return "held".ljust(size)

        @step
        async def after() -> str:
            counter.note(event, "after")
            return "after"

        return " ".join([await run.step(before), (await run.step(held)).strip(), await run.step(after)])

    for name, may_repeat in (("script", False), ("script.repeatable", True)):
        app.command(name, on(f"{name}.run"), script(counter, name, gate), repeatable=may_repeat)

    for chosen in (repeatable, searchable, dangerous):
        declare_twice(app, chosen)

    for name in ("idempotent", "at_most_once"):
        declare_once(app, counter, name)

    @app.agent(on("note.taken"))
    async def note(run: Run) -> None:
        counter.note(run.event.id, "note")

    @app.agent(on("poison.*"), backoff=QUICKLY)
    async def taste(run: Run) -> str:
        """The bad one takes its process with it; twice it waits until others are there to be taken along."""
        event = run.event.id
        counter.note(event, "start")
        if run.event.type == "poison.bad":
            if counter.count("bad", "start") <= 2:
                await until(lambda: counter.started_here() >= NEIGHBOURHOOD)
            os.kill(os.getpid(), signal.SIGKILL)
        if run.event.type == "poison.neighbour":
            await until(lambda: counter.count("bad", "start") > 2)

        @step
        async def sip() -> str:
            counter.note(event, "sip")
            return "sipped"

        value = await run.step(sip)
        counter.note(event, "end")
        return value

    return app


class Shipped(BaseModel):
    """What the shipping agent keeps from run to run."""

    orders: list[str] = Field(default_factory=list)


class Noting(Channel):
    """The other side is the counter: what is noted there has arrived."""

    repeats = "known"
    most = 10
    attempts = 1_000
    backoff = QUICKLY

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._counter.note(message.run, f"message.{message.id}")


def actions_on(counter: Counter) -> tuple[Action[[str], str], Action[[str], str], Action[[str], str]]:
    """One for each kind of safety. The service outside is the counter: what is noted there was done."""

    async def find(op: Operation, event: str) -> str | None:
        counter.note(event, "looked")
        return "found" if counter.count(event, op.id) else None

    @action(safety="idempotent", backoff=QUICKLY)
    async def repeatable(op: Operation, event: str) -> str:
        counter.note(event, op.id)
        return "done"

    @action(safety="reconcile", find=find, settle="0s", backoff=QUICKLY)
    async def searchable(op: Operation, event: str) -> str:
        counter.note(event, op.id)
        return "done"

    @action(backoff=QUICKLY)
    async def dangerous(op: Operation, event: str) -> str:
        counter.note(event, op.id)
        return "done"

    return repeatable, searchable, dangerous


def declare_twice(app: App, chosen: Action[[str], str]) -> None:
    """An agent that does something twice: equal arguments are two operations."""
    safety = chosen.options.safety

    @app.agent(on(f"effect.{safety}"), name=safety, backoff=QUICKLY)
    async def act(run: Run) -> list[str]:
        return [await run.act(chosen, run.event.id), await run.act(chosen, run.event.id)]


def declare_once(app: App, counter: Counter, safety: Any) -> None:
    """An agent whose runs all want the same two things done: one at once, one with the commit."""

    @action(name=f"act_{safety}", safety=safety, once="arguments.key", backoff=QUICKLY)
    async def do(op: Operation, key: str) -> str:
        counter.note(key, op.id)
        return "done"

    @action(name=f"stage_{safety}", safety=safety, once=lambda key: key, backoff=QUICKLY)
    async def do_later(op: Operation, key: str) -> str:
        counter.note(key, op.id)
        return "done"

    @app.agent(on(f"once.{safety}"), name=f"once.{safety}", backoff=QUICKLY)
    async def act(run: Run) -> str:
        run.stage(do_later, "staged")
        return await run.act(do, "acted")

    @app.agent(on(f"joined.{safety}"), name=f"joined.{safety}", backoff=QUICKLY, once="data.key")
    async def handle(run: Run) -> str:
        counter.note("joined", run.id)
        return "handled"


BOOKED = "create table if not exists booked (event text not null, total bigint not null)"


def book_on_sqlite(database: Any, event: str, total: int) -> int:
    database.execute("insert into booked (event, total) values (?, ?)", (event, total))
    return total


async def book_on_postgres(database: Any, event: str, total: int) -> int:
    await database.execute("insert into booked (event, total) values ($1, $2)", event, total)
    return total


STEPS = ("fetch", "left", "right", "price.1", "price.2", "price.3", "flaky", "close", "pack")


def expected(number: int) -> tuple[dict[str, Any], int]:
    """What the two runs of one order return, but for the moment."""
    total = (number * 10 + 1) + (number * 10 + 2) + 14
    return {"closed": total + 1, "lucky": f"ok {number}", "booked": total}, total * 2
