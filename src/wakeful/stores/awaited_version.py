"""What is shown of a run that waits for the code that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.stores.transaction import Row

AGREED = "~"  # before a version: a person let the run go on, whatever code it meets


def awaited_version(
    version: str | None, agent: str, known: Sequence[Row], serving: Sequence[Row]
) -> dict[str, Any] | None:
    """The version that a run belongs to, and those that living processes have, while these are not all alike to it; else None.
    `serving`: what each living process has.
    """
    if version is None or version.startswith(AGREED):
        return None
    living = {one for (text,) in serving if (one := from_json(text).get(agent)) is not None}
    places = {one: place for one, place, _ in known}
    if not living - {version}:
        return None
    return {
        "version": version,
        "live": version in living,
        "others": [
            {"version": one, "since": to_text(since), "newer": place > places.get(version, 0)}
            for one, place, since in known
            if one in living and one != version
        ],
    }
