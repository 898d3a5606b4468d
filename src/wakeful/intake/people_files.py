"""The people file of an app: read at the start and when it changes, and put in force if the store has never seen its text.

a new text ──► checked ─┬─ wrong ──────────► alarm; the people in force stay
                        ├─ never seen ─────► in force
                        ├─ in force ───────► nothing to do
                        └─ seen before ────► alarm: an older text comes back only by `wakeful people apply`

The store says who the people are; this process follows it within a second. A token in the environment of this process is that of a
person if its hash is the stored one. Hashes are slow by design, so they are compared when the people change, not for each request.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets as randomness
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from wakeful.errors import ConfigError
from wakeful.intake.policy_files import files_of, in_brief, read_files
from wakeful.policy.approvers import Person
from wakeful.policy.people import PeopleText, read_people
from wakeful.secrets import withhold
from wakeful.service import Service
from wakeful.settings import next_token, token
from wakeful.stores.guards import TokenHash, fits, known, read_guards
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Doer
from wakeful.stores.verbs.alarms import ResolveAlarms
from wakeful.stores.verbs.persons import (
    ApplyPeople,
    EnterTokens,
    PersonalToken,
    people_in_force,
    people_of,
    tokens_of_people,
)
from wakeful.tokens import refuse_weak

LOOK_EVERY = 1.0
BY_FILE = Actor("people file", "worker")


def people_alarm(app: str) -> str:
    """The key of the alarm about an app's people file."""
    return f"people/{app}"


def file_of(given: Any, *, caller: str, where: str) -> Path | None:
    """The file of `App(people=…)`, relative to the file that declares the app. ConfigError for anything else."""
    if isinstance(given, list | tuple):
        message = f'{where}: people must be one file, like "people.yaml", not {given!r}'
        raise ConfigError(message)
    found = files_of(given, caller=caller, where=where, option="people")
    return found[0] if found else None


def read_file(file: Path) -> PeopleText:
    """The people of a file. ConfigError if it cannot be read, PeopleError with all its mistakes."""
    ((name, text),) = read_files([file], what="people file")
    return read_people(name, text)


