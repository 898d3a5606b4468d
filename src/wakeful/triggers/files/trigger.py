"""`files("inbox/*.md", settle="2s")`: wakes an agent when a file is complete, has changed, or was deleted."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from wakeful.cel import Condition, Match, compile_condition
from wakeful.clock import SECOND, Duration, Microseconds, duration, seconds, written
from wakeful.errors import ConfigError, did_you_mean
from wakeful.model import Event, digest
from wakeful.size import read_size
from wakeful.triggers.files.ledger import OPERATIONS, FileLedger, FileOperation
from wakeful.triggers.files.looker import Looker
from wakeful.triggers.files.mounts import network_of
from wakeful.triggers.files.pattern import FilePattern, read_pattern
from wakeful.triggers.files.reader import FilesReader, Form, alike
from wakeful.triggers.mapping import Mapping, name_of_mapping, read_mapping
from wakeful.triggers.options import refuse_unknown_options
from wakeful.triggers.source import Context, Reader, SourceTrouble

LONGEST: Microseconds = 86_400 * SECOND
MAX_SIZE = "50MB"
SHORTEST_POLL: Microseconds = SECOND // 10


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a pattern matches, and which of their changes become events."""

    written: str
    pattern: FilePattern
    settle: Microseconds
    operations: tuple[FileOperation, ...]
    shared_folder: bool
    poll: Microseconds | None
    existing: bool
    follow_links: bool
    max_size: int | None
    where: str | None
    data: Mapping | None
    _condition: Condition | None = field(init=False, repr=False, compare=False)
    _mapping: Callable[[Event], Any] | None = field(init=False, repr=False, compare=False)

    carries_data: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shown = f'files("{self.written}")'
        condition = None if self.where is None else compile_condition(self.where, where=shown)
        object.__setattr__(self, "_condition", condition)
        object.__setattr__(self, "_mapping", read_mapping(self.data, where=shown))

    @property
    def type(self) -> str:
        return f"file.{self.operations[0]}" if len(self.operations) == 1 else "file.*"

    @property
    def name(self) -> str:
        """The name of the source: each machine has its own folder, unless they share it."""
        host = "" if self.shared_folder else f"/{socket.gethostname()}"
        return f"/files{host}{self.pattern.whole}"

    @property
    def source(self) -> str:
        """The source of its events. Triggers without `data` share events; one with `data` has events of its own."""
        return self.name if self.data is None else f"{self.name}#{digest(name_of_mapping(self.data), size=4)}"

    @property
    def shared(self) -> tuple[object, ...]:
        return ("files", self.name)

    def reader(self, triggers: Sequence[Any], context: Context) -> Reader:
        sharing = cast("Sequence[Files]", triggers)
        ways = [(one.settle, one.poll, one.existing, one.follow_links, one.max_size) for one in sharing]
        alike(ways, where=f'files("{self.written}")')
        forms: dict[str, Form] = {}
        told = {one.source: one.data for one in sharing}
        for one in sharing:
            if one.data != told[one.source]:
                message = (
                    f'files("{self.written}"): two functions for data= have the same name, {name_of_mapping(one.data)}, so their '
                    "events could not be told apart: give each a name of its own"
                )
                raise ConfigError(message)
            before = forms[one.source].operations if one.source in forms else frozenset[FileOperation]()
            forms[one.source] = Form(one.source, before.union(one.operations), one._mapping)  # noqa: SLF001 its own class
        return FilesReader(
            self.name,
            self.pattern,
            list(forms.values()),
            context,
            settle=seconds(self.settle),
            poll=None if self.poll is None else seconds(self.poll),
            existing=self.existing,
            follow_links=self.follow_links,
            max_size=self.max_size,
        )

    async def problems(self) -> list[str]:
        looker = Looker(self.pattern, FileLedger(), settle=0.0)
        try:
            await asyncio.to_thread(looker.open)
        except SourceTrouble as trouble:
            return [str(trouble)]
        single = os.path.join(self.pattern.root, *self.pattern.parts)
        if not self.follow_links and await asyncio.to_thread(os.path.islink, single):
            message = f'files("{self.written}"): this is a link, and links are not followed: name the file itself, or add follow_links=True'
            return [message]
        kind = await asyncio.to_thread(network_of, self.pattern.root)
        if kind is None or self.poll is not None:
            return []
        message = (
            f'files("{self.written}"): {self.pattern.root} is on a network file system ({kind}), where changes by other machines are '
            'not reported: poll instead, with poll="5s"'
        )
        return [message]

    def describe(self) -> str:
        parts = [f'"{self.written}"']
        if self.operations != OPERATIONS:
            parts.append(f"operations={list(self.operations)}")
        if self.shared_folder:
            parts.append("shared=True")
        if self.follow_links:
            parts.append("follow_links=True")
        if self.where is not None:
            parts.append(f'where="{self.where}"')
        return f"files({', '.join(parts)})"

    def matches(self, event: Event) -> Match:
        if event.type.removeprefix("file.") not in self.operations:
            return Match(matched=False, reason=f'type "{event.type}" is not one of {", ".join(self.operations)}')
        if self._condition is None:
            return Match(matched=True, reason=self.describe())
        return self._condition.matches(event)


