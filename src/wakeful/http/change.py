"""A request that changes something: it needs the token, is checked field by field, and has an operator.

Events have a path of their own, which any program on this machine may use. Decisions of people do not: without a token, any program,
and any web page that finds a way to this port, could replay or discard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from wakeful.errors import InvalidEvent, did_you_mean
from wakeful.http.body import read_body
from wakeful.http.callers import PERSON
from wakeful.http.foreign import refuse_forms
from wakeful.http.problem import Problem
from wakeful.http.security import ApiSettings
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json, shown
from wakeful.stores.request import Actor

OPERATOR = "Wakeful-Operator"
UNNAMED = "token"
NEIGHBOUR = "this machine"
OPERATOR_LIMIT = 200
NOTE_LIMIT = 2_000


@dataclass(slots=True)
class BodyFields:
    """The members of a JSON object, all of them known. `inside` is the prefix of field names in errors."""

    given: dict[str, Any]
    inside: str = ""

    def text(self, name: str, limit: int = NOTE_LIMIT) -> str | None:
        value = self.given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or len(value) > limit:
            raise self.refusal(name, f"is text of 1 to {limit:,} characters, not {shown(value)}")
        return value

    def flag(self, name: str) -> bool:
        value = self.given.get(name, False)
        if not isinstance(value, bool):
            raise self.refusal(name, f"is true or false, not {shown(value)}")
        return value

    def object(self, name: str, known: Iterable[str]) -> BodyFields | None:
        value = self.given.get(name)
        return None if value is None else only_known(value, known, inside=f"{self.inside}{name}.")

    def refusal(self, name: str, words: str) -> Problem:
        return bad_body(f"{self.inside}{name} {words}", f"{self.inside}{name}")


@dataclass(slots=True)
class ChangeRequest:
    """The fields of the request, and its operator."""

    fields: BodyFields
    by: Actor


async def read_change(request: Request, settings: ApiSettings, known: Iterable[str]) -> ChangeRequest:
    """Read a request that changes something. Refused without a token, from every caller."""
    if not settings.token and PERSON not in request.scope:
        detail = (
            "this server has no token, but changes need one, also on this machine: "
            "set WAKEFUL_TOKEN, restart the server, and send Authorization: Bearer TOKEN"
        )
        raise Problem(403, detail, kind="token-needed", title="A token is needed to change things")
    refuse_forms(request.headers)
    body = await read_body(request.headers.get("content-length"), request.receive, limit=settings.body_limit)
    try:
        value = read_json(body, depth=DEPTH_LIMIT) if body.strip() else {}
    except InvalidEvent as error:
        raise bad_body(str(error), error.field or "body") from None
    return ChangeRequest(only_known(value, known), actor_of(request))


def only_known(value: Any, known: Iterable[str], *, inside: str = "") -> BodyFields:
    names = tuple(known)
    if not isinstance(value, dict):
        where = inside.removesuffix(".") or "body"
        raise bad_body(f"{where} is a JSON object, like {{}}, not {shown(value)}", where)
    for name in value:
        if name not in names:
            printable = shown(name)[1:-1]
            detail = f'unknown field "{inside}{printable}".{did_you_mean(name, names)}'
            raise bad_body(detail, f"{inside}{printable}")
    return BodyFields(value, inside)


def bad_body(detail: str, field: str) -> Problem:
    return Problem(400, detail, kind="bad-body", title="The body is wrong", field=field)


def sender_of(request: Request, settings: ApiSettings) -> Actor:
    """The actor of a request that needs no token: a server without one accepts it from programs on this machine."""
    return actor_of(request, UNNAMED if settings.token else NEIGHBOUR)


def actor_of(request: Request, unnamed: str = UNNAMED) -> Actor:
    """The author of a change. A personal token proves who it is. The shared one only shows permission, so the request itself names
    the operator.
    """
    person = request.scope.get(PERSON)
    return Actor(operator_of(request, unnamed), "http") if person is None else Actor(person, "http", proved=True)


def operator_of(request: Request, unnamed: str = UNNAMED) -> str:
    """The name that a request claims."""
    given = request.headers.get(OPERATOR, "").strip()
    if not given:
        return unnamed
    if len(given) > OPERATOR_LIMIT or not given.isprintable():
        detail = f"{OPERATOR} must be a name of at most {OPERATOR_LIMIT} printable characters"
        raise Problem(400, detail, kind="bad-body", title="The body is wrong", field=OPERATOR)
    return given
