"""The context of a noun's functions: the reader, the store, the actor, and the app's code.

await desk.reads.rows(Circuit, "list_circuits")              views, made from rows
await desk.store.do(CloseCircuit(…, by=desk.by, note=desk.note))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin

from pydantic_core import from_json
from typing_extensions import get_type_hints

from wakeful.clock import seconds, to_text
from wakeful.errors import WakefulError
from wakeful.operations.pace import Pace, Progress, unseen
from wakeful.resources.declare import Page, Scope
from wakeful.resources.fields import AsCutJson, AsError, AsFlag, AsJson, AsMoment, InSeconds, Made
from wakeful.stores.health import health
from wakeful.stores.reads import NOW as NOW  # noqa: PLC0414 resources name it as theirs
from wakeful.stores.reads import ReadsDatabase, cursor_of, next_of, shown
from wakeful.stores.request import Actor, Doer
from wakeful.stores.shown_errors import shown_error

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

V = TypeVar("V")
R = TypeVar("R")
Row = Sequence[Any]


class Reads(ReadsDatabase):
    """Runs queries by name and returns rows as views."""

    async def rows(self, view: type[V], query: str, *parameters: Any) -> list[V]:
        """The rows of a query as views. Its columns must be the view's fields, in their order."""
        return views(view, await self.fetch(query, *parameters))

    async def page(self, view: type[V], query: str, *parameters: Any, limit: int, after: str | None) -> Page[V]:
        """A page of a query whose first column is the row's position and whose first parameters are `after` and `most`."""
        rows = await self.fetch(query, cursor_of(after), limit + 1, *parameters)
        return Page(views(view, [row[1:] for row in rows[:limit]]), next_of(rows, limit))

    async def health(self) -> dict[str, Any]:
        """The store and its schema. Raises StoreUnavailable or SchemaMismatch."""
        return await health(self)


@dataclass(slots=True)
class AppSide:
    """The parts that need an app's code: its agents, schedules, reminders, intake, and the results of runs."""

    agents: Any  # operations.declared.Declared
    schedules: Any
    reminders: Any
    door: Any
    results: Any
    releasing: Callable[[], Any]
    sources: Any = None
    named: str = "APP"  # as given on the command line
    arrival: Any = None  # makes the event of a schedule's occurrence


@dataclass(slots=True)
class Course:
    """How long-running work proceeds: its pace, its progress output, and whether --yes was given."""

    pace: Pace
    rate: float | None = None  # per second; None: unlimited
    progress: Progress = unseen
    yes: bool = False
    ended: Callable[[], None] = lambda: None


Story = Callable[[Reads, str], Awaitable[Mapping[str, Any] | None]]


@dataclass(slots=True)
class Desk:
    """The context of one call by one actor."""

    reads: Reads
    by: Actor
    doing: Doer | None = None
    note: str | None = None
    code: AppSide | None = None
    course: Course | None = None
    scopes: frozenset[Scope] | None = None  # the actor's permissions; None: all
    remark: Callable[[str], None] = lambda _: None  # prints a remark beside the answer, on the command line
    story: Story | None = None  # explains an id; passed in, because the package `why` may not be imported here

    @property
    def store(self) -> Doer:
        if self.doing is None:
            message = "this desk only reads"
            raise WakefulError(message)
        return self.doing

    @property
    def database_store(self) -> DatabaseStore:
        """The store, for operations that also read its database. Only tests of the API have a smaller one."""
        return cast("DatabaseStore", self.store)

    @property
    def app(self) -> AppSide:
        """The app's code. Raises WakefulError if none is loaded; a verb that uses it declares `needs_app`."""
        if self.code is None:
            message = "this needs the code of an app: name it as APP, or set WAKEFUL_APP"
            raise WakefulError(message)
        return self.code


def looking(reads: Reads) -> Desk:
    """A desk for code that only reads."""
    return Desk(reads, Actor("", "code"))


# from row to view


def views(view: type[V], rows: Sequence[Row]) -> list[V]:
    """Rows as views. The columns of a row must be the fields of the view, in their order."""
    names, made, converting = _shape(cast("Any", view))
    found = []
    for row in rows:
        one: Any = {**made, **dict(zip(names, row, strict=True))} if made else dict(zip(names, row, strict=True))
        for name, convert in converting:
            if one[name] is not None:
                one[name] = convert(one[name])
        found.append(one)
    return found


def picked(view: type[V], one: Mapping[str, Any]) -> V:
    """The fields of a view, picked from a longer row."""
    return cast("V", {name: one[name] for name in hints_of(cast("Any", view))})


CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    AsMoment: to_text,
    InSeconds: seconds,
    AsFlag: bool,
    AsJson: from_json,
    AsCutJson: shown,
    AsError: shown_error,
}


@cache
def _shape(view: type) -> tuple[tuple[str, ...], dict[str, None], tuple[tuple[str, Callable[[Any], Any]], ...]]:
    """The columns, all fields if some are not stored, and the conversions by field."""
    kinds = {name: tuple(type(mark) for mark in marks_of(hint)) for name, hint in hints_of(view).items()}
    stored = columns_of(view)
    converting = tuple((name, CONVERSIONS[kind]) for name in stored for kind in kinds[name] if kind in CONVERSIONS)
    made: dict[str, None] = dict.fromkeys(kinds) if len(stored) < len(kinds) else {}
    return stored, made, converting


def columns_of(view: type) -> tuple[str, ...]:
    """The fields of a view that are columns of its query, in order."""
    return tuple(name for name, hint in hints_of(view).items() if not any(isinstance(m, Made) for m in marks_of(hint)))


@cache
def hints_of(view: type) -> dict[str, Any]:
    """The fields of a view with their annotations."""
    return get_type_hints(view, include_extras=True)


def marks_of(hint: Any) -> tuple[Any, ...]:
    """The metadata of an annotation, also inside NotRequired and similar."""
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return (*marks, *marks_of(kind))
    if get_origin(hint) is not None and len(get_args(hint)) == 1 and not isinstance(get_origin(hint), type):
        return marks_of(get_args(hint)[0])
    return ()
