"""How a noun is declared: `Resource` names its listing, its readings and its verbs, and how the command line prints them.

Every surface is generated from these declarations. Types of a view's fields are in `fields`, parameters of functions in `parameters`,
errors in `refusals`. Nothing here knows HTTP, argparse or a terminal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from wakeful.resources.words import Aside, Line, Look, Table

V = TypeVar("V")
Json = dict[str, Any]
Scope = Literal["read", "operate", "answer"]
Danger = Literal["none", "some", "much"]
Printed = Iterable[str | Line | Table | Aside]


class Worded(dict[str, Any]):
    """An answer with extra lines for the command line that are not members of its JSON."""

    lines: Sequence[str] = ()

    def saying(self, *lines: str) -> Worded:
        self.lines = lines
        return self


@dataclass(slots=True)
class Page(Generic[V]):
    """A page of a listing. `next` is the `after` of the next request; `more` are further members of the answer; `last` are lines
    that only the command line prints, below all others.
    """

    items: list[V]
    next: str | None
    more: Json = field(default_factory=dict)
    last: Sequence[str] = ()


# reading


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a listing in a terminal. `show` formats its cell; without it, the field's type decides."""

    title: str
    name: str | None = None  # the view's field, if it differs from the title
    flexible: bool = False  # cut this column if the terminal is too narrow
    style: str = ""
    none: str = "–"
    show: Callable[[Any, Look], str | tuple[str, str]] | None = None
    least: int = 0  # minimum width of the terminal for this column
    when: Callable[[Sequence[Any], Look], bool] | None = None  # show the column only if this holds for the rows

    @property
    def field(self) -> str:
        return self.name or self.title


@dataclass(frozen=True, slots=True)
class Listing:
    """GET on the collection, and `wakeful NOUN`. `read(desk, *, …)` returns a list of views, or a `Page`."""

    read: Callable[..., Awaitable[Any]]
    summary: str
    none: str | Callable[..., Awaitable[str]] = (
        "nothing found"  # or `none(desk, **filters)`: printed for an empty listing
    )
    columns: tuple[Column, ...] = ()
    lines: Callable[[Any, Look], Printed] | None = None  # instead of columns: the lines of each item
    less: tuple[str, ...] = ()  # columns that a narrow terminal drops, in this order
    below: str | None = None  # the column that a narrow terminal prints below its row
    beside: Callable[[Sequence[Any]], int] | None = (
        None  # the terminal width from which on `below` is printed inside its row
    )
    after: Callable[[Sequence[Any], Mapping[str, Any], Look], Printed] | None = (
        None  # printed below; takes items, filters, look
    )
    told: Callable[..., Awaitable[Printed]] | None = (
        None  # `told(desk, items, filters, look)`: printed below, if that takes further reads
    )
    more: type | None = None  # the view of the answer's further members
    called: str | None = None  # the plural in "more …", if not the noun's plural
    member: str | None = None  # the answer's member that holds the items, if not the noun's plural
    whole: Callable[[Sequence[Any], Look], Printed] | None = None  # instead of columns: prints all items at once
    forms: tuple[tuple[str, Listing], ...] = ()  # (filter, listing): if the filter is given, print as that listing


@dataclass(frozen=True, slots=True)
class Show:
    """GET on one thing, and `wakeful NOUN show KEY`. `find(desk, key, *, …)` returns a view or None."""

    find: Callable[..., Awaitable[Any]]
    summary: str
    lines: Callable[[Any, Look], Printed] | None = None
    told: Callable[..., Awaitable[Printed]] | None = (
        None  # `told(desk, one)`: instead of `lines`, if that takes further reads
    )
    bare: bool = False  # on the command line, a missing key lists everything
    usual: bool = False  # on the command line, a missing key means the usual one: `find` gets ""
    raw: Callable[..., Awaitable[bytes]] | None = None  # `raw(desk, one)`: the bytes that --raw FILE writes
    hidden: bool = False  # used only to find the target of verbs; has no path and no command


@dataclass(frozen=True, slots=True)
class Reading:
    """A further way to read one item (`read(desk, one, *, …)`) or the collection (`read(desk, *, …)`)."""

    name: str
    read: Callable[..., Awaitable[Any]]
    summary: str
    lines: Callable[[Any, Look], Printed]
    of_one: bool = True
    http: str | None = None
    operation: str | None = None  # operationId in the OpenAPI document, if not the default
    found: str = "Found"  # description of the answer in the OpenAPI document
    code: str | None = None  # what --app APP is for, on the command line


