"""`run.send`: a message to a channel, which leaves with the commit."""

from __future__ import annotations

from typing import Any

from wakeful.errors import Persistent, UnknownChannel, did_you_mean
from wakeful.execution.attempt import Attempt
from wakeful.functions.emits import refuse_type
from wakeful.model import Delivery, digest
from wakeful.values import plain, to_text

LONGEST_THREAD = 200


def put_out(
    attempt: Attempt, channel: Any, message: Any, *, subject: Any = None, urgent: bool = False, thread: Any = None
) -> None:
    """Add a message to those that leave with the commit."""
    around, record = attempt.surroundings, attempt.record
    if thread is not None and not (isinstance(thread, str) and 0 < len(thread) <= LONGEST_THREAD):
        words = f"run.send: a thread is a text of 1 to {LONGEST_THREAD} characters, not {thread!r}"
        raise Persistent(words)
    if subject is not None and not isinstance(subject, str):
        words = f"run.send: the subject is a text, not {subject!r}"
        raise Persistent(words)
    if not isinstance(channel, str) or channel not in around.channels:
        guess = did_you_mean(str(channel), around.channels)
        words = f'run.send: app {around.app} has no channel "{channel}".{guess}'
        raise UnknownChannel(f'{words} Declare it: App(…, channels={{"{channel}": http("https://…")}})')
    if (type_ := around.event_channels.get(channel)) is not None:
        refuse_type(around.emits, attempt.agent, type_, f'a message to channel "{channel}"')
    text = to_text(message, what=f"the message to channel {channel}", passed=True)
    subject = None if subject is None else plain(subject)
    key, _ = record.next_key(f"send {channel}", digest(text, subject or ""))
    identifier = f"{attempt.root}-{digest(key, size=6)}"
    if identifier in attempt.claim.sent:
        return  # an earlier run with the same root sent it
    position, record.position = record.position, record.position + 1
    urgent = bool(urgent)
    if thread is not None:  # order holds within a lane: a thread of this run goes in the lane of its first message
        thread = plain(thread)
        urgent = attempt.outgoing.threads.setdefault((channel, thread), urgent)
    attempt.outgoing.deliveries.append(
        Delivery(identifier, channel, text, subject, position, urgent=urgent, thread=thread)
    )
