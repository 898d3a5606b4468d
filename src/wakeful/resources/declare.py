"""The words in which a noun is declared: `Resource` names its listing, its readings and its verbs, and how a shell prints them.

Every surface is made from these declarations. Types of a view's fields are in `fields`, parameters of functions in `parameters`,
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
    """An answer that has the lines for a shell along: they say what is no member of it."""

    lines: Sequence[str] = ()

    def saying(self, *lines: str) -> Worded:
        self.lines = lines
        return self


@dataclass(slots=True)
class Page(Generic[V]):
    """A part of a listing. `next` is handed back as `after`; `more` are further members of the answer; `last` are lines that
    only a shell prints, below all others.
    """

    items: list[V]
    next: str | None
    more: Json = field(default_factory=dict)
    last: Sequence[str] = ()


# what can be read


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a listing in a terminal. `show` makes its cell by hand; else the field's type says how it looks."""

    title: str
    name: str | None = None  # the view's field, where it is not the title
    flexible: bool = False  # this one is cut where the terminal is too narrow
    style: str = ""
    none: str = "–"
    show: Callable[[Any, Look], str | tuple[str, str]] | None = None
    least: int = 0  # only in a terminal with as many columns
    when: Callable[[Sequence[Any], Look], bool] | None = None  # only for rows like these

    @property
    def field(self) -> str:
        return self.name or self.title


@dataclass(frozen=True, slots=True)
class Listing:
    """GET on the collection, and `wakeful NOUN`. `read(desk, *, …)` returns a list of views, or a `Page`."""

    read: Callable[..., Awaitable[Any]]
    summary: str
    none: str | Callable[..., Awaitable[str]] = "nothing is there"  # `none(desk, **filters)`: what is printed instead
    columns: tuple[Column, ...] = ()
    lines: Callable[[Any, Look], Printed] | None = None  # instead of columns: what is printed for each item
    less: tuple[str, ...] = ()  # columns that a narrow terminal leaves out, the first one first
    below: str | None = None  # the column that stands below its row where the terminal is narrow
    beside: Callable[[Sequence[Any]], int] | None = (
        None  # how wide a terminal must be for that column to stand in its row
    )
    after: Callable[[Sequence[Any], Mapping[str, Any], Look], Printed] | None = None  # printed below: items, filters
    told: Callable[..., Awaitable[Printed]] | None = (
        None  # `told(desk, items, filters, look)`: printed below, where more is read for it
    )
    more: type | None = None  # a view of the further members of the answer
    called: str | None = None  # what the items are called where there are more of them, if that is not the plural
    member: str | None = None  # of the answer that holds the items, if that is not the plural
    whole: Callable[[Sequence[Any], Look], Printed] | None = None  # instead of columns: all items at once
    forms: tuple[tuple[str, Listing], ...] = ()  # where this filter is given, it is printed as that listing is


@dataclass(frozen=True, slots=True)
class Show:
    """GET on one thing, and `wakeful NOUN show KEY`. `find(desk, key, *, …)` returns a view or None."""

    find: Callable[..., Awaitable[Any]]
    summary: str
    lines: Callable[[Any, Look], Printed] | None = None
    told: Callable[..., Awaitable[Printed]] | None = (
        None  # `told(desk, one)`: instead of lines, where more is read for them
    )
    bare: bool = False  # in a shell: without a key everything is listed
    raw: Callable[..., Awaitable[bytes]] | None = (
        None  # `raw(desk, one)`: its bytes, which --raw FILE writes in a shell
    )
    hidden: bool = False  # it is only found for the verbs, and has no path and no word of its own


@dataclass(frozen=True, slots=True)
class Reading:
    """A second reading: of one thing (`read(desk, one, *, …)`), or of the collection (`read(desk, *, …)`)."""

    name: str
    read: Callable[..., Awaitable[Any]]
    summary: str
    lines: Callable[[Any, Look], Printed]
    of_one: bool = True
    http: str | None = None
    operation: str | None = None  # its id in the OpenAPI document, where it has another one
    found: str = "Found"  # what the answer is, in the OpenAPI document


# what can be done


