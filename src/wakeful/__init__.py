"""Wakeful runs background agents that no person is watching.

The names below are imported on first use, so that `wakeful --help` does not load what it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.clock import SystemClock, VirtualClock
    from wakeful.connect.debezium.trigger import debezium
    from wakeful.connect.postgres.trigger import postgres_changes
    from wakeful.connect.rows.outbox import outbox
    from wakeful.connect.s3.trigger import bucket
    from wakeful.connect.sqlite.trigger import sqlite_changes
    from wakeful.errors import (
        ChildFailed,
        ConfigError,
        Denied,
        Failure,
        NotSent,
        Persistent,
        RateLimited,
        RunFailed,
        TimedOut,
        Transient,
        WakefulError,
    )
    from wakeful.execution.actions import Operation, action
    from wakeful.execution.circuits import Circuit
    from wakeful.execution.deciding import Choice
    from wakeful.execution.fanout import Outcome
    from wakeful.execution.heartbeat import Check
    from wakeful.execution.run import Run
    from wakeful.functions.options import Backoff, step
    from wakeful.model import Event, Receipt
    from wakeful.policy.facts import fact
    from wakeful.secrets import env
    from wakeful.triggers.at import at
    from wakeful.triggers.cron import cron
    from wakeful.triggers.every import every
    from wakeful.triggers.files.trigger import files
    from wakeful.triggers.installed import trigger
    from wakeful.triggers.on import on
    from wakeful.triggers.webhook import webhook
    from wakeful.version import __version__ as __version__

__all__ = [
    "App",
    "Backoff",
    "Check",
    "ChildFailed",
    "Choice",
    "Circuit",
    "ConfigError",
    "Denied",
    "Event",
    "Failure",
    "NotSent",
    "Operation",
    "Outcome",
    "Persistent",
    "RateLimited",
    "Receipt",
    "Run",
    "RunFailed",
    "SystemClock",
    "TimedOut",
    "Transient",
    "VirtualClock",
    "WakefulError",
    "action",
    "at",
    "bucket",
    "cron",
    "debezium",
    "env",
    "every",
    "fact",
    "files",
    "on",
    "outbox",
    "postgres_changes",
    "sqlite_changes",
    "step",
    "trigger",
    "webhook",
]


def __getattr__(name: str) -> Any:
    from wakeful.names import HOMES

    for module, names in HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
