"""Times that listings take as filters: `--since 2h`."""

from __future__ import annotations

from wakeful.clock import Microseconds
from wakeful.resources.desk import Desk
from wakeful.resources.refusals import Unfit
from wakeful.triggers.past import read_past

A_TIME = "RFC 3339, a date, an age (2h) or words (yesterday 9am)"


async def moment_of(desk: Desk, text: str | int | None, name: str, *, command: str) -> Microseconds | None:
    """A given time in microseconds, relative to the store's clock. Raises Unfit if it cannot be parsed. A program may pass
    microseconds (`reader.runs(since=…)`).
    """
    if text is None or isinstance(text, int):
        return text
    try:
        return read_past(text, now=await desk.reads.time())
    except ValueError as error:
        raise Unfit(f"{name}: {error}", name, typed=f"{command}: --{name}: {error}") from None
