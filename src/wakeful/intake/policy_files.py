"""The policy files of an app: read at the start and when they change, and put in force if the store has never seen their text.

a new text ──► checked ─┬─ wrong ──────────► alarm; the policy in force stays
                        ├─ never seen ─────► in force
                        ├─ in force ───────► nothing to do
                        └─ seen before ────► alarm: an older text comes back only by `wakeful policy apply`
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from wakeful.errors import ConfigError
from wakeful.intake.policies import LOOK_EVERY, Policies
from wakeful.policy.text import Known, read_policy
from wakeful.service import Service
from wakeful.stores.request import Actor, Doer
from wakeful.stores.verbs.alarms import ResolveAlarms
from wakeful.stores.verbs.policies import ApplyPolicy, PolicyApplied

LARGEST = 1_000_000  # bytes of a policy file
MOST_TOLD = 20  # mistakes in an alarm


def policy_alarm(app: str) -> str:
    """The key of the alarm about an app's policy files."""
    return f"policy/{app}"


def in_brief(problems: str) -> str:
    """The mistakes of a file, one in each line, as an alarm shows them."""
    lines = problems.splitlines()
    more = len(lines) - MOST_TOLD
    return problems if more <= 0 else "\n".join([*lines[:MOST_TOLD], f"and {more:,} more mistakes"])


def files_of(given: Any, *, caller: str, where: str, option: str = "policy") -> tuple[Path, ...]:
    """The files of `App(policy=…)`: one or a list, relative to the file that declares the app. ConfigError for anything else."""
    if given is None:
        return ()
    named = [given] if isinstance(given, str | Path) else given
    if (
        not isinstance(named, list | tuple)
        or not named
        or not all(isinstance(one, str | Path) and str(one) for one in named)
    ):
        files = "a file or a list of files" if option == "policy" else "a file"
        message = f'{where}: {option} must be {files}, like "{option}.yaml", not {given!r}'
        raise ConfigError(message)
    folder = Path(caller).parent if Path(caller).is_file() else Path()
    return tuple(folder / one for one in named)


def read_files(files: Sequence[Path], *, what: str = "policy") -> list[tuple[str, str]]:
    """The name and the text of each file. ConfigError for a file that cannot be read."""
    texts = []
    for file in files:
        try:
            with file.open("rb") as opened:
                content = opened.read(LARGEST + 1)
            if len(content) > LARGEST:
                message = f"{what} {file}: it has more than {LARGEST:,} bytes, which is the most that a {what} may have"
                raise ConfigError(message)
            texts.append((file.name, content.decode()))
        except (OSError, UnicodeError) as error:
            message = f"{what} {file}: the file cannot be read: {error}"
            raise ConfigError(message) from None
    return texts


class PolicyFiles(Service):
    """Keeps the policy in force up with the files of this process, and this process up with the policy in force."""

    name = "policy"

    def __init__(
        self,
        app: str,
        files: Sequence[Path],
        policies: Policies,
        store: Doer,
        known: Callable[[], Known],
        *,
        alarm: Callable[[str, str], None],
        people: Callable[[], object] = lambda: None,
        judge_held: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`people`: which people are in force. If they change, the files are checked again, since rules name people. `judge_held` judges
        the runs that wait to begin and were judged by another policy than the one in force.
        """
        super().__init__()
        self._app = app
        self._files = files
        self._policies = policies
        self._store = store
        self._known = known
        self._alarm = alarm
        self._people = people
        self._judge_held = judge_held
        # The texts that were refused or stored last. A text that met an outage of the store is not among them: it is stored later.
        self._done: tuple[list[tuple[str, str]], object] | None = None
        self._version: str | None = None  # of the files; None: they were refused
        self._told: str | None = None

    async def begin(self) -> None:
        """Before any work. ConfigError if the files are wrong and no policy is in force to judge by."""
        self._policies.followed = True
        await self._policies.look()
        try:
            await self._apply()
        except ConfigError as error:
            if self._policies.version is None:
                raise
            self._tell(str(error))
        await self._policies.look()
        await self._judge_anew()

    async def run_once(self) -> float | None:
        try:
            await self._apply()
        except ConfigError as error:
            self._tell(str(error))
        if await self._policies.look() and self._told is not None and self._policies.version == self._version:
            await self._resolve()  # a person put the older text of these files in force
        await self._judge_anew()
        return LOOK_EVERY if self._files or self._policies.version is not None else None

    async def _judge_anew(self) -> None:
        """Each time, because a run may be held by a process that does not follow the policy in force yet."""
        if self._judge_held is not None:
            await self._judge_held()

    async def _apply(self) -> None:
        if not self._files:
            return
        texts = await asyncio.to_thread(read_files, self._files)
        found = (texts, self._people())
        if found == self._done:
            return
        try:
            policy = await asyncio.to_thread(read_policy, texts, self._known())  # thousands of rules take seconds
        except ConfigError:
            self._done, self._version = found, None
            raise
        self._version = policy.version
        applied = await self._store.do(
            ApplyPolicy(self._app, policy.version, texts, only_unseen=True, by=Actor("policy file", "worker"))
        )
        if applied.changed or applied.before == applied.version:
            await self._good(applied)
        else:
            self._tell(
                f"the files of this process hold version {policy.version[:10]}, which was in force before; {(applied.before or '')[:10]} "
                "is in force and stays. `wakeful policy apply FILE` puts an older text in force again"
            )
        self._done = found

    async def _good(self, applied: PolicyApplied) -> None:
        if applied.changed:
            self.log.info("policy in force", app=self._app, version=applied.version, before=applied.before)
        await self._resolve()

    async def _resolve(self) -> None:
        self._told = None
        await self._store.do(ResolveAlarms([policy_alarm(self._app)]))

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            problem = in_brief(problem)
            kept = "no policy" if self._policies.version is None else f"version {self._policies.version[:10]}"
            self._alarm(policy_alarm(self._app), f"{problem}. The process works on with {kept}")
