"""Dead letters replayed all at once, against the same number of new events: the same agent, the same three steps.

The letters died before their first step, so nothing of them is done yet. Both ways go through one app in one process: new
events come in by `app.emit`, 64 in flight, and the replay is the one behind `wakeful replay --all --rate max`. What is
counted is the time until the last run is done.

Runs in a process of its own: `python -m bench.engine_replay --store URL --letters 10000`.
"""

import argparse
import asyncio
import json
import logging
import time
from typing import Any

import structlog

from bench.engine_runs import PAYLOAD, fetch, judge, summarise
from wakeful import App, Persistent, Run, on
from wakeful.cli.working import spare_the_collector
from wakeful.operations.redo import Choice, plan_redo, redo_letters
from wakeful.runtime import Runtime
from wakeful.stores.known import count_runs
from wakeful.stores.request import Actor

IN_FLIGHT = 64


class Fault:
    """What is wrong with the agent until somebody mends it."""

    mended = True


def make_app(store: str) -> App:
    app = App(
        "bench", store=store, in_flight=IN_FLIGHT, pause_after=None
    )  # letters that die in a row are what is wanted here

    @app.agent(on("bench.ticket.created"))
    async def floor(run: Run, data: dict[str, Any]) -> dict[str, object]:
        if not Fault.mended:
            raise Persistent("a fault in the code")
        found = await run.step(fetch, data["number"])
        verdict = await run.step(judge, found)
        return {**await run.step(summarise, verdict), "comment": "nothing to do"}

    return app


async def measure(store: str, letters: int) -> dict[str, float]:
    """Runs per second: of new events, and of dead letters that are replayed."""
    app = make_app(store)
    async with app.running(migrate=True) as runtime:
        spare_the_collector()
        await finish(app, runtime, "warm", 1_000)
        Fault.mended = False
        await finish(app, runtime, "dead", letters)
        Fault.mended = True
        began = time.perf_counter()
        await finish(app, runtime, "new", letters)
        normal = time.perf_counter() - began
        began = time.perf_counter()
        plan = await plan_redo(runtime.reader, Choice())
        redone = await redo_letters(runtime.store, plan.letters, by=Actor("bench", "code"))
        await runtime.drain()
        replay = time.perf_counter() - began
        counts = await count_runs(runtime.reader)
    if redone != letters or counts != {"done": 2 * letters + 1_000}:
        message = f"not every run went well, so the figures mean nothing: {redone} replayed, {counts}"
        raise RuntimeError(message)
    return {"new_per_second": letters / normal, "replayed_per_second": letters / replay}


async def finish(app: App, runtime: Runtime, name: str, count: int) -> None:
    """So many new events, always as many in flight, until the last of their runs has ended."""
    room = asyncio.Semaphore(IN_FLIGHT)
    runtime.worker.on_finished = room.release

    async def emit(number: int) -> None:
        await app.emit("bench.ticket.created", PAYLOAD, source="/bench", id=f"{name}-{number:012d}")

    waiting: set[asyncio.Task[None]] = set()
    for number in range(count):
        await room.acquire()
        task = asyncio.create_task(emit(number))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    await runtime.drain()


def main() -> None:
    """Measure one store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--letters", type=int, default=10_000)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    import uvloop

    print(json.dumps(uvloop.run(measure(options.store, options.letters))))


if __name__ == "__main__":
    main()
