"""A process that takes in the changes of an application's orders, until it is killed.

python changes.py STORE SHOP
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from wakeful import App, Run, sqlite_changes
from wakeful.clock import duration
from wakeful.triggers.changes.tables import table_changes


def watching(store: str, shop: str) -> App:
    app = App("app", store=store, backlog=None)
    trigger: Any = (table_changes if shop.startswith("postgres") else sqlite_changes)(shop, table="orders")

    @app.agent(trigger)
    async def note(run: Run) -> None:
        pass

    return app


async def main() -> None:
    async with watching(*sys.argv[1:]).running(lease=duration("2s")):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
