"""Runs that wait many times over, in older code."""

from __future__ import annotations

from fleet.children.turns import loaded

app = loaded("1")
