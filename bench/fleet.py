"""Several processes on one PostgreSQL: how they scale, how they take over from each other, and what they leave behind in the
tables.
"""

import asyncio
import statistics
from collections.abc import Iterator

from bench import engine_recovery, engine_workers, soak
from bench.plan import Figure, Places
from wakeful.clock import SECOND

BARS = {2: 1.8, 4: 3.2}


# After kill -9 on PostgreSQL. The lease, which a run in the middle of a call waits for, is 15 s.
RESUMED_WITHIN = 2.0


class Fleet(Places):
    """The measurements of many workers."""

    def workers(self) -> Iterator[Figure]:
        if self.server is None:
            return
        rates: dict[int, list[float]] = {1: [], 2: [], 4: []}
        for _ in range(min(3, self.plan.turns)):
            for count, taken in rates.items():
                taken.append(asyncio.run(engine_workers.measure(self.postgres(), count, self.plan.seconds)))
        alone = statistics.median(rates[1])
        for count, bar in BARS.items():
            mine = statistics.median(rates[count])
            yield Figure(
                f"{count} worker processes, PostgreSQL", f"{mine:,.0f} runs/s", f"{alone:,.0f} runs/s", mine / alone,
                f"{bar:g} ×", "", mine / alone >= bar,
                f"against one; {engine_workers.IN_FLIGHT} in flight in each, three steps that wait 50 ms",
            )  # fmt: skip

    def recovery(self) -> Iterator[Figure]:
        took = asyncio.run(engine_recovery.measure(self.sqlite(), stand_by=False))
        yield Figure(
            "resume after kill -9, SQLite", f"{took:.2f} s", "–", None, "at once", "", took < 1, "after its restart"
        )
        if self.server is None:
            return
        lease = self.plan.lease
        alone = asyncio.run(engine_recovery.measure(self.postgres(), stand_by=True, lease=lease))
        busy = asyncio.run(engine_recovery.measure_busy(self.postgres(), lease=lease))
        before = ""
        if self.plan.before is not None:
            # In a process of that code: its workers cannot start on the schema of this one.
            options = ("--store", self.postgres(), "--lease", str(lease), "--measure")
            before = f"; before: {self._measured('engine_recovery', *options, code=self.plan.before)['took']:.2f} s"
        for name, took, note in (
            ("PostgreSQL", alone, f"in a worker that stood by{before}"),
            (
                "PostgreSQL, two busy workers",
                busy,
                f"the last of {engine_recovery.RUNS} runs, in one that works as well",
            ),
        ):
            yield Figure(
                f"resume after kill -9, {name}", f"{took:.2f} s", f"lease {lease / SECOND:g} s", None,
                f"≤ {RESUMED_WITHIN:g} s", "1 s", took <= RESUMED_WITHIN, note,
            )  # fmt: skip

    def soak(self) -> Iterator[Figure]:
        if self.server is None:
            return
        for one in asyncio.run(soak.measure(self.postgres(), self.plan.soak, history=self.plan.finished)):
            growth = one.second_half / one.first_half if one.first_half else None
            yield Figure(
                f"dead rows of {one.table} in a soak", f"{one.most:,} at most", f"{one.live:,} live in the end", growth,
                "≤ 125 %", "", one.bounded,
                f"most in the second half against the first; table {one.table_size / 1e6:.1f} MB, "
                f"indexes {one.index_size / 1e6:.1f} MB, {one.vacuums} vacuums",
            )  # fmt: skip
