"""Words and reader methods that all stories share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_json

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.stored_errors import in_one_line
from wakeful.triggers.zones import shown_time

Shown = Mapping[str, Any]
SHOWN_MESSAGE = 300
SHOWN_DELIVERIES = 3
SHOWN_VALUE = 60
SHOWN_OUTPUT = 300
OUT_OF_BUDGET = "ran out of its budget"  # the words of cel.py


def under(event: Shown) -> str:
    """The condition of a wait for an event, and the values that it uses."""
    values = ", ".join(f"{name} = {in_short(value)}" for name, value in (event.get("values") or {}).items())
    where = f" where {event['where']}" if event["where"] else ""
    return where + (f" ({values})" if values else "")


def in_short(value: Any, most: int = SHOWN_VALUE) -> str:
    text = to_json(value, inf_nan_mode="strings").decode()
    return text if len(text) <= most else text[:most] + "…"


def failure(error: Shown | None) -> str:
    if not error:
        return ""
    first = in_one_line(str(error.get("message", ""))).rstrip(".")
    cut = first if len(first) <= SHOWN_MESSAGE else first[:SHOWN_MESSAGE] + "…"
    return f"{error.get('type')}: {cut}" if cut else str(error.get("type"))


def moment(text: str | None) -> Microseconds | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * SECOND)


def at(text: str | None) -> str:
    """A time to the second."""
    return shown_time(None if text is None else datetime.fromisoformat(text).replace(microsecond=0).isoformat())


def span(start: str | None, end: str | None) -> str:
    first, last = moment(start), moment(end)
    return "an unknown time" if first is None or last is None else readable(max(0, last - first))


def number(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def ordinal(count: int) -> str:
    ending = "th" if 10 <= count % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def listed(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def who_takes_it(alive: Sequence[Shown]) -> list[str]:
    if alive:
        return [
            f"{number(len(alive), 'worker')} {'is' if len(alive) == 1 else 'are'} alive on this store; one that has this agent takes the run when it is due."
        ]
    return ["No worker is alive on this store: start one with `wakeful serve APP` or `wakeful worker APP`."]


def own(run: Shown, what: str) -> list[Shown]:
    """The entries of this run only. A repeated run shares effects and deliveries with its family."""
    return [one for one in run[what] if one["run"] == run["id"]]
