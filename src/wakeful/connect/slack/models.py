"""Slack: https://docs.slack.dev/reference/events"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import Field

from wakeful.connect.sent import Sent


class Message(Sent):
    """A message. A `subtype` marks special ones: from a bot, an edit (then `message` is the new version), …"""

    type: str
    channel: str | None = None
    user: str | None = None
    bot_id: str | None = None
    text: str | None = None
    ts: str | None = None
    thread_ts: str | None = None
    subtype: str | None = None
    channel_type: str | None = None


class Mention(Sent):
    """A message that mentions the app."""

    type: str
    channel: str
    user: str | None = None
    text: str
    ts: str
    thread_ts: str | None = None


Happening = TypeVar("Happening", bound=Sent)


class EventOf(Sent, Generic[Happening]):
    """The envelope of every event of the Events API."""

    event_id: str
    event_time: datetime | None = None
    team_id: str | None = None
    api_app_id: str | None = None
    event: Happening


class MessageEvent(EventOf[Message]):
    """`slack.message`"""


class AppMentionEvent(EventOf[Mention]):
    """`slack.app_mention`"""


class Command(Sent):
    """`slack.command`"""

    command: str
    text: str = ""
    user_id: str
    user_name: str | None = None
    channel_id: str
    channel_name: str | None = None
    team_id: str | None = None
    response_url: str | None = None
    trigger_id: str | None = None


class Interaction(Sent):
    """`slack.interaction.*`: a button, a shortcut, a dialogue."""

    type: str
    user: dict[str, Any]
    team: dict[str, Any] | None = None
    channel: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    view: dict[str, Any] | None = None
    actions: list[dict[str, Any]] = Field(default_factory=list)
    callback_id: str | None = None
    response_url: str | None = None
    trigger_id: str | None = None
