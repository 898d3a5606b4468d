"""`trigger("imap", host=…)`: triggers of other packages, found by their entry points.

    [project.entry-points."wakeful.triggers"]
    imap = "wakeful_imap:imap"           a function that takes options and returns a trigger

Errors of such a package are reported in one line, with its name; other triggers are not affected.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from wakeful.errors import ConfigError, did_you_mean
from wakeful.names import HOMES
from wakeful.stored_errors import words_of
from wakeful.triggers.base import Trigger
from wakeful.triggers.source import ReadTrigger

GROUP = "wakeful.triggers"
WORDS_SHOWN = 300
OF_A_TRIGGER = ("type", "source", "where", "carries_data", "describe", "matches")
OF_A_READ_TRIGGER = ("shared", "reader", "problems")


def trigger(kind: str, /, **options: Any) -> Trigger:
    """A trigger of an installed package, by its entry point name. Options are those of the package."""
    made = make_of(find(kind))(**options)
    refuse_misfit(kind, made)
    found: Trigger = made
    return found


def installed() -> dict[str, list[EntryPoint]]:
    """The triggers of other packages, by name; more than one for a name is a conflict."""
    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=GROUP):
        if one not in found.setdefault(one.name, []):
            found[one.name].append(one)
    return found


def find(kind: Any) -> EntryPoint:
    """The entry point of that name. Raises ConfigError if there is none, or more than one."""
    known = installed()
    own = own_names()
    if kind in own:
        message = f"trigger({kind!r}) is built in: write `from wakeful import {kind}`"
        raise ConfigError(message)
    if not isinstance(kind, str) or kind not in known:
        message = (
            f"trigger({kind!r}): no installed package provides a trigger of that name.{did_you_mean(str(kind), [*known, *own])} "
            "`wakeful doctor` lists the installed ones"
        )
        raise ConfigError(message)
    if len(known[kind]) > 1:
        several = " and ".join(sorted(package_of(one) for one in known[kind]))
        message = f"trigger({kind!r}): {several} both provide one of that name: uninstall one of them"
        raise ConfigError(message)
    return known[kind][0]


def make_of(entry: EntryPoint) -> Any:
    """The entry point's function, wrapped so that its errors become a ConfigError of one line."""
    where = f"trigger({entry.name!r}) of {package_of(entry)}"
    try:
        function = entry.load()
    except Exception as error:  # code of another package may raise anything
        message = f"{where}: {entry.value} cannot be loaded: {in_a_line(error)}"
        raise ConfigError(message) from error
    if not callable(function):
        message = f"{where}: {entry.value} is not a function that returns a trigger, but {function!r}"
        raise ConfigError(message)

    def make(**options: Any) -> Any:
        try:
            return function(**options)
        except ConfigError:
            raise
        except Exception as error:
            message = f"{where}: {in_a_line(error)}"
            raise ConfigError(message) from error

    return make


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


def in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(words_of(error).split())[:WORDS_SHOWN]}"


def has_any(made: Any, names: Iterable[str]) -> bool:
    return any(name in dir(made) for name in names)


def package_of(entry: EntryPoint) -> str:
    """Name and version of the package that provides it."""
    return "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def own_names() -> list[str]:
    """Wakeful's own triggers: the functions among its public names that live in triggers/ and connect/."""
    names = [
        name
        for module, some in HOMES.items()
        if module.startswith(("wakeful.triggers.", "wakeful.connect."))
        for name in some
    ]
    return [name for name in names if name.islower() and name != "trigger"]
