"""Runs that wait, go in an order, or come in numbers: what each of these costs, against the same without it."""

import asyncio
import statistics
from collections.abc import Iterator

from bench import engine_sleepers, engine_waits
from bench.plan import Figure, Places

SMALL_BACKLOG = 10_000


class Flow(Places):
    """The measurements of long-lived and limited runs."""

    def drain(self) -> Iterator[Figure]:
        large = self.plan.backlog
        small = min(SMALL_BACKLOG, large // 2)
        for name, store, _ in self._both():
            rates: dict[int, list[float]] = {small: [], large: []}
            for count in (small, large, small):
                answer = self._measured("engine_drain", "--store", store(), "--backlog", str(count), patience=3600)
                rates[count].append(answer["runs_per_second"])
            mine, few = rates[large][0], statistics.mean(rates[small])
            yield Figure(
                f"drain of {large:,} events, {name}", f"{mine:,.0f} runs/s", f"{few:,.0f} runs/s", mine / few, "80 %", "",
                mine / few >= 0.8, f"against {small:,}, before and after; runs without steps",
            )  # fmt: skip

    def keys(self) -> Iterator[Figure]:
        options = ["--seconds", str(self.plan.seconds)]
        for name, store, _ in self._both():
            without, keyed = [], []
            for _ in range(self.plan.turns):
                without.append(self._measured("engine_runs", "--store", store(), *options)["runs_per_second"])
                more = ["--keys", str(self.plan.keys)]
                keyed.append(self._measured("engine_runs", "--store", store(), *options, *more)["runs_per_second"])
            mine, free = statistics.median(keyed), statistics.median(without)
            yield Figure(
                f"3-step runs with {self.plan.keys:,} keys, {name}", f"{mine:,.0f} runs/s", f"{free:,.0f} runs/s",
                mine / free, "70 %", "", mine / free >= 0.7, "against runs without a key",
            )  # fmt: skip

    def sleepers(self) -> Iterator[Figure]:
        count = self.plan.sleepers
        for name, store, _ in self._both():
            options = ["--store", store(), "--store-of-ready", store(), "--count", str(count)]
            answer = self._measured("engine_sleepers", *options, patience=600)
            asleep, ready = answer["asleep"], answer["ready"]
            yield Figure(
                f"{count:,} sleepers due at once, {name}", f"{asleep:.2f} s until the last is done",
                f"{ready:.2f} s for ready ones", asleep / ready, "", "", None,
                "a sleeper reads back what it did before; a ready one begins",
            )  # fmt: skip
            late = asyncio.run(engine_sleepers.lateness(store(), min(50, self.plan.samples)))
            yield Figure(
                f"wake of one sleeper, {name}", f"p50 {late.p50:.1f} ms, p99 {late.p99:.1f} ms", "–", None,
                "p50 ≤ 50 ms", "", late.p50 <= 50, "from its time to the handler going on",
            )  # fmt: skip

    def waits(self) -> Iterator[Figure]:
        waits, samples = self.plan.waits, self.plan.samples
        for name, store, _ in self._both():
            found = asyncio.run(engine_waits.measure(store(), store(), waits=waits, samples=samples))
            yield Figure(
                f"an event beside {waits:,} waits, {name}", f"{found.full:.2f} ms", f"{found.empty:.2f} ms",
                found.full / found.empty, "≤ 200 %", "", found.full <= 2 * found.empty,
                "of the awaited type, about something else; until it is on disk, by median",
            )  # fmt: skip
            yield Figure(
                f"from an event to who waits for it, {name}", f"p50 {found.woken.p50:.1f} ms, p99 {found.woken.p99:.1f} ms",
                "–", None, "p50 ≤ 50 ms", "", found.woken.p50 <= 50,
                f"from its answer to the handler going on, beside {waits:,} others that wait",
            )  # fmt: skip
