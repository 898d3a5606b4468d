"""Why a due run waits: for workers with the code that it belongs to, while workers with other code are alive."""

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
            f"{begins} and takes it when it is due. Workers with other code, {others}, take it only once no worker has that version "
            "any more; newer ones also once it has been due for `drain` (default 10 minutes)."
        )
        return [waits_for]
    if any(one["newer"] for one in waits["others"]):
        return []  # a worker with newer code takes it
    waits_for = (
        f'{begins}, which no worker has now; workers have {others}. With `on_change` other than "continue" they take it once it has '
        "been due for `drain` (default 10 minutes). Start a worker with the newer code. If the newer code will not come back, "
        "restart the workers with the older code after the last newer one has stopped."
    )
    return [waits_for]
