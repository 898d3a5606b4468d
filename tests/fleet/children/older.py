"""The app of a fleet, as its workers load it."""

from __future__ import annotations

from fleet.children.workload import loaded

app = loaded(audited=False)
