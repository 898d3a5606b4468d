"""The words in which a noun is declared. Every surface is made from what is written with them.

Types of a view's fields say how a column becomes JSON; `Resource` names what can be read and done, and how a shell prints it.
Nothing here knows HTTP, argparse or a terminal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from wakeful.errors import WakefulError
from wakeful.resources.words import Aside, Line, Look, Table

V = TypeVar("V")
Json = dict[str, Any]
Scope = Literal["read", "operate", "answer"]
Danger = Literal["none", "some", "much"]
Printed = Iterable[str | Line | Table | Aside]

# what functions of a noun raise


class Refused(WakefulError):
    """This cannot be done to it now: HTTP answers 409 (or `status`), a shell prints the reason. 422: what was given does not fit,
    which a shell counts as a wrong call, unless `wrong_call` is False; so it does where `typed` says it with the names of
    options. `said` are lines that a shell prints before the reason.
    `answer` is what is answered about it, where it is one of several.
    """

    def __init__(
        self,
        detail: str,
        *,
        kind: str,
        title: str,
        status: int = 409,
        field: str | None = None,
        said: Sequence[str] = (),
        wrong_call: bool = True,
        answer: Mapping[str, Any] | None = None,
        typed: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.answer = answer
        self.typed = typed
        self.wrong_call = wrong_call
        self.said = said
        self.kind = kind
        self.title = title
        self.status = status
        self.field = field


class Ambiguous(WakefulError):
    """Several things have this name; `parameter` says which of them is meant."""

    def __init__(self, detail: str, parameter: str) -> None:
        super().__init__(detail)
        self.parameter = parameter


class Unfit(WakefulError):
    """What was given cannot be read, or does not go together. `typed` says it with the names of options, to a shell."""

    def __init__(self, detail: str, parameter: str, *, typed: str) -> None:
        super().__init__(detail)
        self.parameter = parameter
        self.typed = typed


class NotAllowed(WakefulError):
    """The actor has no permission for this verb."""


# types of fields


@dataclass(frozen=True, slots=True)
class About:
    """What a field means, for people who read the OpenAPI document or the reference."""

    text: str
    example: Any = None

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        made = {**handler(schema), "description": self.text}
        return made if self.example is None else {**made, "examples": [self.example]}


@dataclass(frozen=True, slots=True)
class AsMoment:
    """Microseconds in the row, RFC 3339 outside."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), "format": "date-time"}


@dataclass(frozen=True, slots=True)
class InSeconds:
    """Microseconds in the row, seconds outside."""


@dataclass(frozen=True, slots=True)
class AsFlag:
    """0 or 1 in the row, false or true outside."""


@dataclass(frozen=True, slots=True)
class AsJson:
    """JSON text in the row, its value outside."""


@dataclass(frozen=True, slots=True)
class AsCutJson:
    """JSON text in the row, of which a long one was cut: then it stays a text, with … at its end."""


@dataclass(frozen=True, slots=True)
class AsError:
    """A stored error in the row, outside without what is stored beside it for the next try."""


@dataclass(frozen=True, slots=True)
class Made:
    """In no row: the function that reads fills it in."""


@dataclass(frozen=True, slots=True)
class InPlace:
    """Of a view inside a view: its schema has no name in the OpenAPI document, and stands where it is used."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Json:
        found: Json = handler.resolve_ref_schema(handler(schema))
        return found


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The smallest number that it can be."""

    least: int

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), "minimum": self.least}


@dataclass(frozen=True, slots=True)
class InBase64:
    """Bytes, as JSON has them."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), "contentEncoding": "base64"}


Moment = Annotated[str, AsMoment()]
MomentOrNone = Annotated[str | None, AsMoment()]
Seconds = Annotated[float, InSeconds()]
SecondsOrNone = Annotated[float | None, InSeconds()]
Flag = Annotated[bool, AsFlag()]
Count = Annotated[int, AtLeast(0)]


# parameters

UNSET: Any = object()
NEEDED: Any = object()


class Typed(str):
    """A word that a person typed where HTTP takes JSON: the noun's function says what it means."""

    __slots__ = ()


class FromFile(NamedTuple):
    """JSON that a shell read from a file, and the name of that."""

    value: Any
    name: str


@dataclass(frozen=True, slots=True)
class Param:
    """What a keyword-only parameter of a noun's function is called outside, and how its text is read.

    `read` turns text into a value, or raises ValueError that says what is wrong. `least` and `most` bound a number.
    """

    help: str
    about: str | None = None  # in the OpenAPI document, where it says more
    flag: str | None = None  # in a shell; else -- and its name
    short: str | None = None  # -n
    metavar: str | None = None
    http: str | None = None  # over HTTP; else its name
    example: str | None = None
    read: Callable[[str], Any] | None = None
    least: int = 0
    most: int | None = None
    in_shell: Any = UNSET  # the default in a shell, where it is another one; NEEDED: a shell must be given it
    positional: bool = False  # in a shell: a word after the key, without a flag
    understood: bool = (
        False  # of JSON without a flag: a word is handed on as `Typed`, and the noun's function says what it means
    )
    said: str | None = (
        None  # of JSON without a flag: what a shell calls it where it cannot be read, if not by its metavar
    )
    nullable: bool = False  # null over HTTP is handed on as None: it takes something away
    outside: bool = False  # of a bulk verb: beside the filter, not inside it
    elsewhere: str | None = None  # what a shell says where another {word} of the noun, or another kind, is given it
    missing: str | None = None  # what HTTP says of it where it is required and not given; else its help
    http_only: bool = False  # a shell has another way
    none: str | None = None  # in a shell: the word that takes it away, as null does over HTTP
    what: str | None = None  # what a choice is called where there is no such one
    wrong: str | None = None  # what HTTP says of a number in a query that does not fit
    shell_only: bool = False  # HTTP has another way
    file: bool = (
        False  # in a shell: the name of a file with JSON, or - for standard input; it is handed on as `FromFile`
    )
    shape: str | None = None  # of JSON, in the OpenAPI document: "object"
    alone: str | None = None  # what a shell says where it is given for many at once, and is about one thing


LONGEST_PAGE = 500
Limit = Annotated[int, Param("how many at most", metavar="N", least=1, most=LONGEST_PAGE)]
After = Annotated[str | None, Param('the "next" of the page before', metavar="CURSOR")]
OfApp = Annotated[str | None, Param("only those of this app", flag="--of", metavar="NAME")]
WhichApp = Annotated[str | None, Param("the app's name, where several apps have it", flag="--of", metavar="NAME")]


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
