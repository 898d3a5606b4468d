"""Wakeful's own test kit, for the tests of your agents.

The names below are loaded on first use: the pytest plugin of this package must not slow down other tests.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wakeful.clock import VirtualClock
    from wakeful.testing.boundaries import Boundaries, Boundary
    from wakeful.testing.crash import crash_everywhere
    from wakeful.testing.fakes import Call, Fake
    from wakeful.testing.idempotence import assert_idempotent
    from wakeful.testing.postgres_server import PostgresServer, PostgresUnavailable
    from wakeful.testing.report import Crash, CrashReport, Problem
    from wakeful.testing.world import World

__all__ = [
    "Boundaries",
    "Boundary",
    "Call",
    "Crash",
    "CrashReport",
    "Fake",
    "PostgresServer",
    "PostgresUnavailable",
    "Problem",
    "VirtualClock",
    "World",
    "assert_idempotent",
    "crash_everywhere",
]

# The module of each public name. A test compares this with the imports above.
_HOMES = {
    "wakeful.clock": ("VirtualClock",),
    "wakeful.testing.boundaries": ("Boundaries", "Boundary"),
    "wakeful.testing.crash": ("crash_everywhere",),
    "wakeful.testing.fakes": ("Call", "Fake"),
    "wakeful.testing.idempotence": ("assert_idempotent",),
    "wakeful.testing.postgres_server": ("PostgresServer", "PostgresUnavailable"),
    "wakeful.testing.report": ("Crash", "CrashReport", "Problem"),
    "wakeful.testing.world": ("World",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
