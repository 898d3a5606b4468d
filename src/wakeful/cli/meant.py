"""The runs that an id means: the id of a run, an event, an effect, a delivery, an approval or an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeful.readers.reader import Reader

Shown = dict[str, Any]
MOST_OF_AN_ALARM = 5


async def runs_meant(reader: Reader, identifier: str) -> list[Shown] | None:
    """Each with everything about it; None where nothing has this id, and empty where no run belongs to what has it. A whole id
    goes before the beginning of one. NotFound lists what a beginning may mean.
    """
    from wakeful.why.alarm import find_alarm
    from wakeful.why.event import find, refuse_two

    event, run = await find(reader, identifier)
    if run is not None:
        if run["id"] != identifier:
            await refuse_two(reader, run, identifier)
        return [run]
    if event is not None:
        return await _all(reader, [one["run"] for one in event["admissions"] if one["run"] is not None])
    for found in (
        await reader.effect(identifier),
        await reader.delivery(identifier),
        await reader.approval(identifier),
    ):
        if found is not None:
            return await _all(reader, [found["run"]])
    alarm = await find_alarm(reader, identifier)
    return None if alarm is None else await _all(reader, (await reader.runs_of_alarm(alarm["key"]))[:MOST_OF_AN_ALARM])


async def _all(reader: Reader, ids: list[str]) -> list[Shown]:
    return [run for one in dict.fromkeys(ids) if (run := await reader.run(one)) is not None]
