"""Keyword-only parameters of a noun's functions: the filters of a listing, and the fields of a verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

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
