"""Sources: which exist, which process reads each of them, and their health.

A source that only one process may read is held under a token, which increases with every holder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.model import SourceState
from wakeful.stores.alarm import Alarm, concern_alarm, source_alarm
from wakeful.stores.request import Audit, ByPerson, Others, Request, stands_for
from wakeful.stores.transaction import Fetcher, Row, Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms


@dataclass(slots=True)
class EnterSources(Request[None]):
    """Store an app's declared sources: (name, kind) of each, the agents that each one wakes, its owner and the lag that is allowed, if
    declared, and the names in `source` that its events have and that are reserved for it.
    """

    app: str
    sources: list[tuple[str, str]]
    agents: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)
    lag_within: dict[str, Microseconds | None] = field(default_factory=dict)
    brings: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class ServeSources(Request[None]):
    """Record that a process serves these webhooks, or with `ends` that it stops. The record loses its meaning when the process's lease
    expires.
    """

    app: str
    names: list[str]
    process: str
    ends: bool = False

    fenced_by = stands_for("process")


@dataclass(frozen=True, slots=True)
class HeldSource:
    """A source as its reader holds it, and where to continue."""

    app: str
    name: str
    token: int
    cursor: str | None


@dataclass(slots=True)
class HoldSource(Request[HeldSource | None]):
    """Become the only reader of a source. None while another living process holds it."""

    app: str
    name: str
    process: str

    fenced_by = stands_for("process")


@dataclass(slots=True)
class LetSourceGo(Request[None]):
    """Stop reading a source; another process may read it at once. With `leaves`, the others are told, because this process does not come
    back to it as it does after a failure.
    """

    app: str
    name: str
    process: str
    token: int
    leaves: bool = False

    fenced_by = stands_for("process")

    def tell(self, _: None, others: Others) -> None:
        if self.leaves:
            others.joined = self.app


@dataclass(slots=True)
class ReportSource(Request[None]):
    """Report a source's health. Counts are added to the stored ones; None leaves a figure unchanged. A failing source does not become
    idle.

    With a `token`, only the holder's report counts; any other is ignored.
    """

    app: str
    name: str
    state: SourceState | None = None
    error: str | None = None
    token: int | None = None
    lag: Microseconds | None = None
    behind: int | None = None
    taken: int = 0
    repeated: int = 0
    refused: int = 0
    event_at: Microseconds | None = None
    alarm: Alarm | None = None
    resolves: str | None = None  # the key of an alarm that this resolves

    def alarming(self) -> bool:
        return self.resolves is not None or self.alarm is not None


@dataclass(slots=True)
class ForgetSource(ByPerson[bool]):
    """Remove a source that is no longer declared, with its cursor and its items. False if it does not exist or a living process reads
    it.
    """

    app: str
    name: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("sources forget", self.app, self.name, self.note) if result else None


@dataclass(slots=True)
class ForgetOld(Request[int]):
    """Delete aliases of events made before `aliases_before`, and items that have been gone for longer than given, at most `most` of each.
    Returns how many were deleted.
    """

    app: str
    aliases_before: Microseconds
    items: list[tuple[str, Microseconds]] = field(default_factory=list)  # (source, before)
    most: int = 500


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A stored source."""

    app: str
    name: str
    kind: str
    state: SourceState
    cursor: str | None
    holder: str | None
    token: int
    error: str | None
    since: Microseconds
    lag: Microseconds | None
    behind: int | None
    taken: int
    repeated: int
    refused: int
    quarantined: int
    event_at: Microseconds | None
    read_at: Microseconds | None
    agents: str | None  # JSON


def enter_sources(now: int | None, requests: Sequence[EnterSources]) -> Transaction[list[None]]:
    rows = {
        (one.app, name): (
            kind,
            to_json(one.agents[name]).decode() if name in one.agents else None,
            one.owners.get(name),
            one.lag_within.get(name),
            to_json(one.brings[name]).decode() if one.brings.get(name) else None,
        )
        for one in requests
        for name, kind in one.sources
    }
    if rows:
        yield "enter_source", [(now, *key, *rows[key]) for key in sorted(rows)]
    return [None] * len(requests)


def serve_sources(now: int | None, requests: Sequence[ServeSources]) -> Transaction[list[None]]:
    """A new server makes the records of dead ones superfluous: they only told since when no process had served the webhook."""
    begins = sorted({(one.app, name, one.process) for one in requests if not one.ends for name in one.names})
    ends = sorted({(one.app, name, one.process) for one in requests if one.ends for name in one.names})
    if begins:
        yield "drop_dead_servers", [(now, app, name) for app, name, _ in begins]
        yield "insert_server", [(now, *row) for row in begins]
    if ends:
        yield "remove_server", ends
    return [None] * len(requests)


