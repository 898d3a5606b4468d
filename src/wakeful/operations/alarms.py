"""What people do about alarms. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Any, Protocol

from wakeful.stores.alarms import AlarmVerb

VERBS: tuple[AlarmVerb, ...] = ("acknowledge", "mute", "resolve")


class Reading(Protocol):
    """What is known of alarms."""

    async def alarms(self, *, state: str | None = None) -> dict[str, Any]: ...

    async def alarm(self, key: str, /) -> dict[str, Any] | None: ...
