"""What a fleet works on: the app of the crash tests, calls that can be held while they are under way, and an agent that has
one more step in newer code. Everything that a body does is counted outside of every process.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from crash.children.workload import QUICKLY, Counter, build
from wakeful import App, Operation, Persistent, Run, action, on, step
from wakeful.testing.waiting import until

Gate = Callable[[str], Awaitable[None]]

FOR_EVER = 3600.0  # the test that started us has less patience


def loaded(*, audited: bool) -> App:
    """The app of a worker, whose surroundings name the store, the file that counts, and the gate."""
    surroundings = os.environ
    counter = Counter(Path(surroundings["FLEET_COUNTER"]))
    return build_fleet(surroundings["WAKEFUL_STORE"], counter, Path(surroundings["FLEET_GATE"]), audited=audited)


def build_fleet(url: str, counter: Counter, gate: Path, *, audited: bool = False) -> App:
    """The app. `gate`: as in the crash tests. `audited`: with the step that newer code has."""
    app = build(url, counter, gate=gate)

    async def come_to_the_gate(event: str) -> None:
        await until(lambda: gate.is_file() or (gate / event).is_file(), within=FOR_EVER)

    for safety in ("idempotent", "at_most_once"):
        declare_call(app, counter, come_to_the_gate, safety)
    declare_upgraded(app, counter, come_to_the_gate, audited=audited)
    declare_saga(app, counter, come_to_the_gate)
    return app


def declare_call(app: App, counter: Counter, come_to_the_gate: Gate, safety: Any) -> None:
    """An agent whose one call reaches the service outside once the gate is open."""

    @action(name=f"reach_{safety}", safety=safety, backoff=QUICKLY)
    async def reach(op: Operation, event: str) -> str:
        counter.note(event, f"began.{op.id}")
        await come_to_the_gate(event)
        counter.note(event, f"reached.{op.id}")
        return f"reached by {os.getpid()}"

    @app.agent(on(f"call.{safety}"), name=f"call_{safety}", backoff=QUICKLY)
    async def ring(run: Run) -> str:
        return await run.act(reach, run.event.id)


def declare_saga(app: App, counter: Counter, come_to_the_gate: Gate) -> None:
    """An agent that fails for good, and undoes its two effects; the last one is undone once the gate is open."""

    async def give_back(op: Operation, event: str, what: str) -> str:
        counter.note(event, f"gives-back-{what}.{op.id}")
        if what == "room":
            await come_to_the_gate(event)
        counter.note(event, f"gave-back-{what}.{op.id}")
        return f"by {os.getpid()}"

    @action(safety="idempotent", undo=give_back, backoff=QUICKLY)
    async def take(op: Operation, event: str, what: str) -> str:
        counter.note(event, f"took-{what}.{op.id}")
        return what

    @app.agent(on("saga.begun"), on_failure="undo")
    async def saga(run: Run) -> None:
        await run.act(take, run.event.id, "seat")
        await run.act(take, run.event.id, "room")
        raise Persistent("no hotel")


def declare_upgraded(app: App, counter: Counter, come_to_the_gate: Gate, *, audited: bool) -> None:
    @action(safety="idempotent", backoff=QUICKLY)
    async def post(op: Operation, event: str) -> str:
        counter.note(event, f"posted.{op.id}")
        return "posted"

    @app.agent(on("upgrade.*"), backoff=QUICKLY)
    async def upgraded(run: Run) -> list[str]:
        event = run.event.id

        @step
        async def fetch() -> str:
            counter.note(event, "fetch")
            return "fetch"

        @step
        async def audit() -> str:
            counter.note(event, "audit")
            return "audit"

        @step
        async def hold() -> str:
            counter.note(event, "held")
            if run.event.type == "upgrade.held":
                await come_to_the_gate(event)
            return "hold"

        before = [await run.step(fetch), *([await run.step(audit)] if audited else [])]
        return [*before, await run.step(hold), await run.act(post, event)]
