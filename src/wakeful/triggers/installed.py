"""`trigger("imap", host=…)`: triggers that other packages bring, found by their entry points.

    [project.entry-points."wakeful.triggers"]
    imap = "wakeful_imap:imap"           a function: its options in, a trigger out

What such a package does wrong is said in one line, with its name: nobody else is concerned.
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
OF_ONE_THAT_IS_READ = ("shared", "reader", "problems")


def trigger(kind: str, /, **options: Any) -> Trigger:
    """A trigger that an installed package brings, by its name there. Options are those of the package."""
    made = make_of(find(kind))(**options)
    refuse_misfit(kind, made)
    found: Trigger = made
    return found


def installed() -> dict[str, list[EntryPoint]]:
    """What other packages bring, by name; more than one of a name is a mistake of somebody's."""
    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=GROUP):
        if one not in found.setdefault(one.name, []):
            found[one.name].append(one)
    return found


def find(kind: Any) -> EntryPoint:
    """The one entry point of that name."""
    known = installed()
    own = own_names()
    if kind in own:
        message = f"trigger({kind!r}): that is one of Wakeful's own: write `from wakeful import {kind}`"
        raise ConfigError(message)
    if not isinstance(kind, str) or kind not in known:
        message = (
            f"trigger({kind!r}): no installed package brings a trigger of that name.{did_you_mean(str(kind), [*known, *own])} "
            "`wakeful doctor` lists those that are installed"
        )
        raise ConfigError(message)
    if len(known[kind]) > 1:
        several = " and ".join(sorted(package_of(one) for one in known[kind]))
        message = f"trigger({kind!r}): {several} both bring one of that name: uninstall one of them"
        raise ConfigError(message)
    return known[kind][0]


def make_of(entry: EntryPoint) -> Any:
    """What makes the trigger: the entry point's function, which says in one line what is wrong."""
    where = f"trigger({entry.name!r}) of {package_of(entry)}"
    try:
        function = entry.load()
    except Exception as error:  # somebody else's code
        message = f"{where}: {entry.value} cannot be loaded: {in_a_line(error)}"
        raise ConfigError(message) from error
    if not callable(function):
        message = f"{where}: {entry.value} is not a function that makes a trigger, but {function!r}"
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
    """ConfigError for what is no trigger, with what it lacks."""
    wanted = OF_A_TRIGGER if not has_any(made, OF_ONE_THAT_IS_READ) else (*OF_A_TRIGGER, *OF_ONE_THAT_IS_READ)
    try:
        missing = [name for name in wanted if not hasattr(made, name)]
        if missing:
            message = f"trigger({kind!r}) made {made!r}, which is no trigger: it has no {', no '.join(missing)}"
            raise ConfigError(message)
        if isinstance(made, ReadTrigger):
            hash(made.shared)  # by which those are found that share a reader
    except ConfigError:
        raise
    except Exception as error:
        message = f"trigger({kind!r}) made {type(made).__name__}, which is no trigger: {in_a_line(error)}"
        raise ConfigError(message) from error


def in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(words_of(error).split())[:WORDS_SHOWN]}"


def has_any(made: Any, names: Iterable[str]) -> bool:
    return any(name in dir(made) for name in names)


def package_of(entry: EntryPoint) -> str:
    """Who brings it: name and version."""
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
