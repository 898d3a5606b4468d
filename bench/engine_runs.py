"""Wakeful on the workload of the floors: events come in by `app.emit`, 64 in flight, three steps each, until time is up.

They start together, as in the floors, and each that ends makes room for the next: so most transactions carry one kind of
transition. With `--spread` they start one after the other, and every transaction carries all kinds.

Runs in a process of its own (`python -m bench.engine_runs --store URL`), so that neither the floor nor the harness
shares an interpreter with it. A run counts when its end is on disk.
"""

import argparse
import asyncio
import json
import logging
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import structlog

from bench.outbox_fill import fill
from bench.rules import ALLOWING, write_policy
from bench.workload import LEAST_CYCLES
from wakeful import App, Operation, Run, action, on
from wakeful.channels import Channel, Message
from wakeful.cli.working import spare_the_collector
from wakeful.resources.deliveries import deliveries
from wakeful.resources.desk import looking
from wakeful.resources.effects import effects
from wakeful.runtime import Runtime
from wakeful.stores.known import count_runs
from wakeful.stores.verbs.policies import EffectToJudge

PAYLOAD = {"number": 42, "title": "printer on fire", "severity": 3}
RESULT = {"verdict": "looks fine", "score": 0.93}


async def fetch(number: int) -> dict[str, object]:  # noqa: ARG001 a step has arguments
    return RESULT


async def judge(found: dict[str, object]) -> dict[str, object]:  # noqa: ARG001
    return RESULT


async def summarise(verdict: dict[str, object]) -> dict[str, object]:  # noqa: ARG001
    return RESULT


@action(safety="idempotent")
async def comment(op: Operation, number: int, text: str) -> dict[str, object]:  # noqa: ARG001 an action has arguments
    return RESULT


class Nowhere(Channel):
    """Takes everything at once: what is measured is the outbox."""

    repeats = "known"
    most = 200

    async def deliver(self, messages: Sequence[Message]) -> None: ...


def make_app(store: str, in_flight: int, *, outgoing: bool = False, keys: int = 0, policy: Path | None = None) -> App:
    """An app with the one agent of the workload; with `outgoing` it has an effect and sends its output as well, with `keys`
    its runs go by key.
    """
    channels = {"ops": Nowhere(), "stuck": Nowhere()}
    app = App("bench", store=store, in_flight=in_flight, channels=channels, policy=policy)
    if outgoing:

        @app.agent(on("bench.ticket.created"), name="floor", deliver="ops")
        async def outgoing_floor(run: Run, data: dict[str, Any]) -> dict[str, object]:
            found = await run.step(fetch, data["number"])
            verdict = await run.step(judge, found)
            summary = await run.step(summarise, verdict)
            await run.act(comment, data["number"], "nothing to do")
            return {**summary, "comment": "nothing to do"}

        return app

    @app.agent(on("bench.ticket.created"), key="data.key" if keys else None)
    async def floor(run: Run, data: dict[str, Any]) -> dict[str, object]:
        found = await run.step(fetch, data["number"])
        verdict = await run.step(judge, found)
        return {**await run.step(summarise, verdict), "comment": "nothing to do"}

    return app


async def measure(
    store: str,
    seconds: float,
    in_flight: int,
    *,
    spread: bool = False,
    outgoing: bool = False,
    waiting: int = 0,
    draining: bool = False,
    keys: int = 0,
    policy: Path | None = None,
) -> dict[str, float]:
    """Finished runs per second, and how many transitions a transaction carried. With `outgoing` a run counts when its
    message has been delivered too. So many `waiting` deliveries are in the outbox, for a channel in trouble; with `draining`
    that is over, and they go out meanwhile. With a `policy` its rules allow every effect.
    """
    app = make_app(store, in_flight, outgoing=outgoing, keys=keys, policy=policy)
    async with app.running(migrate=True) as runtime:
        spare_the_collector()  # as `wakeful worker` does
        number = 0
        finished = asyncio.Semaphore(0)
        runtime.worker.on_finished = finished.release

        async def emit() -> None:
            nonlocal number
            number += 1
            data = {**PAYLOAD, "key": f"customer-{number % keys}"} if keys else PAYLOAD
            await app.emit(
                "bench.ticket.created", data, source="/bench", id=f"event-{number:012d}", subject="ticket/42"
            )

        async def refill() -> None:
            """One new event for each run that ended: always the same number in flight."""
            await finished.acquire()
            await emit()

        await asyncio.gather(*(emit() for _ in range(in_flight)))
        if waiting:
            await runtime.drain()
            await fill(store, waiting, due=draining)
            runtime.courier.wake()
        if spread:
            for _ in range(in_flight * 5):
                await refill()
        loops = [asyncio.create_task(_forever(refill)) for _ in range(in_flight)]
        await asyncio.sleep(0.5)  # warm up
        journal = runtime.store.journal
        before, began = runtime.worker.finished, time.perf_counter()
        delivered = runtime.courier.delivered
        transitions, transactions, cpu = journal.transitions, journal.transactions, time.process_time()
        await asyncio.sleep(seconds)
        while runtime.worker.finished - before < in_flight * LEAST_CYCLES:  # noqa: ASYNC110 a slow machine: measured until there is enough
            await asyncio.sleep(0.05)
        took = time.perf_counter() - began
        count = runtime.worker.finished - before
        if outgoing:
            count = min(count, runtime.courier.delivered - delivered)
        figures = {
            "runs_per_second": count / took,
            "transitions_per_transaction": (journal.transitions - transitions) / (journal.transactions - transactions),
            "cpu_microseconds_per_run": (time.process_time() - cpu) / count * 1e6,
        }
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await runtime.drain()
        counts = await count_runs(runtime.reader)
        if set(counts) != {"done"}:
            message = f"not every run went well, so the figures mean nothing: {counts}"
            raise RuntimeError(message)
        late = (await deliveries(looking(runtime.reader), channel="ops", state="pending", limit=1)).items
        if late:
            message = f"not every message was delivered, so the figures mean nothing: {late}"
            raise RuntimeError(message)
        if policy is not None:
            await _judged(runtime)
    return figures


async def _judged(runtime: Runtime) -> None:
    """Raises an error unless a rule of the policy, and not the default, has allowed the newest effect."""
    newest = (await effects(looking(runtime.reader), limit=1)).items[0]
    [row] = await runtime.reader.fetch("effect_to_judge", newest["id"])
    stored = EffectToJudge(*row)
    if stored.rule not in ALLOWING or stored.policy is None:
        message = f"the policy did not allow the effects, so the figures mean nothing: {stored.rule}"
        raise RuntimeError(message)


async def _forever(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await work()


def main() -> None:
    """Measure one store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--outgoing", action="store_true")
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument("--draining", action="store_true")
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--rules", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    import uvloop

    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        policy = write_policy(Path(folder)) if options.rules else None
        figures = uvloop.run(
            measure(
                options.store,
                options.seconds,
                options.in_flight,
                spread=options.spread,
                outgoing=options.outgoing,
                waiting=options.waiting,
                draining=options.draining,
                keys=options.keys,
                policy=policy,
            )
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
