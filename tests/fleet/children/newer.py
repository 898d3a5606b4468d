"""The same app after a change of its code: one agent has one more step."""

from __future__ import annotations

from fleet.children.workload import loaded

app = loaded(audited=True)
