"""Wakeful runs the agents that nobody is watching."""

from wakeful.app import App
from wakeful.clock import SystemClock, VirtualClock
from wakeful.errors import (
    ConfigError,
    Denied,
    Failure,
    NotSent,
    Persistent,
    RateLimited,
    Transient,
    WakefulError,
)
from wakeful.execution.options import Backoff, step
from wakeful.execution.run import Outcome, Run
from wakeful.model import Event, Receipt
from wakeful.triggers.on import on

__version__ = "0.1.0"

__all__ = [
    "App",
    "Backoff",
    "ConfigError",
    "Denied",
    "Event",
    "Failure",
    "NotSent",
    "Outcome",
    "Persistent",
    "RateLimited",
    "Receipt",
    "Run",
    "SystemClock",
    "Transient",
    "VirtualClock",
    "WakefulError",
    "on",
    "step",
]