def hold_sources(now: int | None, requests: Sequence[HoldSource]) -> Transaction[list[HeldSource | None]]:
    """The row is locked before its holder is read, so that one of several concurrent readers gets it. Taking a source that the process
    already holds is a repetition after a lost answer: it gets a new token.
    """
    results: dict[int, HeldSource | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].name)):
        one = requests[number]
        found = yield "lock_source", [(one.app, one.name)]
        holder = found[0][0] if found else None
        taken = holder not in {None, one.process} and bool((yield "is_alive", [(now, holder)]))
        if not found or taken:
            results[number] = None
            continue
        held = yield "hold_source", [(now, one.app, one.name, one.process)]
        results[number] = HeldSource(one.app, one.name, held[0][0], held[0][1])
    return [results[number] for number in range(len(requests))]


def let_sources_go(now: int | None, requests: Sequence[LetSourceGo]) -> Transaction[list[None]]:
    ordered = sorted(requests, key=lambda one: (one.app, one.name))
    yield "let_source_go", [(now, one.app, one.name, one.process, one.token) for one in ordered]
    return [None] * len(requests)


def report_sources(now: int | None, requests: Sequence[ReportSource]) -> Transaction[list[None]]:
    ordered = sorted(requests, key=lambda one: (one.app, one.name))
    yield (
        "report_source",
        [
            (
                now,
                one.app,
                one.name,
                None if one.state == "idle" else one.state,
                one.error,
                one.token,
                one.lag,
                one.behind,
                one.taken,
                one.repeated,
                one.refused,
                one.event_at,
            )
            for one in ordered
        ],
    )
    resting = [(now, one.app, one.name) for one in ordered if one.state == "idle"]
    if resting:
        yield "rest_source", resting
    over = sorted({one.resolves for one in ordered if one.resolves is not None})
    if over:
        yield from resolve_alarms(now, over)
    alarms = [one.alarm for one in ordered if one.alarm is not None]
    if alarms:
        yield from open_alarms(now, alarms)
    return [None] * len(requests)


def forget_sources(now: int | None, requests: Sequence[ForgetSource]) -> Transaction[list[bool]]:
    results: dict[int, bool] = {}
    for number in sorted(range(len(requests)), key=lambda one: (requests[one].app, requests[one].name)):
        one = requests[number]
        found = yield "lock_source", [(one.app, one.name)]
        holder = found[0][0] if found else None
        if not found or (holder is not None and (yield "is_alive", [(now, holder)])):
            results[number] = False
            continue
        yield "remove_items", [(one.app, one.name)]
        yield "remove_servers", [(one.app, one.name)]
        yield "remove_source", [(one.app, one.name)]
        alarm = source_alarm(one.app, one.name)
        yield from resolve_alarms(now, [alarm, concern_alarm(alarm)])
        results[number] = True
    return [results[number] for number in range(len(requests))]


def forget_old(now: int | None, requests: Sequence[ForgetOld]) -> Transaction[list[int]]:  # noqa: ARG001 a verb's shape
    results = []
    for one in requests:
        gone = len((yield "forget_aliases", [(one.app, one.aliases_before, one.most)]))
        for source, before in sorted(one.items):
            gone += len((yield "forget_items", [(one.app, source, before, one.most)]))
        results.append(gone)
    return results


def source_of(row: Row) -> StoredSource:
    """A source from a row of `{source}`."""
    return StoredSource(*row)


async def find_source(database: Fetcher, app: str, name: str) -> StoredSource | None:
    """The source of this name."""
    rows = await database.fetch("find_source", app, name)
    return source_of(rows[0]) if rows else None


async def held_sources(database: Fetcher, app: str) -> dict[str, str]:
    """By source, the living process that reads it."""
    rows = await database.fetch("held_sources", database.read_clock(), app)
    return {row[0]: row[1] for row in rows}


async def backlog_of(database: Fetcher, app: str, agents: Sequence[str], most: int) -> int:
    """How many runs of these agents could start now; it stops counting at `most`."""
    listed = to_json(list(agents)).decode()
    rows = await database.fetch("backlog_of", database.read_clock(), app, listed, most)
    return int(rows[0][0])
