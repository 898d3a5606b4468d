"""Webhooks: taken in, each verified over its bytes, against a server that verifies as much and stores nothing."""

import statistics
from collections.abc import Iterator

from bench import engine_webhooks, load_webhooks
from bench.plan import Figure, Places

NAMES = {"github": "known by its signature too", "standard": "which signs its id and the time"}


class Hooks(Places):
    """The measurements of webhooks."""

    def webhooks(self) -> Iterator[Figure]:
        size = len(load_webhooks.BEFORE) + len(load_webhooks.AFTER)
        for name, store, _ in self._both():
            for sender, words in NAMES.items():
                floors, engines, slowest = [], [], 0.0
                for _ in range(self.plan.turns):
                    floors.append(engine_webhooks.floor(sender, self.plan.seconds))
                    report = engine_webhooks.engine(sender, store(), self.plan.seconds)
                    engines.append(report.requests_per_second)
                    slowest = max(slowest, report.p99)
                mine, floor = statistics.median(engines), statistics.median(floors)
                yield Figure(
                    f"webhooks of {sender}, {name}", f"{mine:,.0f} events/s", f"{floor:,.0f} events/s", mine / floor,
                    "35 %", "50 %", mine / floor >= 0.35,
                    f"{size:,} bytes each, {words}; p99 {slowest:.1f} ms at 32 connections",
                )  # fmt: skip
