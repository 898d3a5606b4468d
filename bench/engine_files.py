"""How long from a file to its handler when nothing else goes on, less the time that it must stay as it is.

Two ways for a file to come: written where it is watched, so that it counts as complete after `settle`; and written elsewhere and
renamed into place, so that it counts as complete at once.
"""

import argparse
import asyncio
import json
import logging
import os
import tempfile
import time
from pathlib import Path

import structlog

from bench.engine_dispatch import percentiles
from wakeful import App, Run, files
from wakeful.testing.waiting import until

SETTLE = 0.1


async def measure(store: str, samples: int) -> dict[str, float]:
    """Milliseconds: p50 and p99 of each way."""
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-files-") as folder:
        inbox = Path(folder) / "inbox"
        inbox.mkdir()
        app = App("files", store=store)
        started: dict[str, asyncio.Future[int]] = {}

        @app.agent(files(f"{inbox}/*.md", settle=SETTLE))
        async def note(run: Run) -> None:
            started[run.event.data["name"]].set_result(time.time_ns())

        async with app.running(migrate=True) as runtime:
            (reading,) = runtime.sources.readings.values()
            await until(lambda: reading.state == "reading")
            times: dict[str, list[float]] = {"written": [], "renamed": []}
            for number in range(samples):
                for way, late in times.items():
                    name = f"{way}-{number}.md"
                    started[name] = asyncio.get_running_loop().create_future()
                    begun = drop(inbox / name, elsewhere=way == "renamed")
                    late.append((await started[name] - begun) / 1e6 - (SETTLE * 1000 if way == "written" else 0))
                    await asyncio.sleep(0.02)
    found: dict[str, float] = {}
    for way, late in times.items():
        found[f"{way}_p50"], found[f"{way}_p99"] = percentiles(late)
    return found


def drop(path: Path, *, elsewhere: bool) -> int:
    """Write a small file; returns when it was there."""
    text = "a small note\n" * 20
    if not elsewhere:
        path.write_text(text)
        return time.time_ns()
    complete = path.parents[1] / path.name
    complete.write_text(text)
    os.utime(complete, (1, 1))
    complete.rename(path)
    return time.time_ns()


def main() -> None:
    """Measure in a process of its own."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--samples", type=int, required=True)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    import uvloop

    print(json.dumps(uvloop.run(measure(options.store, options.samples))))


if __name__ == "__main__":
    main()
