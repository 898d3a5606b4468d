"""`channel("matrix", room=…)`: channels of other packages, found by entry points of the group `wakeful.channels`."""

from __future__ import annotations

from typing import Any

from wakeful.errors import ConfigError
from wakeful.installed import Extensions
from wakeful.output.channels.base import Channel

OWN_CHANNELS = ("email", "event", "file", "github", "http", "jira", "log", "pagerduty", "teams")
CHANNELS = Extensions("channel", "wakeful.channels", lambda: OWN_CHANNELS)


def channel(kind: str, /, **options: Any) -> Channel:
    """A channel of an installed package, by its entry point name. Options are those of the package."""
    made = CHANNELS.make(kind, options)
    if not isinstance(made, Channel):
        message = f"channel({kind!r}) returned {made!r}, which is not a channel: it must be a subclass of wakeful.channels.Channel"
        raise ConfigError(message)
    return made
