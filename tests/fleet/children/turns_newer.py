"""Runs that wait many times over, in newer code."""

from __future__ import annotations

from fleet.children.turns import loaded

app = loaded("2")
