"""How fast finished runs leave a store: `wakeful archive`, and retention with an archive.

Runs in a process of its own: `python -m bench.engine_archive --stores URL URL --folder FOLDER --count 20000`.
"""

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import structlog

from wakeful import App, Run, on
from wakeful.stores.known import count_runs

STEPS = 3
AT_ONCE = 200


def number(value: int) -> int:
    return value


def make_app(store: str, folder: Path | None = None) -> App:
    app = App("kept", store=store, retention=None if folder is None else "1s", archive=folder)

    @app.agent(on("go"))
    async def agent(run: Run) -> int:
        for step in range(STEPS):
            await run.step(number, step)
        run.send("log", {"done": run.event.data["number"]})
        return STEPS

    return app


async def fill(app: App, count: int) -> None:
    async with app.running(migrate=True) as runtime:
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(app.emit("go", {"number": first + one}) for one in range(AT_ONCE)))
        await runtime.drain()


def timed(*arguments: str) -> tuple[float, dict[str, int]]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "wakeful", *arguments, "--json"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return time.perf_counter() - began, json.loads(answer)


async def retained(app: App) -> tuple[float, int]:
    """Seconds that retention takes for all of it, and how many runs are left."""
    async with app.running() as runtime:
        await asyncio.sleep(1.5)
        began = time.perf_counter()
        await runtime.housekeeper.run_once()
        took = time.perf_counter() - began
        return took, sum((await count_runs(runtime.reader)).values())


async def measure(options: argparse.Namespace) -> dict[str, float]:
    first, second = options.stores
    folder, count = Path(options.folder), options.count
    await fill(make_app(first), count)
    file = str(folder / "runs.jsonl")
    plan, told = timed("archive", file, "--plan", "--store", first)
    assert told["found"] == count, told
    start, _ = timed("archive", file, "--plan", "--agent", "nobody", "--store", first)
    archive, told = timed("archive", file, "--remove", "--yes", "--store", first)
    assert told["written"] == count, told
    assert told["removed"] == count - 1, told
    await fill(make_app(second), count)
    retention, left = await retained(make_app(second, folder / "archive"))
    assert left == 1, left
    return {"plan": plan, "start": start, "archive": archive, "retention": count / retention}


def main() -> None:
    """Measure one kind of store and print one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--stores", nargs=2, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--count", type=int, default=20_000)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    import uvloop

    print(json.dumps(uvloop.run(measure(options))))


if __name__ == "__main__":
    main()
