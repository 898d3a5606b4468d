"""PagerDuty: https://developer.pagerduty.com/docs/webhooks-overview"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from wakeful.connect.sent import Sent


class Reference(Sent):
    """A user, a service or a team: its id and name."""

    id: str
    type: str | None = None
    summary: str | None = None
    html_url: str | None = None


class Incident(Sent):
    id: str
    number: int | None = None
    title: str | None = None
    status: str | None = None
    urgency: str | None = None
    html_url: str | None = None
    incident_key: str | None = None
    service: Reference | None = None
    assignees: list[Reference] = Field(default_factory=list)
    teams: list[Reference] = Field(default_factory=list)
    escalation_policy: Reference | None = None
    priority: Reference | None = None
    resolve_reason: Any = None
    created_at: datetime | None = None


class Happening(Sent):
    id: str
    event_type: str
    resource_type: str | None = None
    occurred_at: datetime
    agent: Reference | None = None
    client: dict[str, Any] | None = None
    data: Incident


class IncidentEvent(Sent):
    """`pagerduty.incident.triggered`, `.acknowledged`, `.resolved` and others about an incident as a whole."""

    event: Happening
