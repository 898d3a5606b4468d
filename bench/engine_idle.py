"""A worker process that has nothing to do: says when it works, and ends with its input.

`python -m bench.engine_idle --store URL --agents 60`
"""

import argparse
import asyncio
import logging
import sys

import structlog

from wakeful import App, Run, every, on


def make_app(store: str, agents: int) -> App:
    """Most agents wait for events; the first has a schedule."""
    app = App("idle", store=store)
    for number in range(agents):

        @app.agent(on(f"event{number}") if number else every("6h"), name=f"agent{number}")
        async def agent(run: Run) -> None: ...

    return app


async def work(store: str, agents: int) -> None:
    async with make_app(store, agents).running():
        print("working", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--agents", type=int, default=9)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    import uvloop

    uvloop.run(work(options.store, options.agents))


if __name__ == "__main__":
    main()
