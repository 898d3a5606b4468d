"""Finds the runs that an id refers to: the id of a run, an event, an effect, a delivery, an approval or an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.resources.desk import Desk, Reads
    from wakeful.resources.run_views import RunDetail

MOST_OF_AN_ALARM = 5


async def runs_meant(reads: Reads, identifier: str) -> list[RunDetail] | None:
    """Everything about each run; None for an unknown id, empty for an id without runs. A whole id goes before the beginning of
    one. NotFound lists the ids that begin so, where there are several.
    """
    from wakeful.resources import alarms, approvals, deliveries, effects
    from wakeful.resources.desk import looking
    from wakeful.why.alarm import find_alarm
    from wakeful.why.event import find, refuse_two

    desk = looking(reads)
    event, run = await find(desk, identifier)
    if run is not None:
        if run["id"] != identifier:
            await refuse_two(desk, run, identifier)
        return [run]
    if event is not None:
        return await _all(desk, [one["run"] for one in event["admissions"] if one["run"] is not None])
    for noun in (effects, deliveries, approvals):
        found = await noun.find(desk, identifier)
        if found is not None:
            return await _all(desk, [found["run"]])
    alarm = await find_alarm(desk, identifier)
    return None if alarm is None else await _all(desk, (await alarms.runs_of(desk, alarm["key"]))[:MOST_OF_AN_ALARM])


async def _all(desk: Desk, ids: list[str]) -> list[RunDetail]:
    from wakeful.resources.run_reading import find_run

    return [run for one in dict.fromkeys(ids) if (run := await find_run(desk, one)) is not None]
