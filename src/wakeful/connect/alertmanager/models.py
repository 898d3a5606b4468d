"""Alertmanager: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from wakeful.connect.sent import SentInCamelCase


class Alert(SentInCamelCase):
    """One alert. While it fires, `ends_at` is meaningless."""

    status: str
    labels: dict[str, str]
    annotations: dict[str, str] = Field(default_factory=dict)
    starts_at: datetime
    ends_at: datetime | None = None
    generator_url: str | None = Field(default=None, alias="generatorURL")
    fingerprint: str | None = None


class AlertGroup(SentInCamelCase):
    """`alertmanager.firing` and `alertmanager.resolved`. A group fires as long as one of its alerts does."""

    status: str
    receiver: str
    group_key: str
    group_labels: dict[str, str] = Field(default_factory=dict)
    common_labels: dict[str, str] = Field(default_factory=dict)
    common_annotations: dict[str, str] = Field(default_factory=dict)
    external_url: str | None = Field(default=None, alias="externalURL")
    truncated_alerts: int = 0
    alerts: list[Alert]
