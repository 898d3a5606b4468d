"""What PagerDuty's Events API v2 takes: events that open, acknowledge and resolve an incident, named by their `dedup_key`.

    POST /v2/enqueue   {"routing_key", "event_action": "trigger" | "acknowledge" | "resolve", "dedup_key", "payload": {…}}
    202                {"status": "success", "dedup_key"}

While an incident is open, a further trigger with its key is added to it. After its resolve the same trigger opens a new one.
https://developer.pagerduty.com/docs/events-api-v2-overview
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic_core import to_json

from wakeful.errors import Persistent
from wakeful.model import digest

SERVICE = "https://events.pagerduty.com"
PATH = "/v2/enqueue"
KEY_LIMIT = 255
SUMMARY_LIMIT = 1_024
DETAILS_LIMIT = 400_000  # bytes; the whole event may have 512 kB
MOST_LINKS = 50
Action = Literal["trigger", "acknowledge", "resolve"]
Severity = Literal["critical", "error", "warning", "info"]
ACTIONS: tuple[Action, ...] = get_args(Action)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def dedup_key(key: str) -> str:
    """A key that PagerDuty takes: the text, or its digest if it is too long."""
    return key if len(key) <= KEY_LIMIT else digest(key)


def event_of(action: Action, key: str, payload: dict[str, Any] | None = None, links: Any = None) -> dict[str, Any]:
    """An event without its routing key, which is a secret."""
    event: dict[str, Any] = {"event_action": action, "dedup_key": dedup_key(key)}
    if action == "trigger":
        event["payload"] = payload
        if links:
            event["links"] = links_of(links)
    return event


def payload_of(summary: str, source: str, severity: Any, details: Any = None, **more: Any) -> dict[str, Any]:
    """The payload of a trigger. Raises Persistent for a value that PagerDuty does not know."""
    if severity not in SEVERITIES:
        message = f"pagerduty: severity must be one of {', '.join(SEVERITIES)}, not {severity!r}"
        raise Persistent(message)
    payload = {"summary": summary[:SUMMARY_LIMIT], "source": source, "severity": severity}
    payload |= {name: value for name, value in more.items() if isinstance(value, str) and value}
    if details:
        payload["custom_details"] = _bounded(details)
    return payload


def links_of(links: Any) -> list[dict[str, str]]:
    """Links as PagerDuty takes them: http addresses, each with its text."""
    told = links if isinstance(links, list) else [links]
    made = []
    for one in told[:MOST_LINKS]:
        link = {"href": one} if isinstance(one, str) else one
        href = link.get("href") if isinstance(link, dict) else None
        if not isinstance(href, str) or not href.startswith(("https://", "http://")):
            message = f'pagerduty: a link is {{"href": "https://…", "text": "…"}}, not {one!r}'
            raise Persistent(message)
        made.append({"href": href, "text": str(link.get("text") or href)})
    return made


def _bounded(details: Any) -> Any:
    content = to_json(details)
    if len(content) <= DETAILS_LIMIT:
        return details
    words = content[:DETAILS_LIMIT].decode("utf-8", "ignore")
    return {"cut": "the details are longer than PagerDuty takes: this is their beginning", "details": words}
