"""People of apps: the version of the people file in force, the people in it, and the hashes of their tokens.

A process puts the people of its file in force, and stores the hash of each personal token that it finds in its environment. So
transactions and commands know who is who without the file and without the tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from wakeful.policy.approvers import Person
from wakeful.policy.people import Entry
from wakeful.stores.guards import TokenHash
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Fetcher, Row, Transaction

SHOWN_NAMES = 10  # of people in one audit row


@dataclass(frozen=True, slots=True)
class PeopleApplied:
    """The result. `before` was in force until now; `seen`: the store had seen this text before."""

    version: str
    before: str | None
    seen: bool
    changed: bool


@dataclass(slots=True)
class ApplyPeople(ByPerson[PeopleApplied]):
    """Put the people of a file in force. Each keeps their stored token if the variable with it has the same name as before.

    `only_unseen`: a process read the text from its file. A text that was in force before does not come back with a restarted
    process, but only by a person.
    """

    app: str
    version: str
    entries: Sequence[Entry]
    only_unseen: bool = False

    def shuts(self) -> str | None:
        return self.app  # one after the other: only one version is in force

    def audit(self, result: PeopleApplied) -> Audit | None:
        return Audit("people apply", self.app, self.version, self.note) if result.changed else None


@dataclass(frozen=True, slots=True)
class TokensEntered:
    """The people whose tokens were stored, and those whose stored tokens were kept."""

    entered: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(slots=True)
class EnterTokens(ByPerson[TokensEntered]):
    """Store the hashes of personal tokens: by name, the variable and the hash.

    If the app is guarded, another process of it lives and no token of the guard is known here, nothing is stored: a program that the
    app started can start a process with tokens of its own too.
    """

    app: str
    tokens: Mapping[str, tuple[str, TokenHash]]
    knows: str | None = None
    """The hash in the present guard that a token known here matches."""
    own: str = ""
    """The asking process, if it has registered by now."""

    def shuts(self) -> str | None:
        return self.app

    def audit(self, result: TokensEntered) -> Audit | None:
        if not result.entered:
            return None
        more = len(result.entered) - SHOWN_NAMES
        names = ", ".join(result.entered[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
        return Audit("people token", self.app, names, self.note)


def apply_people(now: int | None, requests: Sequence[ApplyPeople]) -> Transaction[list[PeopleApplied]]:
    results = []
    for one in requests:
        found = yield "people_in_force", [(one.app,)]
        before = found[0][0] if found else None
        seen = bool((yield "people_seen", [(one.app, one.version)]))
        changed = before != one.version and not (seen and one.only_unseen)
        if changed:
            held = {row[0]: row[1:] for row in (yield "tokens_of_people", [(one.app,)])}
            latest = (yield "latest_change_of_people", [(one.app,)])[0][0]
            yield "end_people", [(one.app, one.version)]
            yield "apply_people", [(now, one.app, one.version, latest + 1, one.by.name)]
            yield "remove_people", [(one.app,)]
            if one.entries:
                yield "insert_person", [_row(one.app, entry, held.get(entry.person.name)) for entry in one.entries]
        results.append(PeopleApplied(one.version, before, seen, changed))
    return results


def _row(app: str, entry: Entry, held: Row | None) -> tuple[object, ...]:
    person, variable = entry.person, entry.token_env
    salt, hashed = (
        (held[1], held[2]) if held is not None and variable is not None and held[0] == variable else (None, None)
    )
    groups = to_json(person.groups).decode()
    return app, person.name, groups, person.away_until, person.instead, variable, salt, hashed


def enter_tokens(now: int | None, requests: Sequence[EnterTokens]) -> Transaction[list[TokensEntered]]:
    results = []
    for one in requests:
        variables = {row[0]: row[1] for row in (yield "tokens_of_people", [(one.app,)])}
        meant = sorted(name for name, (variable, _) in one.tokens.items() if variables.get(name) == variable)
        if not meant:
            results.append(TokensEntered())
            continue
        guards = {row[0] for row in (yield "guards_of", [(one.app,)])}
        strange = bool(guards) and one.knows not in guards
        if strange and (yield "living_peers", [(now, one.app, one.own)]):
            results.append(TokensEntered(kept=tuple(meant)))
            continue
        hashes = [(name, one.tokens[name][1]) for name in meant]
        yield "enter_token", [(one.app, name, hashed.salt, hashed.hash) for name, hashed in hashes]
        yield "count_change_of_people", [(one.app,)]
        results.append(TokensEntered(entered=tuple(meant)))
    return results


# reading


@dataclass(frozen=True, slots=True)
class PersonalToken:
    """The stored token of a person. `hash` is None if no process had the variable yet."""

    name: str
    variable: str | None
    hash: TokenHash | None


def people_from(rows: Iterable[Row]) -> dict[str, Person]:
    """The people in the rows of `people_of_app`, by name."""
    found = (Person(name, tuple(from_json(groups)), until, instead) for name, groups, until, instead in rows)
    return {one.name: one for one in found}


async def people_of(database: Fetcher, app: str) -> dict[str, Person]:
    """The people of an app, by name."""
    return people_from(await database.fetch("people_of_app", app))


async def people_in_force(database: Fetcher, app: str) -> tuple[str, int] | None:
    """The version of the people in force, and a count that grows with each change; None if the app never had people."""
    rows = await database.fetch("people_in_force", app)
    return (rows[0][0], rows[0][1]) if rows else None


async def tokens_of_people(database: Fetcher, app: str) -> list[PersonalToken]:
    rows = await database.fetch("tokens_of_people", app)
    return [
        PersonalToken(name, variable, None if hashed is None else TokenHash(salt, hashed))
        for name, variable, salt, hashed in rows
    ]


async def personal_tokens(database: Fetcher) -> list[tuple[str, str, TokenHash]]:
    """App, name and hash of every person of the store who has a token."""
    return [(app, name, TokenHash(salt, hashed)) for app, name, salt, hashed in await database.fetch("personal_tokens")]
