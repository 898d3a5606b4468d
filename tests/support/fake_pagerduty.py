"""PagerDuty's Events API v2, as far as a channel and actions need it, with its checks: it opens, merges and resolves incidents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from support.receiver import Reply, Request
from support.service import Refused, Service, object_of, reply

KEY = "R015Q3FAK3K3Y7G2B8D4E6F1A9C0ZX5T"
FIELDS = frozenset({"routing_key", "event_action", "dedup_key", "payload", "links", "images", "client", "client_url"})
PAYLOAD = frozenset({"summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details"})


@dataclass
class Incident:
    key: str
    state: str = "triggered"
    alerts: list[dict[str, Any]] = field(default_factory=list)


class FakePagerDuty(Service):
    """One service. `incidents` are all that were ever opened, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.incidents: list[Incident] = []
        self.events: list[tuple[str, str]] = []  # what was taken: the action and the key

    @property
    def opened(self) -> Counter[str]:
        """How many incidents each key has opened."""
        return Counter(one.key for one in self.incidents)

    @property
    def open(self) -> list[str]:
        return [one.key for one in self.incidents if one.state != "resolved"]

    def handle(self, request: Request) -> Reply:
        if (request.method, request.path) != ("POST", "/v2/enqueue"):
            raise Refused(404, {"message": "Not Found"})
        if len(request.body) > 512_000:
            raise Refused(413, {"message": "Payload Too Large"})
        event = object_of(request)
        errors = _errors(event)
        if errors:
            raise Refused(400, {"status": "invalid event", "message": "Event object is invalid", "errors": errors})
        key = event["dedup_key"]
        self.events.append((event["event_action"], key))
        known = next((one for one in self.incidents if one.key == key and one.state != "resolved"), None)
        match event["event_action"]:
            case "trigger":
                if known is None:
                    known = Incident(key)
                    self.incidents.append(known)
                known.alerts.append(event)
            case "acknowledge" if known is not None:
                known.state = "acknowledged"
            case "resolve" if known is not None:
                known.state = "resolved"
        return reply(202, {"status": "success", "message": "Event processed", "dedup_key": key})


def _errors(event: dict[str, Any]) -> list[str]:
    errors = [f"'{name}' is not a field of an event" for name in sorted(set(event) - FIELDS)]
    if event.get("routing_key") != KEY:
        errors.append("'routing_key' is invalid")
    if event.get("event_action") not in {"trigger", "acknowledge", "resolve"}:
        errors.append("'event_action' is invalid")
    key = event.get("dedup_key")
    if not isinstance(key, str) or not 0 < len(key) <= 255:
        errors.append("'dedup_key' is missing, blank or too long")
    if event.get("event_action") == "trigger":
        errors += _errors_of_payload(event.get("payload"))
        for link in event.get("links", []):
            if set(link) != {"href", "text"} or not all(isinstance(one, str) for one in link.values()):
                errors.append("'links' is invalid")
    return errors


def _errors_of_payload(payload: Any) -> list[str]:
    if not isinstance(payload, dict):
        return ["'payload' is missing or blank"]
    errors = [f"'payload.{name}' is not a field" for name in sorted(set(payload) - PAYLOAD)]
    summary = payload.get("summary")
    if not isinstance(summary, str) or not 0 < len(summary) <= 1024:
        errors.append("'payload.summary' is missing, blank or too long")
    if not isinstance(payload.get("source"), str) or not payload["source"]:
        errors.append("'payload.source' is missing or blank")
    if payload.get("severity") not in {"critical", "error", "warning", "info"}:
        errors.append("'payload.severity' is invalid")
    texts = [name for name in ("timestamp", "component", "group", "class") if name in payload]
    return errors + [f"'payload.{name}' is invalid" for name in texts if not isinstance(payload[name], str)]
