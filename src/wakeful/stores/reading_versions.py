"""What is shown of a run that waits for the code that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.clock import to_text
from wakeful.stores.base import Row

AGREED = "~"  # before a version: a person let the run go on, whatever code it meets


def awaited_version(version: str | None, rows: Sequence[Row]) -> dict[str, Any] | None:
    """The version that a run belongs to, and those that living processes serve, while these are not all alike to it; else None."""
    if version is None or version.startswith(AGREED):
        return None
    living = [
        {"version": one, "place": place, "since": to_text(since)}
        for one, place, since, live, apart in rows
        if live and apart
    ]
    others = [one for one in living if one["version"] != version]
    if not others:
        return None
    place = next((place for one, place, *_ in rows if one == version), 0)
    return {
        "version": version,
        "live": len(others) < len(living),
        "others": [{"version": one["version"], "since": one["since"], "newer": one["place"] > place} for one in others],
    }
