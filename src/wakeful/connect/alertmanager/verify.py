"""Alertmanager: groups of alerts, with a token or a password. Nothing is signed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic_core import to_json

from wakeful.connect.verifiers.credentials import Basic, Bearer, basic, bearer
from wakeful.connect.verifiers.reading import label, read_object, within
from wakeful.connect.verifiers.secrets import GivenSecret
from wakeful.errors import InvalidEvent
from wakeful.model import digest
from wakeful.triggers.verifier import Delivered, Verifier, WebhookRequest

STATES = ("firing", "resolved")


@dataclass(frozen=True, repr=False)
class Alertmanager(Verifier):
    """The sender proves its identity with a token or a password."""

    name: ClassVar[str] = "alertmanager"
    credentials: Bearer | Basic

    def open(self, where: str) -> None:
        self.credentials.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        self.credentials.verify(request)

    def read(self, request: WebhookRequest) -> Delivered:
        data = read_object(request.body)
        status = data.get("status")
        if status not in STATES:
            raise InvalidEvent('data.status must be "firing" or "resolved"', field="data.status")
        return Delivered(
            data,
            type=f"alertmanager.{status}",
            id=_identity(data),
            subject=label(within(data, "groupLabels", "alertname")) or label(within(data, "commonLabels", "alertname")),
        )

    def reads(self) -> tuple[str, ...]:
        return self.credentials.reads()

    def describe(self) -> str:
        user = f'user="{self.credentials.user}", ' if isinstance(self.credentials, Basic) else ""
        return f"alertmanager({user}secret={self.credentials.secrets!r})"

    __repr__ = describe


def alertmanager(secret: GivenSecret, *, user: str | None = None) -> Verifier:
    """Requests of an Alertmanager receiver: with a bearer token, or with `user=` and a password. Types are `alertmanager.firing`
    and `alertmanager.resolved`.

    An event is one state of a group's alerts. If Alertmanager sends the same state again, as a retry or because its
    `repeat_interval` has passed, it is the same event.
    """
    return Alertmanager(bearer(secret) if user is None else basic(user, secret))


def _identity(data: dict[str, Any]) -> str | None:
    """An id of the group, its state, and which alerts began and ended when. End times of firing alerts are ignored: some versions
    put the time there until which the alert holds without an update.
    """
    group, alerts = data.get("groupKey"), data.get("alerts")
    if type(group) is not str or type(alerts) is not list:
        return None
    told = [
        [
            within(alert, "fingerprint") or within(alert, "labels"),
            within(alert, "status"),
            within(alert, "startsAt"),
            within(alert, "endsAt") if within(alert, "status") == "resolved" else None,
        ]
        for alert in alerts
    ]
    states = sorted(to_json(one).decode() for one in told)
    return digest(group, data["status"], *states)
