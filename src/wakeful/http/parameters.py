"""Query parameters. A misspelt one is refused, not ignored: a listing with an ignored filter would look right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.datastructures import QueryParams

from wakeful.errors import did_you_mean
from wakeful.http.problem import Problem

TEXT_LIMIT = 2_048


def read_parameters(query: QueryParams, known: Iterable[str]) -> Mapping[str, str]:
    """The given parameters, each known and at most once. An empty one counts as not given."""
    names = tuple(known)
    given: dict[str, str] = {}
    for name, value in query.multi_items():
        if name not in names:
            raise bad_parameter(f'unknown parameter "{_shown(name)}".{did_you_mean(name, names)}', _shown(name))
        if name in given:
            raise bad_parameter(f"{name} is given twice: give it once", name)
        if not is_plain(value):
            raise bad_parameter(f"{name} contains a NUL character or is longer than {TEXT_LIMIT:,} characters", name)
        if value:
            given[name] = value
    return given


def bad_cursor() -> Problem:
    return bad_parameter('after is not a cursor of this listing: give the "next" of an earlier answer', "after")


def is_plain(text: str) -> bool:
    """Whether a text can be searched for in any store."""
    return "\x00" not in text and len(text) <= TEXT_LIMIT


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:80])


def bad_parameter(detail: str, field: str) -> Problem:
    return Problem(400, detail, kind="bad-parameter", title="A parameter is wrong", field=field)