@refuse_unknown_options
def files(
    pattern: str | os.PathLike[str],
    *,
    settle: Duration = "2s",
    operations: str | Sequence[str] = OPERATIONS,
    shared: bool = False,
    poll: Duration | None = None,
    existing: bool = True,
    follow_links: bool = False,
    max_size: str | int | None = MAX_SIZE,
    where: str | None = None,
    data: Mapping | None = None,
) -> Files:
    """Wake for files that appear, change or disappear.

    `pattern`: `*`, `?`, `[abc]`, and `**` for any folders; relative to the working directory. `settle`: a file is complete when
    it has not changed for this long. `operations`: "created", "changed", "deleted". `shared`: several machines share the folder,
    and one of them reads it. `follow_links`: a link to a file stands for that file; else links are listed in quarantine and their
    targets are not read. `max_size`: larger files are listed there too; None: any size. `poll`: look this often, where changes
    cannot be watched, as on a network. `existing=False`: files that exist at the very first start are not news. `where` is CEL
    over `data` and `event.*`; `data` maps the data that the agent gets.
    """
    read = read_pattern(pattern)
    shown = f'files("{pattern}")'
    return Files(
        str(os.fspath(pattern)),
        read,
        _read_span(settle, shown, "settle", least=0),
        _read_operations(operations, shown),
        _read_flag(shared, shown, "shared"),
        None if poll is None else _read_span(poll, shown, "poll", least=SHORTEST_POLL),
        _read_flag(existing, shown, "existing"),
        _read_flag(follow_links, shown, "follow_links"),
        None if max_size is None else _read_max_size(max_size, shown),
        where,
        data,
    )


def _read_span(given: Duration, where: str, option: str, *, least: Microseconds) -> Microseconds:
    try:
        span = duration(given)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{where}: {option}: {error}") from None
    if not least <= span <= LONGEST:
        raise ConfigError(f"{where}: {option} must be between {written(least)} and {written(LONGEST)}, not {given!r}")
    return span


def _read_operations(given: str | Sequence[str], where: str) -> tuple[FileOperation, ...]:
    named = (given,) if isinstance(given, str) else tuple(given)
    for one in named:
        if one not in OPERATIONS:
            hint = did_you_mean(str(one), OPERATIONS)
            raise ConfigError(f'{where}: operations: unknown operation "{one}".{hint} Use {", ".join(OPERATIONS)}')
    if not named:
        raise ConfigError(
            f'{where}: operations is empty: name "created", "changed" or "deleted", or leave it out for all'
        )
    return tuple(one for one in OPERATIONS if one in named)


def _read_max_size(given: str | int, where: str) -> int:
    try:
        return read_size(given)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: max_size: {error}, or None for any size") from None


def _read_flag(given: object, where: str, option: str) -> bool:
    if not isinstance(given, bool):
        raise ConfigError(f"{where}: {option} must be True or False, not {given!r}")
    return given
