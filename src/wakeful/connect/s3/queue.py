"""Reads a bucket's notifications from a queue that any number of processes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from wakeful.connect.s3.listing import forms_of
from wakeful.connect.s3.notifications import read_notification
from wakeful.connect.s3.sqs import QueueAddress, QueueReader
from wakeful.errors import InvalidEvent
from wakeful.model import Event
from wakeful.triggers.source import Context

if TYPE_CHECKING:
    from wakeful.connect.s3.trigger import Bucket


class NotificationReader(QueueReader):
    """Reads the queue for all triggers on it, of any bucket."""

    kind = "bucket"

    def __init__(self, address: QueueAddress, triggers: Sequence[Bucket], context: Context) -> None:
        super().__init__(address.shown, address, context.clock)
        self._triggers = triggers
        self._buckets = {one.bucket for one in triggers}

    def events_of(self, raw: bytes, headers: Mapping[str, str]) -> tuple[list[Event], list[str]]:  # noqa: ARG002 only the body matters
        changes, wrong = read_notification(raw)
        events: list[Event] = []
        for change in changes:
            if change.bucket not in self._buckets:
                wrong.append(
                    f"it is about bucket {change.bucket}, and no trigger with this queue names that bucket: "
                    "add one, or stop sending that bucket's notifications to the queue"
                )
            for trigger in forms_of(self._triggers, change):
                try:
                    events.append(trigger.event(change))
                except InvalidEvent as error:
                    wrong.append(f"{change.key}: {error}")
        return events, wrong
