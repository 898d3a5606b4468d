"""The view of a run that waits for the version of the code that it began with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_text
from wakeful.stores.transaction import Row

AGREED = "~"  # prefix of a version: a person allowed the run to continue with any code


def awaited_version(
    version: str | None, agent: str, known: Sequence[Row], serving: Sequence[Row]
) -> dict[str, Any] | None:
    """The version that the run began with, and the other versions that living processes serve. None if all of them serve the run's own.
    `serving`: one row for each living process, with the versions that it has.
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
