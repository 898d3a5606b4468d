"""Links to approvals: one person answers one approval, once, on a page that needs no token besides the link itself.

make     a new token; the store keeps its digest; the URL is below WAKEFUL_URL
opened   the link behind a token, and why it is refused
decide   the answer of the page: through the verb of all surfaces; the link is used up in the same transaction
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any

from pydantic_core import to_json
from typing_extensions import TypedDict

from wakeful.clock import SECOND, Microseconds, duration, from_datetime, to_text
from wakeful.errors import ConfigError, LinkRefused, did_you_mean
from wakeful.model import digest
from wakeful.operations.answering import answer_approval, which_stands
from wakeful.operations.shape import fits
from wakeful.resources.declare import Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Moment
from wakeful.resources.parameters import Param
from wakeful.resources.refusals import Refused
from wakeful.resources.words import clock_time, plain
from wakeful.settings import public_url
from wakeful.stores.request import Actor
from wakeful.stores.verbs.links import Link as Link  # noqa: PLC0414 the page names it as ours
from wakeful.stores.verbs.links import MakeLink, RefuseLink, link_of
from wakeful.stores.verbs.persons import people_of
from wakeful.tokens import new_token

Approval = Mapping[str, Any]

DAY: Microseconds = 86_400 * SECOND
LONGEST: Microseconds = 30 * DAY
LONGEST_NAME = 200
PATH = "/approve/"


class LinkMade(TypedDict):
    """A link with which one person answers one approval, once."""

    url: Annotated[
        str,
        About(
            "Secret: a person who has the link answers as this person",
            example="https://wakeful.example.com/approve/nW3zRk0dT8qLx5VbYcE2hJ7uPaS9gFmK4iOyN6tDwQs",
        ),
    ]
    approval: str
    person: Annotated[str, About("Who answers with it", example="ada")]
    expires_at: Moment


def span_or_time(text: str) -> str:
    """A duration like 4h, or a time with its zone. Raises ValueError."""
    try:
        if duration(text) < SECOND:
            message = f"at least 1s, not {text}"
            raise ValueError(message)
    except ValueError:
        try:
            if datetime.fromisoformat(text).tzinfo is not None:
                return text
        except ValueError:
            pass
        message = f'"{text[:80]}" is neither a duration like 4h nor a time with its zone like 2026-10-01T09:00+02:00'
        raise ValueError(message) from None
    return text


For = Annotated[
    str, Param("the person who answers with this link", flag="--for", http="for", metavar="NAME", example="ada")
]
Expires = Annotated[
    str | None,
    Param(
        "when the link ends: a duration like 4h, or a time (default: with the approval, else after 24h)",
        about="when the link ends: a duration like 4h, or a time; default: with the approval, else after 24 hours",
        metavar="TIME",
        read=span_or_time,
    ),
]


async def make(desk: Desk, approval: Approval, *, person: For, expires: Expires = None) -> LinkMade:
    """A new link. Raises Refused if WAKEFUL_URL is not set, the approval is closed, or there is no such person."""
    base = address()
    if approval["state"] != "open":
        raise Refused(
            which_stands(approval), kind="already-answered", title="The approval is already answered or closed"
        )
    await refuse_stranger(desk, approval["app"], person)
    until = end_of(approval, expires, await desk.reads.time())
    token = new_token()
    await desk.store.do(
        MakeLink(digest_of(token), approval["app"], approval["id"], person, until, by=desk.by, note=desk.note)
    )
    return LinkMade(url=f"{base}{PATH}{token}", approval=approval["id"], person=person, expires_at=str(to_text(until)))


def address() -> str:
    try:
        base = public_url()
    except ConfigError as error:
        raise no_address(str(error)) from None
    if base is None:
        raise no_address(
            "WAKEFUL_URL is not set: set it to the address under which people reach the server, like https://wakeful.example.com"
        )
    return base


def no_address(words: str) -> Refused:
    return Refused(words, kind="no-address", title="The server does not know its own address")


async def refuse_stranger(desk: Desk, app: str, person: str) -> None:
    people = await people_of(desk.reads.database, app)
    if people and person not in people:
        problem = f'there is no person "{plain(person)}" in app {app}.{did_you_mean(person, people)}'
    elif len(person) > LONGEST_NAME or not person.isprintable() or not person.strip():
        problem = f"for is a name of at most {LONGEST_NAME} printable characters"
    else:
        return
    raise Refused(problem, kind="unknown-person", title="There is no such person", status=422, field="for")


def end_of(approval: Approval, expires: str | None, now: Microseconds) -> Microseconds:
    """The end of a link: not after that of its approval."""
    due = approval["due_at"]
    latest = now + LONGEST if due is None else from_datetime(datetime.fromisoformat(due))
    if expires is None:
        until = now + DAY if due is None else latest
    else:
        try:
            until = now + duration(expires)
        except ValueError:
            until = from_datetime(datetime.fromisoformat(expires))
    until = min(until, latest)
    if until <= now:
        words = f"the link would be over before it began: at {to_text(until)}"
        raise Refused(words, kind="invalid-time", title="The time does not fit", status=422, field="expires")
    return until


def digest_of(token: str) -> str:
    """The digest of a token, which is stored. A token has 256 random bits, so a plain digest tells nothing about it."""
    return blake2b(token.encode(), digest_size=32, person=b"wakeful link").hexdigest()


# the page


async def opened(desk: Desk, token: str, app: str | None) -> Link:
    """The link of a token. Raises LinkRefused if there is none, or if it is one of another app of the store."""
    link = await link_of(desk.reads, digest_of(token))
    if link is None:
        raise LinkRefused("forged", "there is no such link")
    if app is not None and link.app != app:
        raise LinkRefused("foreign", f"the link is for app {link.app}, and this is the server of app {app}")
    return link


def author(link: Link) -> Actor:
    """The person of a link. The name is proved only if that person made the link."""
    return Actor(link.person, "link", proved=link.known and link.own)


def is_yes_or_no(approval: Approval) -> bool:
    """Whether the page can answer it: another answer than yes or no needs the command line."""
    if approval["kind"] != "question":
        return True
    return fits(True, approval["schema"]) and fits(False, approval["schema"])


def digest_shown(approval: Approval) -> str:
    """A digest of what the page shows. The form sends it back, so that the answer is to what was seen."""
    given = approval.get("digest")
    if given:
        return str(given)
    shown = ("id", "kind", "question", "schema", "action", "arguments", "rule", "note")
    return digest(to_json([approval.get(name) for name in shown], inf_nan_mode="constants").decode())


async def decide(desk: Desk, approval: Approval, link: Link, *, yes: bool, shown: str) -> None:
    """Answer an approval by a link: the one place where the answer of the page is given. `shown`: the digest of what the person saw.
    Raises LinkRefused, or Refused if the approval is closed or is another one than was seen.
    """
    if shown != digest_shown(approval):
        words = "the approval has changed since this page was opened: look at it again"
        raise Refused(words, kind="digest-changed", title="The approval has changed")
    begins = (approval["app"], approval["run"]) if approval["kind"] == "run" else None
    stored = await answer_approval(
        desk.store,
        approval["id"],
        yes,
        by=desk.by,
        note=desk.note,
        begins=begins,
        digest=approval.get("digest"),
        link=link.digest,
    )
    if stored is not None and stored.refused is not None:
        raise Refused(stored.refused.words, kind="not-allowed", title="This answer does not count", status=403)
    if stored is None or not stored.first:
        words = "the approval was answered or closed before. This answer changed nothing"
        raise Refused(words, kind="already-answered", title="The approval is already answered or closed")


async def record(desk: Desk, app: str, refusal: LinkRefused, link: Link | None, hour: int, count: int) -> None:
    """Record refused uses. Those of one link are one row, and those without a link one row in an hour."""
    choice = f"link/{app}/{hour}" if link is None else f"link/{link.digest[:32]}/{refusal.reason}"
    who, approval = ("stranger", None) if link is None else (link.person, link.approval)
    await desk.store.do(RefuseLink(app if link is None else link.app, who, refusal.reason, choice, count, approval))


def told(one: LinkMade) -> str:
    return one["url"]


async def asides(_: Desk, one: LinkMade) -> list[str]:
    until = clock_time(one["expires_at"])
    return [
        f"a person who has this link answers approval {one['approval'][:10]} as {plain(one['person'])}, once, until {until}"
    ]


VERB = Verb(
    "link",
    make,
    "make a link with which one person answers the approval, once",
    says=told,
    scope="answer",
    person="make a link to an approval",
    http="POST /{key}/links",
    statuses=("422",),
    asides=asides,
    example={"for": "ada", "expires": "4h"},
)
