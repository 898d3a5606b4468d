"""What policy costs: effects under many rules, and a list of many approvals."""

import asyncio
import statistics
from collections.abc import Iterator

from bench import engine_approvals
from bench.plan import Figure, Places
from bench.rules import ALLOWING, RULES

FEW_APPROVALS = 100


class Judged(Places):
    """The measurements of policy and approvals."""

    def rules(self) -> Iterator[Figure]:
        options = ["--seconds", str(self.plan.seconds), "--outgoing"]
        for name, store, _ in self._both():
            without, judged = [], []
            for _ in range(self.plan.turns):
                without.append(self._measured("engine_runs", "--store", store(), *options)["runs_per_second"])
                judged.append(self._measured("engine_runs", "--store", store(), *options, "--rules")["runs_per_second"])
            mine, free = statistics.median(judged), statistics.median(without)
            yield Figure(
                f"an effect under {RULES} rules, {name}", f"{mine:,.0f} runs/s", f"{free:,.0f} runs/s", mine / free,
                "80 %", "", mine / free >= 0.8, f"{len(ALLOWING)} of them apply; against no policy",
            )  # fmt: skip

    def approvals(self) -> Iterator[Figure]:
        many, samples = self.plan.approvals, self.plan.samples
        for name, store, _ in self._both():
            few, full = asyncio.run(
                engine_approvals.measure(store(), store(), few=FEW_APPROVALS, many=many, samples=samples)
            )
            yield Figure(
                f"first page of {many:,} approvals, {name}", f"{full * 1000:.2f} ms", f"{few * 1000:.2f} ms", full / few,
                "≤ 200 %", "", full <= 2 * few,
                f"{engine_approvals.PAGE} of those that are open, by median; against {FEW_APPROVALS}",
            )  # fmt: skip
