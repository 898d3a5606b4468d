"""Triggers and channels of other packages, found by their entry points.

    [project.entry-points."wakeful.channels"]
    matrix = "wakeful_matrix:matrix"     a function that takes options and returns a channel

Errors of such a package are reported in one line, with its name; other parts are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from wakeful.errors import ConfigError, did_you_mean
from wakeful.stored_errors import words_of

WORDS_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Extensions:
    """The extensions of one kind. `word` is what users call: `trigger("imap")`."""

    word: str
    home: str  # the module from which Wakeful's own are imported
    own: Callable[[], Collection[str]]

    @property
    def group(self) -> str:
        return f"wakeful.{self.word}s"

    def installed(self) -> dict[str, list[EntryPoint]]:
        """Those of other packages, by name; more than one for a name is a conflict."""
        found: dict[str, list[EntryPoint]] = {}
        for one in entry_points(group=self.group):
            if one not in found.setdefault(one.name, []):
                found[one.name].append(one)
        return found

    def find(self, kind: Any) -> EntryPoint:
        """The entry point of that name. Raises ConfigError if there is none, or more than one."""
        known = self.installed()
        own = self.own()
        if kind in own:
            message = f"{self.word}({kind!r}) is built in: write `from {self.home} import {kind}`"
            raise ConfigError(message)
        if not isinstance(kind, str) or kind not in known:
            message = (
                f"{self.word}({kind!r}): no installed package provides a {self.word} of that name."
                f"{did_you_mean(str(kind), [*known, *own])} `wakeful doctor` lists the installed ones"
            )
            raise ConfigError(message)
        if len(known[kind]) > 1:
            several = " and ".join(sorted(package_of(one) for one in known[kind]))
            message = f"{self.word}({kind!r}): {several} both provide one of that name: uninstall one of them"
            raise ConfigError(message)
        return known[kind][0]

    def function_of(self, entry: EntryPoint) -> Callable[..., Any]:
        """The entry point's function, wrapped so that its errors become a ConfigError of one line."""
        where = f"{self.word}({entry.name!r}) of {package_of(entry)}"
        try:
            function = entry.load()
        except Exception as error:  # code of another package may raise anything
            message = f"{where}: {entry.value} cannot be loaded: {in_a_line(error)}"
            raise ConfigError(message) from error
        if not callable(function):
            message = f"{where}: {entry.value} is not a function that returns a {self.word}, but {function!r}"
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

    def make(self, kind: str, options: dict[str, Any]) -> Any:
        return self.function_of(self.find(kind))(**options)


def in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(words_of(error).split())[:WORDS_SHOWN]}"


def package_of(entry: EntryPoint) -> str:
    """Name and version of the package that provides it."""
    return "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
