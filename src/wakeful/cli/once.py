"""once: run everything that is due, then exit. For cron jobs and for trying things out."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wakeful.cli.working import add_working, close, first_of, guard_app, make_runtime, prepare, stop_politely
from wakeful.model import FINAL_RUN_STATES
from wakeful.shell.arguments import Command, Parser, add_json
from wakeful.shell.life import Stopping, live
from wakeful.shell.terminal import announce, print_json

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.runtime import Runtime


def declare(parser: Parser) -> None:
    add_working(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    app = prepare(arguments)
    return live(lambda stopping: _once(app, arguments, stopping))


once_command = Command(declare, execute)


async def _once(app: Declarations, arguments: argparse.Namespace, stopping: Stopping) -> int:
    runtime = make_runtime(app, arguments, reading="drained")
    try:
        await runtime.open()
        await guard_app(runtime, serves=False)
        before, sent_before = await _counted(runtime)
        await runtime.start(watch=False)
        await first_of(runtime.drain(), stopping.asked.wait())
        await runtime.watcher.once()
        await stop_politely(runtime, stopping, arguments.grace)
        after, sent_after = await _counted(runtime)
    finally:
        await close(runtime)
    ended = {state: after.get(state, 0) - before.get(state, 0) for state in sorted(FINAL_RUN_STATES)}
    left = {state: count for state, count in sorted(after.items()) if state not in FINAL_RUN_STATES and count}
    deliveries = {
        state: sent_after.get(state, 0) - sent_before.get(state, 0) for state in ("delivered", "unknown", "dead")
    }
    deliveries |= {"pending": sent_after.get("pending", 0)}
    if arguments.json:
        finished = {state: count for state, count in ended.items() if count > 0}
        told = {state: count for state, count in deliveries.items() if count > 0}
        print_json({"finished": finished, "left": left, "messages": told})
    else:
        announce(sentence(ended, left, deliveries))
    return stopping.exit_code or (130 if stopping.asked.is_set() else 0)


async def _counted(runtime: Runtime) -> tuple[dict[str, int], dict[str, int]]:
    """Runs and deliveries by state, of this app only: other apps may work on the same store meanwhile."""
    reads, app = runtime.reader, runtime.app.name
    deliveries = {row[0]: row[1] for row in await reads.fetch("count_deliveries_of", app)}
    return await reads.counts(app), deliveries


def sentence(ended: Mapping[Any, int], left: Mapping[Any, int], deliveries: Mapping[str, int]) -> str:
    """What was done, in one line: "1 done now; deliveries: 1 delivered, 1 dead; 2 waiting left for later"."""
    done = ", ".join(f"{count} {state}" for state, count in ended.items() if count > 0)
    rest = ", ".join(f"{count} {state}" for state, count in left.items())
    sent = ", ".join(
        f"{deliveries[state]} {state}" for state in ("delivered", "pending", "unknown", "dead") if deliveries[state] > 0
    )
    # A run that is now held or waits for its next try was due too.
    idle = "nothing finished" if left else "nothing was due"
    nothing = not done and all(deliveries[state] <= 0 for state in ("delivered", "unknown", "dead"))
    parts = [f"{done} now" if done else idle if nothing else "", f"deliveries: {sent}" if sent else ""]
    return "; ".join(one for one in (*parts, f"{rest} left for later" if rest else "") if one)
