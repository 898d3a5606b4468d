"""The options of `App`, and the defaults that are not obvious from their type."""

from __future__ import annotations

APP_OPTIONS = (
    "store",
    "in_flight",
    "clock",
    "rules",
    "policy",
    "people",
    "channels",
    "circuits",
    "retention",
    "deduplication",
    "keep_operations",
    "archive",
    "encryption",
    "ping",
    "watch_every",
    "alarms",
    "alarm_repeat",
    "alarm_after",
    "pause_after",
    "drain",
    "backlog",
    "lag_within",
    "connections",
    "listen_store",
    "chain_depth",
    "chain_rate",
    "quarantine",
    "quarantine_for",
    "programs_may_answer",
)
BACKLOG = 10_000
LAG_WITHIN = "15m"
DEDUPLICATION = "90d"
QUARANTINE = "100MB"
QUARANTINE_FOR = "7d"
ALARM_REPEAT = "4h"
DRAIN = "10m"
