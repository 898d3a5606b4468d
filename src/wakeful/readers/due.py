"""When the next piece of work is due."""

from __future__ import annotations

from wakeful.clock import Microseconds
from wakeful.rate import Rate
from wakeful.readers.apps import ReadsApps
from wakeful.readers.pauses import ReadsPauses


class ReadsDue(ReadsApps, ReadsPauses):
    """When the next piece of work is due."""

    async def next_wake(self, app: str) -> Microseconds | None:
        """When the next run or delivery of an app is due; None when nothing waits for time."""
        clock = self._database.read_clock()
        rows = await self._database.fetch("next_wake", app, clock)
        moments = [] if rows[0][0] is None else [int(rows[0][0])]
        for key, agent, most, within in await self._rates(app):
            due = await self._database.fetch("count_due", clock, app, agent, 1)
            waits = await self._database.fetch("next_start", clock, app, key, most - 1, within) if due[0][0] else []
            moments += [await self.time() + wait[0] for wait in waits if wait[0] > 0]
        return min(moments, default=None)

    async def _rates(self, app: str) -> list[tuple[str, str, int, Microseconds]]:
        """Under which name each rate of an app counts, of which agent it is, and what it lets through."""
        limits = await self._database.fetch("limits_of_app", app)
        rates = [(agent, agent, most, within) for agent, _, most, within in limits if most is not None]
        for pause in await self.pauses():
            if pause["app"] == app and pause["rate"] is not None:
                rate = Rate.read(pause["rate"])
                agents = [pause["agent"]] if pause["agent"] else sorted((await self.apps()).get(app, ()))
                rates += [(f"resume {pause['agent'] or ''}", agent, rate.most, rate.within) for agent in agents]
        return rates
