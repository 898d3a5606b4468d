"""Schedules: many that rest, many that are due at once, and one that is on time."""

from collections.abc import Iterator

from bench import floor_schedules
from bench.plan import Figure, Places


class Times(Places):
    """The measurements of schedules."""

    def schedules(self) -> Iterator[Figure]:
        count = self.plan.schedules
        for name, store, _ in self._both():
            options = ["--count", str(count), "--samples", str(min(50, self.plan.samples))]
            options += ["--seconds", str(5 * self.plan.seconds)]
            found = self._measured("engine_schedules", "--stores", store(), store(), store(), *options, patience=900)
            floor = floor_schedules.measure(store(), self.folder, count)
            yield Figure(
                f"{count:,} schedules that rest, {name}", f"{found['idle']:.2%} of a core", "–", None, "< 1 %", "",
                found["idle"] < 0.01, "a whole worker process, none of them due",
            )  # fmt: skip
            yield Figure(
                f"{count:,} occurrences due at once, {name}", f"{found['at_once']:.2f} s until all are accepted",
                f"{floor:.2f} s", floor / found["at_once"], "", "", None,
                "the floor stores the same rows, 500 to a transaction",
            )  # fmt: skip
            yield Figure(
                f"lateness of a quiet schedule, {name}", f"p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms", "–", None,
                "p50 ≤ 10 ms", "", found["p50"] <= 10, "from its occurrence to the handler's first line",
            )  # fmt: skip
