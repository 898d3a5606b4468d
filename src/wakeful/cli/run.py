"""run: run one agent now. The run is stored like any other; --wait prints its result."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wakeful.cli.working import DEFAULT_GRACE, first_of, prepare, stop_politely
from wakeful.errors import ConfigError, StoreUnavailable, did_you_mean
from wakeful.intake.cloudevents import new_event
from wakeful.model import FINAL_RUN_STATES
from wakeful.resources.desk import looking
from wakeful.resources.failures import failure_line, failure_lines
from wakeful.resources.processes import living
from wakeful.resources.run_reading import find_run
from wakeful.shell.arguments import (
    Command,
    Parser,
    actor_of,
    add_data,
    add_json,
    add_logs,
    add_store,
    app_and,
    read_data,
    seconds,
)
from wakeful.shell.life import Stopping, live
from wakeful.shell.opening import sending
from wakeful.shell.terminal import SHOWN_OF_AN_ID, plain, print_json, say
from wakeful.stores.verbs.sending import SentBy

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.model import Receipt
    from wakeful.runtime import Runtime

# Seconds between two looks at what the run waits for: short at first, then doubled up to the maximum.
FIRST_LOOK, LAST_LOOK = 0.1, 2.0
UNCLAIMED_AFTER = 5.0


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words",
        metavar="APP AGENT",
        nargs="+",
        help="the app (default: WAKEFUL_APP, else ./app.py) and the agent's name; its triggers are ignored",
    )
    add_data(parser)
    parser.add_argument(
        "--id", metavar="ID", help="the event id (default: a new one); a repeated id refers to the same run"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for the result and print it; run in this process if no worker is alive",
    )
    parser.add_argument(
        "--here", action="store_true", help="run in this process even if workers are alive (implies --wait)"
    )
    parser.add_argument(
        "--timeout", metavar="TIME", type=seconds, help="stop waiting after this time, like 5m; the run continues"
    )
    add_store(parser)
    add_json(parser)
    add_logs(parser)
    parser.set_defaults(in_flight=None)


def execute(arguments: argparse.Namespace) -> int:
    arguments.app, arguments.agent = app_and(arguments.words, like="run AGENT triage")
    data = read_data(arguments.data)
    app = prepare(arguments)
    if arguments.agent not in app.agents:
        message = f'app {app.name} has no agent "{arguments.agent}".{did_you_mean(arguments.agent, app.agents)}'
        raise ConfigError(message)
    return live(lambda stopping: _run(app, arguments, data, stopping))


run_command = Command(declare, execute)


async def _run(app: Declarations, arguments: argparse.Namespace, data: Any, stopping: Stopping) -> int:
    event = new_event("wakeful.run", data, source=f"/{app.name}/run", id=arguments.id)
    async with sending(app, arguments.store) as runtime:
        sent = SentBy(actor_of(arguments), "run", f"agent {arguments.agent}")
        receipt = (await runtime.door.accept([event], agent=arguments.agent, by="app", sent=sent))[0]
        if not receipt.runs:
            return _no_run(receipt, arguments)
        identifier = receipt.runs[0]
        workers = len(await living(looking(runtime.reader)))
        if arguments.wait or arguments.here:
            return await _wait(runtime, identifier, arguments, workers, stopping)
        run = await find_run(looking(runtime.reader), identifier)
    if arguments.json:
        print_json(run)
    else:
        print(f"{receipt.status} {event.id} → run {identifier}")
        if not workers and run is not None and run["state"] == "ready":
            say(
                f"no worker is alive on this store: add --wait to run it here, or start `wakeful serve {arguments.app}`"
            )
    return 0


def _no_run(receipt: Receipt, arguments: argparse.Namespace) -> int:
    """Report an event that started no run: the agent accepts no second run now, or a policy denied it."""
    why = "; ".join(receipt.skipped.values()) or f"see `wakeful why {receipt.id}`"
    if arguments.json:
        print_json(receipt.to_json())
    say(plain(f"{receipt.status} {receipt.id}, but agent {arguments.agent} started no run: {why}"))
    return 1


async def _wait(
    runtime: Runtime, identifier: str, arguments: argparse.Namespace, workers: int, stopping: Stopping
) -> int:
    here = arguments.here or not workers
    if here:
        await runtime.start(watch=False)
    elif not arguments.json:
        say(f"waiting for run {identifier[:SHOWN_OF_AN_ID]} (workers alive: {workers}; --here runs it in this process)")
    finished = asyncio.create_task(_finished(runtime, identifier, here=here))
    try:
        async with asyncio.timeout(arguments.timeout):
            await first_of(asyncio.shield(finished), stopping.asked.wait())
    except TimeoutError:
        say(
            f"not finished after {arguments.timeout:g} s; the run continues: `wakeful trace {identifier[:SHOWN_OF_AN_ID]}`"
        )
        return 1
    finally:
        finished.cancel()
        if here:
            await stop_politely(runtime, stopping, DEFAULT_GRACE if stopping.asked.is_set() else 0)
    if not finished.done() or finished.cancelled():
        say(
            f"stopped waiting; the run continues when a worker claims it: `wakeful trace {identifier[:SHOWN_OF_AN_ID]}`"
        )
        return 130
    return _show(finished.result(), arguments)


async def _finished(runtime: Runtime, identifier: str, *, here: bool) -> Mapping[str, Any]:
    """Wait for the commit that ends the run, and return the run. Meanwhile print what the run waits for."""
    telling = asyncio.create_task(_tell_standing(runtime, identifier, here=here))
    try:
        await runtime.results.wait([identifier], None)
        return await find_run(looking(runtime.reader), identifier) or {}
    finally:
        telling.cancel()
        await asyncio.wait([telling])


async def _tell_standing(runtime: Runtime, identifier: str, *, here: bool) -> None:
    """Print what the run waits for, once per change. Polls slowly: the end of the run is detected elsewhere."""
    told: Any = None
    loop = asyncio.get_running_loop()
    begun = loop.time()
    warned = here
    rest = FIRST_LOOK
    while True:
        await asyncio.sleep(rest)
        rest = min(rest * 2, LAST_LOOK)
        try:
            run = await find_run(looking(runtime.reader), identifier)
        except StoreUnavailable:
            continue  # the store logs the outage itself
        if run is None or run["state"] in FINAL_RUN_STATES:
            return
        standing = (run["state"], run["attempts"], run["due_at"])
        if run["state"] in {"waiting", "held", "parked"} and standing != told:
            told = standing
            error = run["error"] or {}
            why = f": {failure_line(error)}" if error else ""
            say(f"{run['state']}, {run['reason'] or 'no reason given'}{why}")
        if not warned and run["state"] == "ready" and loop.time() - begun > UNCLAIMED_AFTER:
            warned = True
            say(
                f"no worker has claimed the run yet: do the workers on this store have app {runtime.app.name}? --here runs it in this process"
            )


def _show(run: Mapping[str, Any], arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json(run)
    elif run["state"] == "done":
        print_json(run["output"])
    else:
        cause, *further = failure_lines(run["error"]) if run["error"] else [plain(run["reason"] or "")]
        look = f"see `wakeful trace {run['id'][:SHOWN_OF_AN_ID]}`"
        if further:
            say("\n".join([f"{run['state']}: {cause}", *further]))
            say(look)
        else:
            say(f"{run['state']}: {cause}; {look}")
    return 0 if run["state"] == "done" else 1
