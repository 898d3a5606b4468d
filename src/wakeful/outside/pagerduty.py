"""`duty = pagerduty(env("PAGERDUTY_KEY"))`, then `key = await run.act(duty.trigger, "Disk full")` and `await run.act(duty.resolve, key)`.

An incident has the key that was given, or the id of the operation that opened it. While it is open, PagerDuty adds a repeated trigger to it.
"""

from __future__ import annotations

from typing import Any

from wakeful.clock import duration
from wakeful.errors import ConfigError, Persistent
from wakeful.execution.actions import Action, Operation, Risk, action
from wakeful.output.channels.client import Client, check_service, read_secret
from wakeful.output.channels.pagerduty_events import PATH, SERVICE, SUMMARY_LIMIT, event_of, payload_of
from wakeful.output.channels.pagerduty_events import Action as EventAction
from wakeful.output.channels.text import visible
from wakeful.secrets import Secret, reveal

REQUEST = "20s"
CALL = "30s"


class PagerDutyActions:
    """Actions on one service. They are named `pagerduty.trigger`, `pagerduty.acknowledge` and `pagerduty.resolve`."""

    def __init__(
        self, routing_key: Secret, *, source: str, base_url: str, allow_private: bool, name: str, risk: Risk
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            message = "pagerduty(…): name must be a text: the actions are named after it"
            raise ConfigError(message)
        if not isinstance(source, str) or not source:
            message = f"pagerduty(…): source must be a text, like the name of a host, not {source!r}"
            raise ConfigError(message)
        self._name, self._source, self._allow_private = name, source, allow_private
        self._service = check_service(base_url, name, allow_private=allow_private)
        self._routing_key = read_secret(routing_key, "routing_key", name)
        self.trigger: Action[..., str] = action(name=f"{name}.trigger", safety="idempotent", risk=risk, timeout=CALL)(
            self._trigger
        )
        self.acknowledge: Action[[str], str] = action(
            name=f"{name}.acknowledge", safety="idempotent", risk=risk, timeout=CALL
        )(self._acknowledge)
        self.resolve: Action[[str], str] = action(name=f"{name}.resolve", safety="idempotent", risk=risk, timeout=CALL)(
            self._resolve
        )

    async def _trigger(
        self,
        operation: Operation,
        summary: str,
        key: str | None = None,
        severity: str = "error",
        details: dict[str, Any] | None = None,
        links: list[Any] | None = None,
    ) -> str:
        line = " ".join(visible(summary).split())[:SUMMARY_LIMIT]
        if not line or key == "":
            message = f"{self._name}: a trigger needs a summary, and a key is a text that is not empty, or none"
            raise Persistent(message)
        payload = payload_of(line, self._source, severity, details)
        return await self._send(event_of("trigger", operation.id if key is None else key, payload, links))

    async def _acknowledge(self, _operation: Operation, key: str) -> str:
        return await self._about("acknowledge", key)

    async def _resolve(self, _operation: Operation, key: str) -> str:
        return await self._about("resolve", key)

    async def _about(self, verb: EventAction, key: str) -> str:
        if not key:
            message = f"{self._name}: which incident is to {verb}? Pass the key that its trigger returned"
            raise Persistent(message)
        return await self._send(event_of(verb, key))

    async def _send(self, event: dict[str, Any]) -> str:
        """Returns the key of the incident."""
        client = Client(self._name, duration(REQUEST), allow_private=self._allow_private)
        routing_key = reveal(self._routing_key, needed_by=f"{self._name}, routing_key")
        try:
            await client.ask("POST", self._service + PATH, {}, {"routing_key": routing_key, **event})
        finally:
            await client.close()
        return str(event["dedup_key"])


def pagerduty(
    routing_key: Secret,
    *,
    source: str = "wakeful",
    base_url: str = SERVICE,
    allow_private: bool = False,
    name: str = "pagerduty",
    risk: Risk = "low",
) -> PagerDutyActions:
    """Actions on incidents: `trigger(summary, key=None, severity="error", details=None, links=None)` returns the key of the incident, which
    `acknowledge(key)` and `resolve(key)` take.

    An app with several routing keys gives each a `name`, which the names of its actions begin with.
    """
    return PagerDutyActions(
        routing_key, source=source, base_url=base_url, allow_private=allow_private, name=name, risk=risk
    )
