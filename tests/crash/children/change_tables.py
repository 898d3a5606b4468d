"""A process that takes in the changes of an application's orders, until it is killed.

python change_tables.py STORE SHOP
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from wakeful import App, Run, postgres_changes, sqlite_changes
from wakeful.clock import duration


def watching(store: str, shop: str) -> App:
    app = App("app", store=store, backlog=None)
    trigger: Any
    if shop.startswith("postgres"):
        trigger = postgres_changes(shop, table="orders", via="triggers")
    else:
        trigger = sqlite_changes(shop, table="orders")

    @app.agent(trigger)
    async def note(run: Run) -> None:
        pass

    return app


async def main() -> None:
    async with watching(*sys.argv[1:]).running(lease=duration("2s")):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
