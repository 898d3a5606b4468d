"""Which code serves each agent: what the processes that live brought along, in the order in which it was put to work.

A version that nobody has seen before is newer than all others. One that was seen before keeps its place, unless nobody serves it
any more when it comes: then it is put to work again, as a rollback does, and is the newest. So an old process that merely starts
again in the middle of a deployment, beside others of its kind, makes nothing old of what is new.

An agent is `apart` while its versions are not alike to a claim: several live, or the newest is not among them. Only then does a
claim hear of versions at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.stores.base import ClaimRuns, Transaction

# Versions of an agent that are remembered. One that is forgotten counts as older than all others.
REMEMBERED = 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent's code."""

    first: int
    place: int
    live: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Apart:
    """What a claim leaves alone: runs of versions that others serve, and for some of them only until they have waited long."""

    never: str  # JSON: versions whose runs are not for this process
    later: str  # JSON: versions whose runs are for it once they have been due for so long
    drain: Microseconds
    newer: frozenset[str] = field(default_factory=frozenset)  # that were put to work after this process's own

    @property
    def parameters(self) -> tuple[str, str, Microseconds]:
        """As the queries take it."""
        return self.never, self.later, self.drain


def put_to_work(known: Mapping[str, Version], version: str, living: Sequence[str]) -> dict[str, Version]:
    """The versions of an agent after a process with this one has come. `living`: those of the other processes."""
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


def looked_at(known: Mapping[str, Version], living: Sequence[str]) -> dict[str, Version]:
    """The same with what lives now."""
    newest = max(known, key=lambda version: known[version].place, default=None)
    live = set(living) & set(known)
    apart = len(live) > 1 or (len(live) == 1 and newest not in live)
    return {version: replace(one, live=version in live, apart=apart) for version, one in known.items()}


def enter_versions(now: int | None, app: str, brought: Mapping[str, str]) -> Transaction[None]:
    """A process has come, and is among the living already."""
    yield "lock_versions", [(app,)]
    known = yield from _read(app)
    living = yield from _at_work(app)
    after: dict[str, dict[str, Version]] = {}
    for agent, version in brought.items():
        others = list(living[agent])
        others.remove(version)  # its own
        after[agent] = looked_at(put_to_work(known[agent], version, others), living[agent])
    yield from _save(now, app, known, after)
    forgotten = [
        (app, agent, version)
        for agent, versions in after.items()
        for version in sorted(versions, key=lambda one: versions[one].place)[:-REMEMBERED]
        if not versions[version].live
    ]
    if forgotten:
        yield "forget_version", forgotten


def look_at_versions(now: int | None, process: str) -> Transaction[bool]:
    """A process has left, or died. True: what it served alone is others' now."""
    rows = yield "app_of_process", [(process,)]
    if not rows:
        return False
    (app,) = rows[0]
    yield "lock_versions", [(app,)]
    known = yield from _read(app)
    living = yield from _at_work(app)
    after = {agent: looked_at(versions, living[agent]) for agent, versions in known.items()}
    return (yield from _save(now, app, known, after))


def apart_of(request: ClaimRuns, agent: str, rows: Sequence[tuple[str, int, bool]]) -> Apart:
    """What a process leaves alone of an agent whose versions are apart; each is (version, place, live).

    Runs of code that others serve are theirs, but for older code's that have been due for `drain`. Runs of newer code that
    nobody serves just now may be back in a moment, and wait as long; they go back at once where every version goes on with what
    another recorded.
    """
    own = request.versions.get(agent)
    drain, goes_back = request.drains[agent]
    place = next((place for version, place, _ in rows if version == own), 0)
    never, later = [], []
    for version, its_place, live in rows:
        if version == own:
            continue
        newer = its_place > place
        if newer and live:
            never.append(version)
        elif live or (newer and not goes_back):
            later.append(version)
    newer_ones = frozenset(version for version, its_place, _ in rows if its_place > place)
    return Apart(_json(never), _json(later), drain, newer_ones)


def _read(app: str) -> Transaction[dict[str, dict[str, Version]]]:
    known: dict[str, dict[str, Version]] = defaultdict(dict)
    for agent, version, first, place, live, apart in (yield "versions_of_app", [(app,)]):
        known[agent][version] = Version(first, place, bool(live), bool(apart))
    return known


def _at_work(app: str) -> Transaction[dict[str, list[str]]]:
    living: dict[str, list[str]] = defaultdict(list)
    for (text,) in (yield "versions_at_work", [(app,)]):
        for agent, version in from_json(text).items():
            living[agent].append(version)
    return living


def _save(
    now: int | None, app: str, known: Mapping[str, Mapping[str, Version]], after: Mapping[str, Mapping[str, Version]]
) -> Transaction[bool]:
    """Write what has changed; nothing where nothing has."""
    changed = [
        (now, app, agent, version, one.first, one.place, int(one.live), int(one.apart))
        for agent, versions in sorted(after.items())
        for version, one in sorted(versions.items())
        if known[agent].get(version) != one
    ]
    if changed:
        yield "save_version", changed
    return bool(changed)


def _json(versions: Sequence[str]) -> str:
    return to_json(list(versions)).decode()