# verbs


@dataclass(slots=True)
class Planned:
    """What a bulk verb would do. `answer` is the JSON of its plan; `more` is added to each answer.

    For the command line: `last` is added to the JSON at the end; `said` are lines printed first; `doubt` is a reason to ask
    back: the message without --yes, and the message with it.
    """

    count: int
    answer: Json
    work: Any
    more: Json = field(default_factory=dict)
    last: Json = field(default_factory=dict)
    said: Sequence[str] = ()
    doubt: tuple[str, str] | None = None
    failed: bool = False  # set by the slice: some items failed, so the command exits with 1


@dataclass(frozen=True, slots=True)
class Bulk:
    """A verb for many items at once.

    `plan(desk, *, …)` counts the items and changes nothing. `slice(desk, planned, most, pace, progress)` handles at most `most`
    items and returns how many it did. HTTP does one slice per request and reports how many are left; the command line continues
    until none is left.
    """

    plan: Callable[..., Awaitable[Planned]]
    slice: Callable[..., Awaitable[int]]
    some: tuple[str, ...]  # parameters that select items; at least one is required
    many: str  # "held effects"
    done: str  # the answer's member with the count: "settled"
    none: Callable[[str], str] | None  # the message if no item matches; takes "cli" or "http". None: `plan` raises it
    planned: Callable[[Planned, Mapping[str, Any], Look], Printed]  # the plan on the command line
    says: Callable[[int, Planned, Look], Printed]  # printed by the command line at the end
    view: type  # of the answers of plan and slice: its fields are optional
    before: Callable[[Planned, Look], Iterable[str]] | None = (
        None  # printed by the command line before the plan or the work
    )
    words: Callable[[Planned, Mapping[str, Any]], str] | None = (
        None  # the plan in a sentence: "plan" in the command line's JSON
    )
    summary: str | None = None  # in the OpenAPI document
    inside: str = "filter"  # the member of an HTTP body that holds the filter
    rate: float | None = 50.0  # default --rate on the command line, per second
    apps: Callable[..., Awaitable[Iterable[str]]] | None = (
        None  # `apps(desk, planned)`: the apps whose token a guarded verb needs
    )
    which: str | None = None  # the command line's message if no filter is given
    wrong: Callable[[Sequence[str], Mapping[str, Any]], str | None] | None = (
        None  # `wrong(words, given)`: the command line's message for arguments that conflict
    )
    reads_only: bool = False  # its plan needs the app's code, but not a running app
    http: str | None = None
    operation: str | None = None  # operationId in the OpenAPI document
    beside_key: bool = False  # given a key and a filter, the command line ignores the filter instead of refusing
    others: tuple[Bulk, ...] = ()  # further kinds of items, each with a body member of its own; a request has one
    things: str = ""  # "dead runs": what the member selects, if there are further kinds
    in_shell: bool = True  # for a further kind: the command line selects it by the first parameter of `some`
    example: str = ""  # for a further kind: an example command


