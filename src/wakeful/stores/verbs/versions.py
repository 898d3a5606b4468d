"""Which version of the code serves each agent: the versions of the living processes, in the order of their deployment.

A version that the store has not seen before is newer than all others. A known version keeps its place, unless no living process has it
when a process brings it: then it is deployed again, as in a rollback, and is the newest. So an old process that merely restarts in the
middle of a deployment, beside others of its version, does not make the new version old.

A claim considers versions only while they matter: while living processes have different code, or one of them was overtaken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.stores.awaited_version import AGREED
from wakeful.stores.transaction import Transaction

if TYPE_CHECKING:
    from wakeful.stores.verbs.claim import ClaimRuns
    from wakeful.stores.verbs.processes import RegisterProcess

# How many versions of an agent are remembered. A forgotten one counts as older than all others.
REMEMBERED = 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent's code: its place when it was first seen, and its place of the last deployment."""

    first: int
    place: int


@dataclass(frozen=True, slots=True)
class Apart:
    """Which runs of an agent a claim leaves out, by the version that ran them last."""

    never: tuple[str, ...]  # versions whose runs this process never takes
    later: tuple[str, ...]  # versions whose runs it takes once they have been due for `drain`
    drain: Microseconds
    newer: frozenset[str] = frozenset()  # versions deployed after this process's own

    @property
    def parameters(self) -> tuple[str, str, Microseconds]:
        """The query parameters."""
        # A person allowed a replayed run to continue with any code; but while newer code is alive, the run belongs to it.
        never = (*self.never, *(f"{AGREED}{version}" for version in self.never))
        return to_json(never).decode(), to_json(self.later).decode(), self.drain


def put_to_work(known: Mapping[str, Version], version: str, living: Collection[str]) -> dict[str, Version]:
    """The versions of an agent after a process with this one has come. `living`: the versions of the other processes."""
    after = dict(known)
    place = max((one.place for one in known.values()), default=0)
    mine = known.get(version)
    if mine is None:
        after[version] = Version(place + 1, place + 1)
    elif mine.place < place:
        newest = next(one for one in known.values() if one.place == place)
        if version not in living or mine.first > newest.first:
            after[version] = replace(mine, place=place + 1)
    return after


def apart_of(known: Mapping[str, Version], living: Collection[str], own: str, drain: Microseconds) -> Apart | None:
    """The runs of an agent that a process with `own` code leaves out; None: none.

    Runs of code that other processes serve are left to them, except for runs of older code that have been due for `drain`. Runs of newer
    code are left to the processes that have it, or even newer code. If there is no such process, they wait as long, because one may come
    in a moment; after that, older code only holds them for a person.
    """
    place = known[own].place if own in known else 0
    newer = frozenset(version for version, one in known.items() if one.place > place and version != own)
    newest = max((known[version].place for version in living if version in known), default=0)
    never = tuple(version for version in known if version in newer and known[version].place <= newest)
    later = tuple(
        version
        for version in known
        if version != own and (version in living if version not in newer else version not in never)
    )
    return Apart(never, later, drain, newer) if never or later or newer else None


def enter_versions(now: int | None, process: RegisterProcess) -> Transaction[None]:
    """Store the versions of a new process, which already counts as living."""
    app = process.app or ""
    yield "lock_versions", [(app,)]
    known = yield from _read(app)
    living = yield from _at_work(app)
    changed, forgotten, overtaken = [], [], False
    for agent, version in sorted(process.versions.items()):
        others = [*living[agent]]
        if version in others:
            others.remove(version)  # its own
        after = known[agent]
        if version not in after or not process.again:
            after = put_to_work(after, version, others)
        changed += [
            (now, app, agent, name, one.first, one.place)
            for name, one in after.items()
            if known[agent].get(name) != one
        ]
        overtaken = overtaken or after[version].place < max(one.place for one in after.values())
        old = sorted(after, key=lambda name: after[name].place)[:-REMEMBERED]
        forgotten += [(app, agent, name) for name in old if name not in living[agent]]
    if changed:
        yield "save_version", changed
        yield "fall_behind", [(app, process.id)]
    if overtaken:
        yield "mark_behind", [(process.id,)]
    if forgotten:
        yield "forget_version", forgotten


def read_aparts(request: ClaimRuns, agents: Collection[str]) -> Transaction[dict[str, Apart]]:
    """The runs of these agents that a claim leaves out."""
    known = yield from _read(request.app)
    living = yield from _at_work(request.app)
    aparts = {}
    for agent in agents:
        own, drain = request.versions.get(agent), request.drains.get(agent, 0)
        if own is not None and (found := apart_of(known[agent], living[agent], own, drain)):
            aparts[agent] = found
    return aparts


def _read(app: str) -> Transaction[dict[str, dict[str, Version]]]:
    known: dict[str, dict[str, Version]] = defaultdict(dict)
    for agent, version, first, place in (yield "versions_of_app", [(app,)]):
        known[agent][version] = Version(first, place)
    return known


def _at_work(app: str) -> Transaction[dict[str, list[str]]]:
    living: dict[str, list[str]] = defaultdict(list)
    for (text,) in (yield "versions_at_work", [(app,)]):
        for agent, version in from_json(text).items():
            living[agent].append(version)
    return living
