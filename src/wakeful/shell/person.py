"""Keeps the decisions of people from the programs that an app starts.

A command agent's program runs in the worker's folder, and `wakeful approvals answer` would find the store there. Two locks:

    ancestors   a command that decides refuses to run below a run: WAKEFUL_RUN_ID is set for it or for an ancestor
    the token   if the app's server was started with WAKEFUL_TOKEN, the command needs it too, or the token of a person of the app; no
                child of an app gets one

The second lock also stops a program that detached itself from its run. If the app starts programs and has no token,
decisions of people are refused: their commands could not be told from those of a program. Neither lock stops a program that
writes to a SQLite file directly: the docs on security say what does.

A personal token in WAKEFUL_TOKEN also says who acts: the name is proved, and the login name does not matter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wakeful.errors import Denied
from wakeful.settings import next_token, token
from wakeful.shell.arguments import UsageError
from wakeful.shell.opening import read
from wakeful.stores.guards import LOCK, TokenHash, fits, known, people_with, read_guards
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor
from wakeful.stores.verbs.persons import personal_tokens

MARK = "WAKEFUL_RUN_ID"
LOCKED = (
    "to {what} needs a token, but {apps} was started without one: it starts programs, and any of them could run this command too. Stop it, "
    "then start it with WAKEFUL_TOKEN (`wakeful token` prints one), or set App(…, programs_may_answer=True). Nothing was changed"
)


@dataclass(slots=True)
class Token:
    """The token that a person gave, and the apps it opens. Often the app of a command is known only after a look into
    the store.
    """

    what: str
    guards: list[tuple[str, TokenHash]]
    given: list[str] = field(repr=False)
    people: dict[str, str] = field(default_factory=dict)  # by app: the person whose token was given

    def author(self, apps: Iterable[str | None], claimed: Actor, named: str | None) -> Actor:
        """The author of a change to these apps: the person whose token was given, else the claimed one. `named`: --as."""
        about = list(apps)
        names = {self.people.get(one or "") for one in about} if about else set(self.people.values())
        person = names.pop() if len(names) == 1 else None
        if person is None:
            return claimed
        if named is not None and named != person:
            message = (
                f"WAKEFUL_TOKEN is the token of {person}, and --as names {named}: leave out --as, or use another token"
            )
            raise UsageError(message)
        return Actor(person, claimed.way, proved=True)

    def opens_one(self) -> None:
        """Raise Denied unless this is the token of an app in the store."""
        hashes = [hashed for _, hashed in self.guards if hashed != LOCK]
        if hashes and not self.people and not any(fits(hashed, one) for one in self.given for hashed in hashes):
            raise self._denied(dict.fromkeys(app for app, _ in self.guards))

    def opens(self, apps: Iterable[str | None]) -> None:
        """Raise Denied unless this is the token of each guarded app among these: one app's token does not open another
        app.
        """
        guarded = {app for app, _ in self.guards}
        closed = [
            one
            for one in dict.fromkeys(apps)
            if one in guarded and one not in self.people and known(self.guards, one, self.given) is None
        ]
        if closed:
            raise self._denied(closed)

    def _denied(self, apps: Collection[str]) -> Denied:
        locked = [app for app in apps if (app, LOCK) in self.guards]
        if locked:
            return Denied(LOCKED.format(what=self.what, apps=", ".join(locked)))
        problem = "WAKEFUL_TOKEN is a different one" if self.given else "WAKEFUL_TOKEN is not set here"
        message = (
            f"to {self.what} needs the token that the server of {', '.join(apps)} was started with, and {problem}: set WAKEFUL_TOKEN "
            "to it. Nothing was changed"
        )
        return Denied(message)


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes of tokens in a store: of apps, and of people."""

    guards: list[tuple[str, TokenHash]]
    personal: list[tuple[str, str, TokenHash]]


async def hashes_in(reads: ReadsDatabase) -> Hashes:
    return Hashes(await read_guards(reads), await personal_tokens(reads.database))


def people_only(what: str, url: str) -> Token:
    """Raise Denied, before any change, unless a person decides this. `what` names the decision: "answer an approval"."""
    refuse_children(what)
    found = read(url, hashes_in)
    return _token(what, found.guards, found.personal)


def needs_token(what: str, url: str) -> Token:
    """Raise Denied, before any change, if a token guards an app of this store and none is given. `opens` checks one
    app. A lock is not a token: it protects only the decisions of people.
    """
    found = read(url, hashes_in)
    return _token(what, [one for one in found.guards if one[1] != LOCK], found.personal)


async def recognised(reads: ReadsDatabase) -> Token | None:
    """The token of a command that needs none: it may say who acts. None if there is none."""
    given = given_tokens()
    if not given:
        return None
    found = await hashes_in(reads)
    return Token("", found.guards, given, _people(found.guards, found.personal, given))


def given_tokens() -> list[str]:
    return [one for one in (token(), next_token()) if one]


def _token(what: str, guards: list[tuple[str, TokenHash]], personal: list[tuple[str, str, TokenHash]]) -> Token:
    given = given_tokens()
    if any(hashed != LOCK for _, hashed in guards) and not given:
        given = _asked_for(what)
    found = Token(what, guards, given, _people(guards, personal, given))
    found.opens_one()
    return found


def _people(
    guards: list[tuple[str, TokenHash]], personal: list[tuple[str, str, TokenHash]], given: list[str]
) -> dict[str, str]:
    """By app, the person whose token was given. The token that a server was started with proves no name, even if a person has the same one."""
    found = people_with(personal, given) if personal and given else {}
    return {app: name for app, name in found.items() if known(guards, app, given) is None}


def _asked_for(what: str) -> list[str]:
    """Ask the person at the terminal for the token, without echo."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return []
    from getpass import getpass

    given = getpass(f"token (WAKEFUL_TOKEN) to {what}: ")
    return [given.strip()] if given.strip() else []


def refuse_children(what: str) -> None:
    """Raise Denied if this command runs below a run of Wakeful."""
    run = os.environ.get(MARK) or _run_above(os.getppid())
    if run:
        message = (
            f"this command runs inside run {run[:10]}, and a program that an app starts cannot {what}; only a person can. Run it from "
            "your own shell"
        )
        raise Denied(message)


def _run_above(process: int) -> str | None:
    """The run that an ancestor process was started for, as far as /proc shows."""
    while process > 1:
        try:
            for entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                name, _, value = entry.partition(b"=")
                if name.decode(errors="replace") == MARK and value:
                    return value.decode(errors="replace")
        except OSError:  # a process of another user, or a hidden one such as a worker: look further up
            pass
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
            process = int(stat.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
    return None