class PeopleFiles(Service):
    """Keeps the people in force up with the file of this process, and this process up with the people in force."""

    name = "people"

    def __init__(
        self,
        app: str,
        file: Path | None,
        store: Doer,
        reads: ReadsDatabase,
        *,
        process: Callable[[], str],
        alarm: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self._app = app
        self._file = file
        self._store = store
        self._reads = reads
        self._process = process
        self._alarm = alarm
        self.people: dict[str, Person] = {}
        self.mark: tuple[str, int] | None = None  # the version in force, and the count of its changes
        # The text that was refused or stored last. A text that met an outage of the store is not it: it is stored later.
        self._done: list[tuple[str, str]] | None = None
        self._problems: dict[str, str] = {}  # of the file and of the tokens, as they are now
        self._told: dict[str, str] | None = None
        self._key = randomness.token_bytes(32)
        self._tokens: Sequence[tuple[bytes, str]] = ()  # digest and name, for the tokens that this process knows

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The groups of each person; empty if the app has no people."""
        return {one.name: one.groups for one in self.people.values()}

    def person_of(self, given: bytes) -> str | None:
        """The person who has this token. All are compared, in constant time: the duration tells nothing about a guess."""
        if not self._tokens:
            return None
        digest = self._digest(given)
        found: str | None = None
        for one, name in self._tokens:
            if hmac.compare_digest(one, digest):
                found = name
        return found

    def _digest(self, given: bytes) -> bytes:
        return blake2b(given, key=self._key).digest()

    async def begin(self) -> None:
        """Before any work. ConfigError if the file is wrong and no people are in force, or if a token is too weak."""
        await self._look()
        try:
            await self._apply()
        except ConfigError:
            if self.mark is None:
                raise
        await self._look()
        if "tokens" in self._problems:
            raise ConfigError(self._problems["tokens"])
        await self._tell()

    async def run_once(self) -> float | None:
        try:
            await self._apply()
        except ConfigError:
            pass  # it is among the problems
        await self._look()
        await self._tell()
        return LOOK_EVERY if self._file is not None or self.mark is not None else None

    # the file

    async def _apply(self) -> None:
        if self._file is None:
            return
        try:
            texts = await asyncio.to_thread(read_files, [self._file], what="people file")
        except ConfigError as error:
            self._problems["file"] = str(error)
            raise
        if texts == self._done:
            return
        try:
            people = await asyncio.to_thread(read_people, *texts[0])
        except ConfigError as error:
            self._problems["file"] = str(error)
            self._done = texts
            raise
        if self.mark is None or self.mark[0] != people.version:
            await self._put_in_force(people)
        else:
            self._problems.pop("file", None)
        self._done = texts

    async def _put_in_force(self, people: PeopleText) -> None:
        applied = await self._store.do(
            ApplyPeople(self._app, people.version, people.entries, only_unseen=True, by=BY_FILE)
        )
        self._problems.pop("file", None)
        if applied.changed:
            self.log.info("people in force", app=self._app, version=applied.version, before=applied.before)
        elif applied.before != applied.version:
            self._problems["file"] = (
                f"the people file of this process has version {people.version[:10]}, which was in force before; "
                f"{(applied.before or '')[:10]} is in force and stays. `wakeful people apply FILE` puts an older text in force again"
            )

    # the store

    async def _look(self) -> None:
        """Read who the people are, if they changed. Then store the tokens that only this process knows, and read again."""
        mark = await people_in_force(self._reads.database, self._app)
        if mark == self.mark:
            return
        self.people = await people_of(self._reads.database, self._app)
        stored = await tokens_of_people(self._reads.database, self._app)
        if (given := self._given(stored)) and await self._enter(stored, given):
            mark = await people_in_force(self._reads.database, self._app)
            stored = await tokens_of_people(self._reads.database, self._app)
        self._tokens = await asyncio.to_thread(self._matching, stored, given)
        self.mark = mark

    def _given(self, stored: Sequence[PersonalToken]) -> dict[str, str]:
        """The tokens in the environment of this process, by person. One that must not be used is a problem, and is left out."""
        given: dict[str, str] = {}
        problems = []
        others = {one: "WAKEFUL_TOKEN" for one in (token(), next_token()) if one}
        for one in stored:
            if one.variable is None:
                continue
            withhold(one.variable)
            found = os.environ.get(one.variable)
            if not found:
                continue
            try:
                refuse_weak(found, f"{one.variable}, the token of {one.name},")
            except ConfigError as error:
                problems.append(str(error))
                continue
            if found in others:
                problems.append(
                    f"{one.variable} and {others[found]} hold the same token: each person needs one of their own"
                )
                continue
            others[found] = one.variable
            given[one.name] = found
        self._problems.pop("tokens", None)
        if problems:
            self._problems["tokens"] = "; ".join(problems)
        return given

    async def _enter(self, stored: Sequence[PersonalToken], given: Mapping[str, str]) -> bool:
        """Store the tokens that are new. Returns whether any was stored."""
        new = await asyncio.to_thread(self._new, stored, given)
        if not new:
            return False
        guards = await read_guards(self._reads)
        knows = await asyncio.to_thread(known, guards, self._app, (token(), next_token()))
        done = await self._store.do(EnterTokens(self._app, new, knows, self._process(), by=BY_FILE))
        if done.kept:
            self.log.warning(
                "tokens of people in the environment of this process are not the stored ones, and another process of the app is alive: "
                "the stored ones count",
                app=self._app,
                people=", ".join(done.kept),
                remedy="start this process with the WAKEFUL_TOKEN of the app, or stop all processes of the app before",
            )
        return bool(done.entered)

    def _new(self, stored: Sequence[PersonalToken], given: Mapping[str, str]) -> dict[str, tuple[str, TokenHash]]:
        """The tokens whose hashes are not stored. All people of an app share a salt, so that a command hashes its token once."""
        salt = next((one.hash.salt for one in stored if one.hash is not None), None)
        new: dict[str, tuple[str, TokenHash]] = {}
        for one in stored:
            if one.variable is None or one.name not in given or (one.hash and fits(one.hash, given[one.name])):
                continue
            made = TokenHash.of(given[one.name], salt)
            salt = made.salt
            new[one.name] = (one.variable, made)
        return new

    def _matching(self, stored: Sequence[PersonalToken], given: Mapping[str, str]) -> list[tuple[bytes, str]]:
        return [
            (self._digest(given[one.name].encode()), one.name)
            for one in stored
            if one.name in given and one.hash is not None and fits(one.hash, given[one.name])
        ]

    # the alarm

    async def _tell(self) -> None:
        if self._problems == self._told:
            return
        if self._problems:
            kept = "no people" if self.mark is None else f"version {self.mark[0][:10]}"
            text = f"the people of the app: {in_brief('; '.join(self._problems.values()))}. The process works on with {kept}"
            self._alarm(people_alarm(self._app), text)
        elif self._told or self._file is not None:
            await self._store.do(ResolveAlarms([people_alarm(self._app)]))
        self._told = dict(self._problems)
