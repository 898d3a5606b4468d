"""Why a run that is due waits: for the code that it belongs to, while other code is at work beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Shown = Mapping[str, Any]


def tell_version(agent: str, waits: Shown | None) -> list[str]:
    if waits is None:
        return []
    others = ", ".join(f"{one['version']} ({'newer' if one['newer'] else 'older'})" for one in waits["others"])
    begins = f"Version {waits['version']} of agent {agent} ran it last"
    if waits["live"]:
        waits_for = (
            f"{begins}, and takes it when it is due: workers that have other code, {others}, take it only once none has that one any "
            "more, or newer ones once it has been due for `drain` (10 minutes, unless set)."
        )
        return [waits_for]
    if any(one["newer"] for one in waits["others"]):
        return []  # whoever has newer code takes it
    waits_for = (
        f'{begins}, which no worker has now; workers have {others}. With `on_change` other than "continue" these take it once it has '
        "been due for `drain` (10 minutes, unless set): start a worker that has the newer code, or start the older one anew after the "
        "last of its kind was stopped, if the newer one is not to come back."
    )
    return [waits_for]
