"""`pagerduty(routing_key=env("PAGERDUTY_KEY"))`: messages open, acknowledge and resolve incidents.

    message                                          event      its incident (dedup_key)
    an alarm that opened or is still open            trigger    app, key and number of the alarm's incident
    an alarm that resolved                           resolve    the same
    any other                                        trigger    the thread, else the message itself
    {"event_action": "resolve"} or "acknowledge"     that       the thread

PagerDuty knows a repetition by the key while the incident is open, but a trigger behind its resolve opens a new one. So a resolve that has
arrived closes its thread: for what was sent before it, or for good if it was that of an alarm, whose next incident is another thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.alarm_words import Told
from wakeful.clock import Duration, to_text
from wakeful.errors import ConfigError, Persistent
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, resolve
from wakeful.output.channels.base import Channel, Message, Sent, Surroundings
from wakeful.output.channels.client import Client, check_service, missing_secrets, read_secret, read_trying
from wakeful.output.channels.pagerduty_events import (
    ACTIONS,
    PATH,
    SERVICE,
    SEVERITIES,
    SUMMARY_LIMIT,
    Action,
    Severity,
    event_of,
    payload_of,
)
from wakeful.output.channels.text import text_of, title_of
from wakeful.secrets import Secret, reveal
from wakeful.stores.verbs.outbox import Closes

WHERE = "pagerduty(…)"
OF_AN_ALARM: dict[Told, Action] = {"opened": "trigger", "still open": "trigger", "resolved": "resolve"}
# Fields of a body that say something about the event; the others are its details.
ABOUT = frozenset({"event_action", "severity", "source", "component", "group", "class", "links"})


class PagerDuty(Channel):
    """Sends events to one service of PagerDuty."""

    repeats = "known"

    def __init__(
        self,
        routing_key: Secret,
        *,
        severity: Severity = "error",
        source: str | None = None,
        base_url: str = SERVICE,
        allow_private: bool = False,
        timeout: Duration = "30s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        self.service = check_service(base_url, WHERE, allow_private=allow_private)
        self._routing_key = read_secret(routing_key, "routing_key", WHERE)
        if severity not in SEVERITIES:
            message = f"{WHERE}: severity must be one of {', '.join(SEVERITIES)}, not {severity!r}"
            raise ConfigError(message)
        if source is not None and (not isinstance(source, str) or not source):
            message = f"{WHERE}: source must be a text, like the name of a host, not {source!r}"
            raise ConfigError(message)
        self.severity, self.source, self.allow_private = severity, source, allow_private
        trying, limit = read_trying(WHERE, timeout, attempts, backoff)
        self.timeout, self.attempts, self.backoff = timeout, trying.attempts, trying.backoff
        self._client = Client(WHERE, limit, allow_private=allow_private, resolve=resolve)

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report a missing key now, not with the first message."""
        self._revealed()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        return [await self._send(message) for message in messages]

    async def _send(self, message: Message) -> Sent:
        event = self.event(message)
        await self._client.ask("POST", self.service + PATH, {}, {"routing_key": self._revealed(), **event})
        return Sent(event["dedup_key"], closes=_closes(event["event_action"], message))

    def event(self, message: Message) -> dict[str, Any]:
        """The event of a message, without the routing key. Raises Persistent if it would not concern an incident."""
        body = message.body if isinstance(message.body, dict) else {}
        if is_alarm(body):
            key = f"{message.app}/{body['key']}/{body['incident']}"
            return event_of(OF_AN_ALARM[body["what"]], key, self._payload(message, body), body.get("links"))
        action = body.get("event_action", "resolve" if body.get("what") == "resolved" else "trigger")
        if action not in ACTIONS:
            words = f"{WHERE}: event_action must be one of {', '.join(ACTIONS)}, not {action!r}"
            raise Persistent(words)
        if action != "trigger" and message.thread is None:
            words = f'{WHERE}: which incident is to {action}? Send the trigger and this message with the same thread: run.send(…, thread="…")'
            raise Persistent(words)
        return event_of(action, message.thread or message.id, self._payload(message, body), body.get("links"))

    def _payload(self, message: Message, body: Mapping[str, Any]) -> dict[str, Any]:
        urgent = message.urgent or body.get("loud") is True
        source = body.get("source")
        details = {name: value for name, value in body.items() if name not in ABOUT}
        if not body:
            details = {"text": text_of(message).words}
        return payload_of(
            title_of(message, SUMMARY_LIMIT),
            source if isinstance(source, str) and source else self.source or message.app,
            body.get("severity", "critical" if urgent else self.severity),
            details,
            timestamp=to_text(message.committed_at),
            component=body.get("component", message.agent),
            group=body.get("group"),
            **{"class": body.get("class")},
        )

    def _revealed(self) -> str:
        return reveal(self._routing_key, needed_by=f"{WHERE}, routing_key")

    def missing(self) -> list[str]:
        return missing_secrets([(self._routing_key, "routing_key")], WHERE)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "pagerduty",
            "url": self.service,
            "severity": self.severity,
            "source": self.source,
            "allow_private": self.allow_private,
        }

    def __repr__(self) -> str:
        return f'pagerduty("{self.service}")'


def is_alarm(body: Mapping[str, Any]) -> bool:
    """Whether a message tells an alarm, with its incident."""
    what, key, incident = body.get("what"), body.get("key"), body.get("incident")
    return isinstance(what, str) and what in OF_AN_ALARM and isinstance(key, str) and isinstance(incident, int)


def _closes(action: Action, message: Message) -> Closes | None:
    if action != "resolve":
        return None
    return "thread" if is_alarm(message.body) else "earlier"


def pagerduty(
    routing_key: Secret,
    *,
    severity: Severity = "error",
    source: str | None = None,
    base_url: str = SERVICE,
    allow_private: bool = False,
    timeout: Duration = "30s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> PagerDuty:
    """Incidents at PagerDuty, by the routing key of an Events API v2 integration: `env("NAME")`, or a text.

    `severity` is that of messages that say nothing about it; urgent ones are critical. `base_url` is
    "https://events.eu.pagerduty.com" for accounts in Europe.
    """
    return PagerDuty(
        routing_key,
        severity=severity,
        source=source,
        base_url=base_url,
        allow_private=allow_private,
        timeout=timeout,
        attempts=attempts,
        backoff=backoff,
    )
