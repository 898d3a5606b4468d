"""Links with which one person answers one approval, once. Of the token in a link only the digest is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.clock import SECOND, Microseconds
from wakeful.errors import LinkRefused
from wakeful.stores.reads import NOW, ReadsDatabase
from wakeful.stores.request import Audit, ByPerson, Request
from wakeful.stores.transaction import Row, Transaction

KEPT: Microseconds = 30 * 86_400 * SECOND  # after its end: until then a link says that it is over
REFUSED = "link refused"


@dataclass(frozen=True, slots=True)
class Link:
    """A link. `known`: its person is one of the app's people; `peopled`: the app has people. `own`: its person
    made it, with a token of their own. A link that another person made proves no name: its maker may have opened it.
    """

    digest: str
    app: str
    approval: str
    person: str
    expires_at: Microseconds
    used_at: Microseconds | None
    expired: bool
    known: bool
    peopled: bool
    own: bool = False

    @property
    def refusal(self) -> LinkRefused | None:
        """Why it cannot be used to answer; None if it can."""
        if self.peopled and not self.known:
            return LinkRefused(
                "foreign", f"the link is for {self.person}, who is not a person of app {self.app} any more"
            )
        if self.used_at is not None:
            return LinkRefused("used", "the link was used before, and each link answers once")
        if self.expired:
            return LinkRefused("expired", "the link has expired: ask for a new one")
        return None


@dataclass(slots=True)
class MakeLink(ByPerson[None]):
    """Store a link. Those of the app that ended long ago are forgotten."""

    digest: str
    app: str
    approval: str
    person: str
    expires_at: Microseconds

    def audit(self, _: None) -> Audit | None:
        note = f"for {self.person}" + (f": {self.note}" if self.note else "")
        return Audit("link", self.app, self.approval, note)


@dataclass(slots=True)
class RefuseLink(Request[None]):
    """Record that a link was refused. All refusals of one `choice` are one row, which counts them: a scanner cannot fill the store."""

    app: str
    who: str  # the person of the link, or a word for a stranger
    reason: str
    choice: str
    count: int = 1
    approval: str | None = None


def make_links(now: int | None, requests: Sequence[MakeLink]) -> Transaction[list[None]]:
    for one in requests:
        yield "forget_links", [(now, one.app, KEPT)]
        row = (one.digest, one.app, one.approval, one.person, one.by.name, int(one.by.proved), one.expires_at)
        yield "insert_link", [(now, *row)]
    return [None] * len(requests)


def refuse_links(now: int | None, requests: Sequence[RefuseLink]) -> Transaction[list[None]]:
    for one in sorted(requests, key=lambda one: one.choice):
        found = yield "find_choice", [(one.choice,)]
        done = one.count + (found[0][0] if found else 0)
        words = f"{one.reason}, {done} times" if done > 1 else one.reason
        yield "count_operation", [(now, one.app, one.who, "link", 0, REFUSED, one.approval, words, one.choice, done)]
    return [None] * len(requests)


def take_link(now: int | None, digest: str, approval: str) -> Transaction[LinkRefused | None]:
    """Within the transaction of an answer: why this link does not serve for it; None if it does. The caller marks it with `use_link`
    in the same transaction, if the answer counted.
    """
    yield "lock_link", [(digest,)]
    rows = yield "find_link", [(now, digest)]
    if not rows:
        return LinkRefused("forged", "there is no such link")
    link = link_from(rows[0])
    if link.approval != approval:
        return LinkRefused("foreign", "the link is for another approval")
    return link.refusal


def link_from(row: Row) -> Link:
    digest, app, approval, person, expires_at, used_at, expired, known, peopled, own = row
    facts = (bool(expired), bool(known), bool(peopled), bool(own))
    return Link(digest, app, approval, person, expires_at, used_at, *facts)


async def link_of(reads: ReadsDatabase, digest: str) -> Link | None:
    rows = await reads.fetch("find_link", NOW, digest)
    return link_from(rows[0]) if rows else None
