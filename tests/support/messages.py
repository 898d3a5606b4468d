"""Messages for channels, without an outbox."""

from __future__ import annotations

from typing import Any

from wakeful.model import Event
from wakeful.output.channels.base import Message, Surroundings

COMMITTED_AT = 1_767_225_600_123_456


def message(identifier: str = "0f9e11ba70", body: Any = "hello", **fields: Any) -> Message:
    return Message(
        **{
            "id": identifier,
            "channel": "ops",
            "body": body,
            "subject": None,
            "app": "billing",
            "agent": "remind",
            "run": "abc123",
            "committed_at": COMMITTED_AT,
            "tries": 1,
            **fields,
        }
    )


async def _no_door(events: list[Event]) -> None:
    raise AssertionError("this channel sends no events")


NOWHERE = Surroundings(accept=_no_door)
