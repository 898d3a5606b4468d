"""Votes on an approval of an effect or a run: who may vote, and what the votes decide.

    a no ──────────────────────────────► answered: false
    a yes ─┬─ not enough of them yet ──► stays open
           ├─ enough ──────────────────► answered: true
           └─ with edited arguments ───► handed to a worker, which checks them

One person, one vote, for exactly what the digest says. Where more than one must agree, only people with a token of their own count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.model import ApprovalKind, ApprovalState
from wakeful.policy.approvers import Person, is_kept_out, may_count, members
from wakeful.policy.asking import Ask
from wakeful.stores.request import Actor
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.persons import people_from

YES, NO = "true", "false"
Why = Literal["person", "digest", "arguments", "twice", "expired"]


@dataclass(frozen=True, slots=True)
class VoteRefused:
    """A vote that does not count, and why."""

    kind: Why
    words: str


@dataclass(frozen=True, slots=True)
class Terms:
    """An approval, as far as votes go: a row of `approval_terms`."""

    id: str
    app: str
    agent: str
    run_seq: int
    key: str
    state: ApprovalState
    answered_by: str | None
    run: str
    kind: ApprovalKind
    digest: str | None
    needed: int
    approvers: str | None
    kept_out: str | None
    editable: int
    expired: int
    rule: str | None
    now: Microseconds
    policy: str | None  # about a run: the version of the policy by which it was judged

    @property
    def by(self) -> tuple[str, ...]:
        """The groups and people who may answer; empty: anybody."""
        return tuple(from_json(self.approvers)) if self.approvers else ()


@dataclass(frozen=True, slots=True)
class Voted:
    """What the votes decide. `answer`: JSON for the step that waits; None: more people must agree."""

    answer: str | None
    by: str  # the names of those who agreed, or the one who did not
    votes: int


def vote(
    now: int | None, terms: Terms, by: Actor, answer: str, bound_to: str | None, arguments: str | None, note: str | None
) -> Transaction[Voted | VoteRefused]:
    """Count one vote. The approval is locked."""
    refused = _refusal(terms, answer, bound_to, arguments) or (yield from may_not_vote(terms, by))
    if refused is not None:
        return refused
    asked = terms.digest or ""
    if arguments is not None:  # an edit is a proposal: a worker checks it, and then it counts as the editor's yes
        edited = {"arguments": from_json(arguments), "by": by.name, "proved": by.proved, "note": note}
        return Voted(to_json({"edit": edited}).decode(), by.name, 0)
    cast = yield "cast_vote", [(now, terms.app, terms.id, by.name, answer, int(by.proved), asked, note)]
    if not cast:
        return VoteRefused("twice", f"{by.name} has voted already: one person, one vote")
    if answer == NO:
        return Voted(NO, by.name, 0)
    votes = yield "votes_of", [(terms.id,)]
    people = people_from((yield "people_of_app", [(terms.app,)])) if terms.needed > 1 else {}
    agreed = who_agreed(votes, asked, terms.needed, terms.by, people)
    return Voted(YES if len(agreed) >= terms.needed else None, ", ".join(agreed), len(agreed))


def who_agreed(
    votes: Sequence[Row], asked: str, needed: int, by: Sequence[str], people: Mapping[str, Person]
) -> list[str]:
    """The names of those whose yes to what is asked counts. `people`: those of the app, if more than one must agree."""
    agreed = [
        voter for voter, said, proved, seen, *_ in votes if said == YES and seen == asked and (proved or needed == 1)
    ]
    if needed == 1:
        return agreed
    counts = may_count(by, people) if by else people  # not the yes of a person who has left the app or the group since
    return [voter for voter in agreed if voter in counts]


def _refusal(terms: Terms, answer: str, bound_to: str | None, arguments: str | None) -> VoteRefused | None:
    if terms.expired:
        return VoteRefused("expired", "its time is over")
    if bound_to is not None and terms.digest is not None and bound_to != terms.digest:
        words = "it is about something else by now: its arguments were edited. Look at it again"
        return VoteRefused("digest", words)
    if arguments is not None and (not terms.editable or answer != YES):
        words = (
            "a no takes no arguments"
            if answer != YES
            else "its arguments cannot be edited: the rule does not say `edit: true`"
        )
        return VoteRefused("arguments", words)
    return None


def may_not_vote(terms: Terms, by: Actor) -> Transaction[VoteRefused | None]:
    """Why this person may not vote, or None. A name that is only claimed is an operator with the shared token."""
    if is_kept_out(by.name, from_json(terms.kept_out) if terms.kept_out else ()):
        return VoteRefused("person", f"{by.name} may not answer it: the rule keeps its author out (not_by)")
    if terms.needed > 1 and not by.proved:
        words = (
            f"{terms.needed} people must agree, so each needs a token of their own: the name {by.name} is only claimed. "
            "Give people a `token_env` in people.yaml"
        )
        return VoteRefused("person", words)
    if by.proved and terms.by:
        people = people_from((yield "people_of_app", [(terms.app,)]))
        if by.name not in members(terms.by, people, terms.now):
            words = f"{by.name} is not one of those who may answer it: {', '.join(terms.by)}"
            person = people.get(by.name)
            if person is not None and person.is_away(terms.now):
                words = f"{by.name} is away, and {person.instead or 'no other person'} answers instead"
            return VoteRefused("person", words)
    return None


def widened(approvers: Sequence[str], more: Sequence[str]) -> list[str]:
    """The people who may answer after an escalation."""
    return list(dict.fromkeys((*approvers, *more)))


def as_strict(ask: Ask, needed: int, approvers: str | None, kept_out: str | None) -> bool:
    """Whether an approval has the terms that its rule has by now. An escalation of the rule has perhaps added people at the end."""
    by, kept = from_json(approvers or "[]"), from_json(kept_out or "[]")
    more = {name for _, names in ask.escalate for name in names}
    return (
        needed >= ask.of
        and tuple(by[: len(ask.by)]) == ask.by
        and bool(by) == bool(ask.by)
        and more.issuperset(by[len(ask.by) :])
        and set(ask.kept_out) <= set(kept)
    )
