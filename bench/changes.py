"""Changes of rows in PostgreSQL, by logical replication."""

import asyncio
import statistics
from collections.abc import Iterator

from bench import engine_changes, floor_changes
from bench.plan import Figure, Places
from wakeful.testing.postgres_server import PostgresServer

SETTINGS: dict[str, str | int] = {"wal_level": "logical", "max_replication_slots": 50}


class Changes(Places):
    """The measurements of row changes. The database that is read is one of its own server."""

    def changes(self) -> Iterator[Figure]:
        rows, samples = self.plan.changes, self.plan.samples
        with PostgresServer(fsync=True, settings=SETTINGS) as server:

            def shop() -> str:
                return server.dsn(asyncio.run(server.create_database()))

            for name, store, _ in self._both():
                found = self._measured(
                    "engine_changes", "--shop", shop(), "--store", store(), "--samples", str(samples)
                )
                yield Figure(
                    f"row committed → handler, {name}", f"p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms", "–", None,
                    "p50 ≤ 20 ms", "p50 ≤ 10 ms", found["p50"] <= 20, "from the answer to COMMIT to the handler's first line",
                )  # fmt: skip
            for name, store, _ in self._both():
                mine, bare = [], []
                for _ in range(min(3, self.plan.turns)):
                    place, kept = shop(), store()
                    asyncio.run(engine_changes.prepare(place, kept, rows))
                    bare.append(floor_changes.run(place, self.postgres(), rows))
                    options = ["--shop", place, "--store", kept, "--rows", str(rows)]
                    mine.append(self._measured("engine_changes", *options)["per_second"])
                engine, floor = statistics.median(mine), statistics.median(bare)
                yield Figure(
                    f"{rows:,} row changes at once, {name}", f"{engine:,.0f} changes/s", f"{floor:,.0f} changes/s",
                    engine / floor, "25 %", "", engine / floor >= 0.25,
                    "the floor stores an event and a run for each, on PostgreSQL",
                )  # fmt: skip
