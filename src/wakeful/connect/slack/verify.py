"""Slack: X-Slack-Signature over the version, the time and the body.

events        JSON                        slack.app_mention, slack.message …
commands      a form                      slack.command
interactions  a form with one JSON field  slack.interaction.block_actions …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wakeful.clock import Duration, Microseconds, written
from wakeful.connect.verifiers.proof import (
    TOLERANCE,
    after_prefix,
    from_hexadecimal,
    raw,
    read_tolerance,
    require_near,
    require_signature,
    required,
    seconds_of,
)
from wakeful.connect.verifiers.reading import is_form, label, moment, read_form, read_object, required_word, within
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.errors import InvalidEvent
from wakeful.triggers.verifier import Answer, Challenge, Delivered, Verifier, WebhookRequest

SIGNATURE = "X-Slack-Signature"
TIMESTAMP = "X-Slack-Request-Timestamp"
NOTHING = Answer()  # Slack shows any other answer to the user of a command


@dataclass(frozen=True, repr=False)
class Slack(Verifier):
    """The body with the event's id is signed, and the time of the attempt."""

    name: ClassVar[str] = "slack"
    secrets: Secrets
    tolerance: Microseconds

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        given = from_hexadecimal(after_prefix(required(request, SIGNATURE), "v0=", SIGNATURE), SIGNATURE)
        timestamp = required(request, TIMESTAMP)
        require_near(seconds_of(timestamp, TIMESTAMP), request, self.tolerance)
        content = b"v0:" + raw(timestamp, TIMESTAMP) + b":" + request.body
        require_signature([given], self.secrets.as_keys(), content, name=SIGNATURE)

    def challenge(self, request: WebhookRequest) -> Challenge | None:
        """`url_verification` when an address is entered in Slack, `ssl_check` from time to time for a command."""
        try:
            if is_form(request):
                asked = b"ssl_check" in request.body and read_form(request.body).get("ssl_check") == "1"
                return Challenge() if asked else None
            if b"url_verification" not in request.body:
                return None
            data = read_object(request.body)
        except InvalidEvent:
            return None  # `read` reports the error
        word = data.get("challenge")
        return Challenge(word.encode()) if data.get("type") == "url_verification" and type(word) is str else None

    def read(self, request: WebhookRequest) -> Delivered:
        delivered = _form(read_form(request.body)) if is_form(request) else _event(read_object(request.body))
        delivered.answer = NOTHING
        return delivered

    def reads(self) -> tuple[str, ...]:
        return (SIGNATURE, TIMESTAMP)

    def describe(self) -> str:
        return f'slack(secret={self.secrets!r}, tolerance="{written(self.tolerance)}")'

    __repr__ = describe


def slack(secret: GivenSecret, *, tolerance: Duration = TOLERANCE) -> Verifier:
    """Requests of a Slack app: events, commands and interactions. The secret is the app's signing secret."""
    return Slack(Secrets.of(secret, where="slack"), read_tolerance(tolerance, where="slack"))


def _event(data: dict[str, Any]) -> Delivered:
    kind = data.get("type")
    if kind == "event_callback":
        kind = within(data, "event", "type")
    channel = within(data, "event", "channel")
    return Delivered(
        data,
        type=f"slack.{required_word(kind, 'data.event.type')}",
        id=label(data.get("event_id")),
        # In events about a channel itself, the channel is an object.
        subject=label(channel) or label(within(channel, "id")) or label(within(data, "event", "item", "channel")),
        time=moment(data.get("event_time")),
    )


def _form(fields: dict[str, Any]) -> Delivered:
    if "payload" in fields:
        if type(fields["payload"]) is not str:
            raise InvalidEvent("data.payload occurs more than once", field="data.payload")
        return _interaction(read_object(fields["payload"].encode()))
    if not label(fields.get("command")):
        message = "data is a form, but neither a Slack command nor an interaction"
        raise InvalidEvent(message, field="data")
    return Delivered(
        fields, type="slack.command", id=label(fields.get("trigger_id")), subject=label(fields.get("channel_id"))
    )


def _interaction(data: dict[str, Any]) -> Delivered:
    return Delivered(
        data,
        type=f"slack.interaction.{required_word(data.get('type'), 'data.type')}",
        id=label(data.get("trigger_id")),
        subject=label(within(data, "channel", "id")) or label(within(data, "user", "id")),
    )