@dataclass(slots=True)
class Planned:
    """What a bulk verb would do. `answer` is what its plan answers; `more` is added to each answer.

    Of a shell: `last` is added to what it prints as JSON afterwards; `said` are lines that it says before all others; `doubt`
    is why they may not be meant: what is said without --yes, and what is said with it.
    """

    count: int
    answer: Json
    work: Any
    more: Json = field(default_factory=dict)
    last: Json = field(default_factory=dict)
    said: Sequence[str] = ()
    doubt: tuple[str, str] | None = None
    failed: bool = False  # said by the slice: some could not be done, and a shell exits with 1


@dataclass(frozen=True, slots=True)
class Bulk:
    """A verb for many things at once.

    `plan(desk, *, …)` counts them and changes nothing. `slice(desk, planned, most, pace, progress)` does at most so many, and
    returns how many it did. HTTP does one slice a request and says how many are left; a shell goes on until nothing is.
    """

    plan: Callable[..., Awaitable[Planned]]
    slice: Callable[..., Awaitable[int]]
    some: tuple[str, ...]  # parameters of which at least one says which things are meant
    many: str  # "held effects"
    done: str  # the member of the answer that counts: "settled"
    none: (
        Callable[[str], str] | None
    )  # what is said where no thing is like that; it is handed "cli" or "http". None: `plan` says so
    planned: Callable[[Planned, Mapping[str, Any], Look], Printed]  # the plan in a shell
    says: Callable[[int, Planned, Look], Printed]  # what a shell says afterwards
    before: Callable[[Planned, Look], Iterable[str]] | None = None  # what a shell says before it plans or does it
    words: Callable[[Planned, Mapping[str, Any]], str] | None = None  # the plan in a sentence: "plan" of a shell's JSON
    view: type | None = None  # of what a plan answers
    both: type | None = None  # instead of `view`: one of what a plan and a slice answer
    summary: str | None = None  # in the OpenAPI document
    inside: str = "filter"  # the member of an HTTP body that holds the choice
    rate: float | None = 50.0  # in a shell, where no --rate is given
    apps: Callable[..., Awaitable[Iterable[str]]] | None = (
        None  # `apps(desk, planned)`: whose token a guarded verb needs
    )
    which: str | None = None  # what a shell says where nothing says which ones are meant
    wrong: Callable[[Sequence[str], Mapping[str, Any]], str | None] | None = (
        None  # `wrong(words, given)`: what a shell says where these do not go together
    )
    reads_only: bool = False  # its plan needs the app's code, and not the app at work
    http: str | None = None
    operation: str | None = None  # its name in the OpenAPI document
    beside_key: bool = False  # a shell that is given a key ignores the choice, instead of refusing both together
    others: tuple[Bulk, ...] = ()  # further kinds of things, each with a member of its own: a request has one of them
    things: str = ""  # "dead runs": what the member chooses, where there are further kinds
    in_shell: bool = True  # of a further kind: a shell chooses it by its first parameter of `some`
    example: str = ""  # of a further kind, in a shell


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be done: `run(desk, one, *, …)` to one thing, or `run(desk, *, …)` on the collection.

    It returns a view, or None where the thing is not there any more. `plan` takes the same and changes nothing. On the collection
    `apps` is handed what was given: `apps(desk, *, …)`, or `apps(desk, key, *, …)`.
    """

    name: str
    run: Callable[..., Awaitable[Any]]
    summary: str
    says: Callable[
        ..., str | Printed
    ]  # of what it returned; a second parameter is the thing as it was before, a third one what was given, and "app"
    word: str | None = None  # in a shell, where it has another name
    of_one: bool = True
    by_key: bool = False  # of one thing that need not be there: it is handed the key
    several: bool = False  # a shell takes several keys: all are found first, then each is done or refused by itself
    scope: Scope = "operate"
    danger: Danger = "none"
    plan: Callable[..., Awaitable[Any]] | None = None
    plans: Callable[..., str | Printed] | None = None  # the plan in a shell, as `says`
    plan_flag: str | None = None  # in a shell, beside --plan
    plan_help: str = "only say what would be done"
    bulk: Bulk | None = None
    http: str | None = None  # "PATCH /{key}", below the collection; "POST /v1/replay" from the root
    statuses: tuple[str, ...] = ()  # further answers that are problems: "422"
    needs_app: Literal["no", "yes", "if named"] = "no"
    code: str | None = None  # what a shell uses the code of an app for, where it is named by --app and only looked at
    app_first: bool = False  # in a shell APP is the first word after it, not the last
    logs: bool = False  # in a shell it takes --log-level and --log-format, for what the app logs
    paced: bool = False  # it goes on for long, at a rate, and can be stopped: `desk.course` tells
    usage: str | None = None  # in a shell, where the parser itself is to ask for what is required
    note: bool = True  # it takes a note for the record
    guarded: str | None = (
        None  # "close a circuit": in a shell it needs the token that the app's server was started with
    )
    person: str | None = None  # "settle an effect": as `guarded`, and a program that a run starts is refused
    across: bool = False  # over HTTP it needs a token of the app that it is about, although a shell needs none
    apps: Callable[..., Awaitable[Iterable[str]]] | None = None  # `apps(desk, one)`: whose token, where it names no app
    asides: Callable[..., Awaitable[Iterable[str]]] | None = (
        None  # `asides(desk, result)`: what a shell adds on standard error
    )
    without_app: str | None = None  # what a shell says where it needs the code of an app, and none is named
    more: str = ""  # what stands below its options in --help, instead of what stands below those of the noun
    in_shell: Callable[..., Awaitable[Any]] | None = None  # instead of `run`, where a shell may mean several apps

    @property
    def spoken(self) -> str:
        return self.word or self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """A noun as the outside sees it."""

    noun: str
    plural: str
    view: type
    example: str
    key: str = "id"  # the field that names one thing, and the name of the path's parameter
    metavar: str | None = None  # what a shell calls the key, where that is not its name
    deep: bool = False  # a key may have slashes in it
    called: str | None = None  # what people call it, where that is not the noun: "question"
    called_many: str | None = None  # what people call several, where that is not `called` with an s
    state: str | None = "state"
    listing: Listing | None = None
    show: Show | None = None
    readings: tuple[Reading, ...] = ()
    verbs: tuple[Verb, ...] = ()
    missing: str | Callable[..., Awaitable[str]] | None = (
        None  # of a shell: "… {key} …", or `missing(desk, key, **which)`
    )
    known: Callable[..., Awaitable[Sequence[str]]] | None = None  # `known(desk, **which)`: names for "did you mean"
    more: str = ""  # what stands below the options in --help
    takes: str | Callable[[str], str | None] | None = None  # what is said to a wrong number of words after this word
    guesses: bool = False  # over HTTP, too, a verb about a thing that is not there says what may be meant
    bare: bool = False  # in a shell a word that is no verb is the key of show
    mostly_listed: bool = False  # in a shell a word that is like none of its own is taken for a slip of a filter
    path: str | None = None  # of the collection, where it is not /v1/PLURAL
    command: str | None = None  # in a shell, where that is not the plural
    code: str | None = None  # what a shell uses the code of an app for, where every word takes --app
    in_place: bool = False  # parts of its views have no names of their own in the OpenAPI document

    def takes_for(self, word: str) -> str | None:
        """What is said to a wrong number of words after this one."""
        return self.takes(word) if callable(self.takes) else self.takes

    @property
    def name(self) -> str:
        return self.called or self.noun

    @property
    def names(self) -> str:
        return self.called_many or (self.plural if self.called is None else f"{self.called}s")

    @property
    def spoken(self) -> str:
        """Its command in a shell."""
        return self.command or self.plural

    @property
    def typed(self) -> str:
        """What a shell calls the key."""
        return self.metavar or self.key.upper()

    @property
    def root(self) -> str:
        return self.path or f"/v1/{self.plural}"


@dataclass(frozen=True, slots=True)
class Alias:
    """A command that is a verb of a noun: `wakeful cancel RUN`. Without a key it may be another word: `wakeful pause` lists."""

    noun: str
    verb: str
    without_key: str | None = None