@dataclass(frozen=True, slots=True)
class Verb:
    """An operation: `run(desk, one, *, …)` on one item, or `run(desk, *, …)` on the collection.

    It returns a view, or None if the item no longer exists. `plan` takes the same arguments and changes nothing. On the collection
    `apps` takes the given arguments: `apps(desk, *, …)`, or `apps(desk, key, *, …)`.
    """

    name: str
    run: Callable[..., Awaitable[Any]]
    summary: str
    says: Callable[
        ..., str | Printed
    ]  # takes the result; optionally the item as it was before; optionally the given arguments and "app"
    word: str | None = None  # its name on the command line, if it differs
    of_one: bool = True
    by_key: bool = False  # takes the key of an item that may not exist
    several: bool = False  # the command line takes several keys: all are looked up first, then each is done or refused
    scope: Scope = "operate"
    danger: Danger = "none"
    plan: Callable[..., Awaitable[Any]] | None = None
    plans: Callable[..., str | Printed] | None = None  # as `says`, for the plan
    plan_flag: str | None = None  # another option for --plan
    plan_help: str = "only print what would be done"
    bulk: Bulk | None = None
    http: str | None = None  # "PATCH /{key}" below the collection, "POST " for the collection itself, "POST /v1/replay"
    statuses: tuple[str, ...] = ()  # further error statuses: "422"
    needs_app: Literal["no", "yes", "if named"] = "no"
    code: str | None = None  # what --app APP is for, if the code is only read
    reads_code_for: str | None = None  # the parameter that needs the code: without --app, WAKEFUL_APP names it
    app_first: bool = False  # on the command line APP is the first argument, not the last
    logs: bool = False  # takes --log-level and --log-format, for the app's log
    paced: bool = False  # runs long, at a rate, and can be stopped: see `desk.course`
    usage: str | None = None  # usage line, if the parser itself checks for required arguments
    note: bool = True  # takes --note
    guarded: str | None = None  # "close a circuit": the command needs the token that the app's server was started with
    person: str | None = None  # "settle an effect": as `guarded`, and programs started by a run are refused
    across: bool = False  # over HTTP it needs a token of the item's app, although the command line needs none
    apps: Callable[..., Awaitable[Iterable[str]]] | None = (
        None  # `apps(desk, one)`: the apps whose token it needs, if the item names none
    )
    failed: Callable[[Any], bool] | None = None  # `failed(result)`: the command exits with 1 after printing it
    storeless: Callable[[Mapping[str, Any]], bool] | None = (
        None  # whether the command needs no store, given these arguments
    )
    asides: Callable[..., Awaitable[Iterable[str]]] | None = None  # `asides(desk, result)`: lines for standard error
    without_app: str | None = None  # the command line's message if an app is needed and none is named
    more: str = ""  # text below its options in --help, instead of the noun's
    example: Mapping[str, Any] | None = field(
        default=None, hash=False
    )  # fields of an example body in the OpenAPI document, besides the required ones
    in_shell: Callable[..., Awaitable[Any]] | None = (
        None  # instead of `run` on the command line, if several apps may be meant
    )

    @property
    def spoken(self) -> str:
        return self.word or self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """A noun with all its surfaces."""

    noun: str
    plural: str
    view: type
    example: str
    key: str = "id"  # the identifying field, also the path parameter
    metavar: str | None = None  # the key's placeholder on the command line, if not its name
    deep: bool = False  # a key may contain slashes
    called: str | None = None  # its name in messages, if not the noun
    called_many: str | None = None  # the plural of `called`, if not with an s
    state: str | None = "state"
    listing: Listing | None = None
    show: Show | None = None
    readings: tuple[Reading, ...] = ()
    verbs: tuple[Verb, ...] = ()
    missing: str | Callable[..., Awaitable[str]] | None = (
        None  # the command line's message: "… {key} …", or `missing(desk, key, **which)`
    )
    known: Callable[..., Awaitable[Sequence[str]]] | None = None  # `known(desk, **which)`: names for "did you mean"
    more: str = ""  # text below the options in --help
    takes: str | Callable[[str], str | None] | None = None  # the message for a wrong number of arguments, by verb
    guesses: bool = False  # HTTP, too, suggests a name for an unknown key
    bare: bool = False  # on the command line, an argument that is no verb is the key of show
    mostly_listed: bool = False  # on the command line, an unknown word is treated as a misspelt filter
    path: str | None = None  # of the collection, if not /v1/PLURAL
    command: str | None = None  # the command, if not the plural
    code: str | None = None  # what --app APP is for, if every verb takes it
    in_place: bool = False  # nested views have no named schema in the OpenAPI document

    def takes_for(self, word: str) -> str | None:
        """The message for a wrong number of arguments after this verb."""
        return self.takes(word) if callable(self.takes) else self.takes

    @property
    def name(self) -> str:
        return self.called or self.noun

    @property
    def names(self) -> str:
        return self.called_many or (self.plural if self.called is None else f"{self.called}s")

    @property
    def spoken(self) -> str:
        """Its command."""
        return self.command or self.plural

    @property
    def typed(self) -> str:
        """The key's placeholder on the command line."""
        return self.metavar or self.key.upper()

    @property
    def root(self) -> str:
        return self.path or f"/v1/{self.plural}"


@dataclass(frozen=True, slots=True)
class Alias:
    """A command that is a verb of a noun: `wakeful cancel RUN`. Without a key it may be another verb: `wakeful pause` lists."""

    noun: str
    verb: str
    without_key: str | None = None
    or_option: tuple[str, ...] = ()  # options that stand for the key
    instead: tuple[tuple[str, str, str], ...] = ()  # option, the verb that it selects, and its help
