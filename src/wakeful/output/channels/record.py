"""A message as the other side reads it: one JSON object, with the same bytes at every try, so that repetitions are
visible.
"""

from __future__ import annotations

from pydantic_core import to_json

from wakeful.clock import to_text
from wakeful.output.channels.base import Message


def to_record(message: Message) -> bytes:
    """One line of JSON, without a line break inside or after it."""
    return to_json(
        {
            "id": message.id,
            "channel": message.channel,
            "subject": message.subject,
            "body": message.body,
            "app": message.app,
            "agent": message.agent,
            "run": message.run,
            "committed_at": to_text(message.committed_at),
        }
    )
