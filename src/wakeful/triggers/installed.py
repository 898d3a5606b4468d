"""`trigger("imap", host=…)`: triggers of other packages, found by entry points of the group `wakeful.triggers`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wakeful.errors import ConfigError
from wakeful.installed import Extensions, in_a_line
from wakeful.names import HOMES
from wakeful.triggers.base import Trigger
from wakeful.triggers.source import ReadTrigger

OF_A_TRIGGER = ("type", "source", "where", "carries_data", "describe", "matches")
OF_A_READ_TRIGGER = ("shared", "reader", "problems")


def trigger(kind: str, /, **options: Any) -> Trigger:
    """A trigger of an installed package, by its entry point name. Options are those of the package."""
    made = TRIGGERS.make(kind, options)
    refuse_misfit(kind, made)
    found: Trigger = made
    return found


def own_names() -> list[str]:
    """Wakeful's own triggers: the functions among its public names that live in triggers/ and connect/."""
    names = [
        name
        for module, some in HOMES.items()
        if module.startswith(("wakeful.triggers.", "wakeful.connect."))
        for name in some
    ]
    return [name for name in names if name.islower() and name != "trigger"]


TRIGGERS = Extensions("trigger", "wakeful", own_names)


def refuse_misfit(kind: str, made: Any) -> None:
    """Raise ConfigError if the object is not a trigger, naming the missing attributes."""
    wanted = OF_A_TRIGGER if not has_any(made, OF_A_READ_TRIGGER) else (*OF_A_TRIGGER, *OF_A_READ_TRIGGER)
    try:
        missing = [name for name in wanted if not hasattr(made, name)]
        if missing:
            message = f"trigger({kind!r}) returned {made!r}, which is not a trigger: it has no {', no '.join(missing)}"
            raise ConfigError(message)
        if isinstance(made, ReadTrigger):
            hash(made.shared)  # triggers that share a reader are grouped by it
    except ConfigError:
        raise
    except Exception as error:
        message = f"trigger({kind!r}) returned {type(made).__name__}, which is not a trigger: {in_a_line(error)}"
        raise ConfigError(message) from error


def has_any(made: Any, names: Iterable[str]) -> bool:
    return any(name in dir(made) for name in names)
