"""Keyword-only parameters of a noun's functions: the filters of a listing, and the fields of a verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

UNSET: Any = object()
NEEDED: Any = object()


class Typed(str):
    """A word typed where HTTP takes JSON; the noun's function interprets it."""

    __slots__ = ()


class FileText(str):
    """The text of a file that was named on the command line, and the files that were named after it."""

    name: str
    folder: str
    more: tuple[FileText, ...]

    __slots__ = ("folder", "more", "name")

    def __new__(cls, text: str, name: str, folder: str = ".") -> Self:
        made = super().__new__(cls, text)
        made.name = name
        made.folder = folder
        made.more = ()
        return made


class FromFile(NamedTuple):
    """JSON read from a file, and the file's name."""

    value: Any
    name: str


@dataclass(frozen=True, slots=True)
class Param:
    """How a keyword-only parameter of a noun's function appears to users, and how its text is parsed.

    `read` turns text into a value, or raises ValueError with the reason. `least` and `most` bound a number.
    """

    help: str
    about: str | None = None  # description in the OpenAPI document, if not `help`
    flag: str | None = None  # the option, if not -- and its name
    short: str | None = None  # -n
    metavar: str | None = None
    http: str | None = None  # its name over HTTP, if different
    example: str | None = None
    read: Callable[[str], Any] | None = None
    least: int = 0
    most: int | None = None
    in_shell: Any = UNSET  # the default on the command line, if different; NEEDED: required there
    positional: bool = False  # on the command line: an argument after the key, without an option
    understood: bool = (
        False  # positional JSON: text that is not JSON is passed as `Typed`, for the noun's function to interpret
    )
    said: str | None = None  # positional JSON: its name in error messages, if not the metavar
    nullable: bool = False  # null over HTTP is passed as None: it removes a value
    outside: bool = False  # bulk verb: beside the filter, not inside it
    elsewhere: str | None = None  # the command line's message if another {word} or kind is given this option
    missing: str | None = None  # HTTP's message if it is required and missing, if not `help`
    http_only: bool = False  # not on the command line
    none: str | None = None  # the word that removes it on the command line, as null does over HTTP
    what: str | None = None  # the noun in the message for an unknown choice
    wrong: str | None = None  # HTTP's message for a number out of range in a query
    shell_only: bool = False  # not over HTTP
    file: bool = False  # a file with JSON, or - for standard input; passed as `FromFile`
    content: bool = False  # on the command line a file, or - for standard input: its text is passed, as `FileText`
    several: bool = False  # positional, with content, the last one: further words are files too (`FileText.more`)
    or_word: bool = False  # with content: a word that names no file is passed as it is
    shape: str | None = None  # JSON type in the OpenAPI document: "object"
    alone: str | None = None  # the command line's message if it is given with a bulk selection but is for one item


LONGEST_PAGE = 500
Limit = Annotated[int, Param("show at most N", metavar="N", least=1, most=LONGEST_PAGE)]
After = Annotated[str | None, Param('continue after this page: the "next" of the previous answer', metavar="CURSOR")]
OfApp = Annotated[str | None, Param("only those of this app", flag="--of", metavar="NAME")]
WhichApp = Annotated[str | None, Param("name of the app, if several apps have it", flag="--of", metavar="NAME")]
