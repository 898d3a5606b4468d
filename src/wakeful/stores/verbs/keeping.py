"""Housekeeping: removes old rows and re-encrypts payloads. Rows that another process has locked are left for the next time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from wakeful.clock import Microseconds
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Audit, ByPerson, Request, stands_for
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.people import open_alarms
from wakeful.stores.verbs.quarantine_room import free_room


@dataclass(frozen=True, slots=True)
class Family:
    """A run with its replays and forks as they were read: (id, token) of each. Removed if all of them ended before `before`."""

    root: str
    runs: frozenset[tuple[str, int]]
    before: Microseconds


@dataclass(slots=True)
class RemoveFamilies(Request[list[str]]):
    """Remove families of runs and all their rows. Returns the ids of the removed runs. A family that changed since it was read stays."""

    families: list[Family]


@dataclass(slots=True)
class RemoveArchived(ByPerson[list[str]]):
    """As RemoveFamilies, for a person who has archived them in a file."""

    families: list[Family]
    path: str

    carried_with: ClassVar[type[Request[list[str]]]] = RemoveFamilies

    def audit(self, result: list[str]) -> Audit | None:
        return Audit("archive", None, self.path, f"{self.counted(result)} runs removed")

    def counted(self, result: list[str]) -> int:
        return len(result)


@dataclass(slots=True)
class RemoveTraces(Request[int]):
    """Remove other old rows: payloads of events (by seq), events, idempotency keys, processes, keys (agent, key) without runs, blobs that
    no row points to, the records of occurrences of an agent's schedules, chains of events, records of who did what, uses of counted rules. Rows that are needed again by now stay.
    Returns the number of removed or emptied rows.
    """

    app: str
    before: Microseconds = 0  # for events, idempotency keys, operations and uses
    payloads: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    idempotency: list[str] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    processes_before: Microseconds | None = None
    blobs: list[str] = field(default_factory=list)
    blobs_before: Microseconds = 0
    occurrences: list[tuple[str, Microseconds]] = field(default_factory=list)  # (agent, before)
    most: int = 100  # occurrences and chains at a time
    chains_before: Microseconds | None = None
    once: bool = False  # also expired keys of `once=`
    uses: list[tuple[str, str, str]] = field(default_factory=list)  # (rule, subject, use) of counted rules
    counters: list[tuple[str, str]] = field(default_factory=list)  # (rule, subject)


@dataclass(slots=True)
class ResealPayloads(ByPerson[int]):
    """Store payloads encrypted under another key: (query, row), and the blobs (id, content) that rows now point to. A payload that
    was changed since it was read stays.
    """

    payloads: list[tuple[str, Row]]
    blobs: list[tuple[str, str]] = field(default_factory=list)
    alarms: Sequence[Alarm] = ()  # about tampered payloads among the same rows

    def audit(self, result: int) -> Audit | None:
        words = f"{result} payloads encrypted anew" + (f": {self.note}" if self.note else "")
        return Audit("keys rotate", None, None, words)

    def counted(self, result: int) -> int:
        return result


@dataclass(slots=True)
class ChangeCiphers(ByPerson[None]):
    """Add and remove rows of the cipher table: ids of keys, or the marks `bound` and `strict` of sealing.py."""

    enters: list[str]
    leaves: list[str]

    def audit(self, result: None) -> Audit | None:
        del result
        return Audit("keys rotate", None, None, self.note)

    def counted(self, result: None) -> int:
        del result
        return 0


@dataclass(slots=True)
class EnterCipher(Request[None]):
    """Add a row to the cipher table before payloads are encrypted with that key; or a mark of sealing.py."""

    id: str


@dataclass(slots=True)
class NoteBinding(Request[None]):
    """Record that this process binds every payload that it writes to its place from now on."""

    process: str

    fenced_by = stands_for("process")


# Rows that belong to a run, by its seq.
OF_A_RUN = (
    "remove_steps",
    "remove_attempts",
    "remove_deliveries",
    "remove_remedies",
    "remove_waits",
    "remove_votes",  # before the approvals that they are about
    "remove_approvals",
    "remove_callers",
    "remove_run",
)
OF_AN_EVENT = ("remove_admissions", "remove_conflicts", "remove_decisions_of_event")


def remove_families(
    now: int | None,  # noqa: ARG001 a verb's shape
    requests: Sequence[RemoveFamilies | RemoveArchived],
) -> Transaction[list[list[str]]]:
    """1. Lock the runs of each family. It is removed only if it is unchanged, ended, old, and has nothing open. 2. Remove all its
    rows. 3. Remove the payload of events that have no runs left.
    """
    results: list[list[str]] = []
    for request in requests:
        gone = yield from _remove(request.families)
        results.append(gone)
    return results


def _remove(families: Sequence[Family]) -> Transaction[list[str]]:
    wanted = {family.root: family for family in families}
    locked = yield "lock_family", [(root, wanted[root].before) for root in sorted(wanted)]
    members: dict[str, list[Row]] = {}
    for row in locked:
        members.setdefault(row[0], []).append(row)
    going = [
        root
        for root, rows in members.items()
        if {(row[2], row[3]) for row in rows} == wanted[root].runs and all(row[5] for row in rows)
    ]
    unsettled = {row[0] for row in ((yield "unsettled_of_families", [(root,) for root in going]) if going else [])}
    gone = [row for root in going if root not in unsettled for row in members[root]]
    if not gone:
        return []
    yield "remove_effects", [(root,) for root in sorted({row[0] for row in gone})]
    yield "remove_decisions", [(row[4], row[1]) for row in gone]
    batches = yield "remove_batch", [(row[1],) for row in gone]
    for query in OF_A_RUN:
        yield query, [(row[1],) for row in gone]
    yield from _forget({row[4] for row in gone} | {row[0] for row in batches})
    return [row[2] for row in gone]


def _forget(events: set[int]) -> Transaction[int]:
    if not events:
        return 0
    free = yield "lock_event", [(seq,) for seq in sorted(events)]
    forgotten = (yield "forget_payload", [(row[0],) for row in free]) if free else []
    if forgotten:
        yield "forget_conflicts", [(row[0],) for row in forgotten]
        yield "forget_headers", [(row[0],) for row in forgotten]
    return len(forgotten)


def remove_traces(now: int | None, requests: Sequence[RemoveTraces]) -> Transaction[list[int]]:
    results = []
    for request in requests:
        count = yield from _forget(set(request.payloads))
        free = (yield "lock_event", [(seq,) for seq in sorted(request.events)]) if request.events else []
        removed = (yield "remove_event", [(row[0], request.before) for row in free]) if free else []
        for query in OF_AN_EVENT if removed else ():
            yield query, [(row[0],) for row in removed]
        if removed:
            yield from free_room((yield "remove_quarantine", [(row[0],) for row in removed]))
        if request.operations:
            yield "remove_operations", [(seq, request.before) for seq in sorted(request.operations)]
        if request.idempotency:
            rows = [(request.app, key, request.before) for key in sorted(request.idempotency)]
            yield "remove_idempotency", rows
        if request.processes_before is not None:
            yield "remove_processes", [(request.processes_before,)]
        keys = (
            (yield "lock_key", [(request.app, agent, key) for agent, key in sorted(request.keys)])
            if request.keys
            else []
        )
        if keys:
            yield "remove_key", [(request.app, agent, key) for agent, key in keys]
        if request.blobs:
            yield "remove_blob", [(one, request.blobs_before) for one in sorted(request.blobs)]
        if request.uses:
            yield "remove_use_of_rule", [(request.app, *one, request.before) for one in sorted(request.uses)]
        if request.counters:
            yield "remove_counter", [(request.app, *one) for one in sorted(request.counters)]
        occurrences = yield from _forget_occurrences(request)
        chains = yield from _forget_chains(request)
        once = yield from _forget_once(now, request)
        results.append(count + len(removed) + len(request.operations) + occurrences + chains + once)
    return results


def _forget_occurrences(request: RemoveTraces) -> Transaction[int]:
    rows = [(request.app, agent, before, request.most) for agent, before in sorted(request.occurrences)]
    return len((yield "remove_occurrences", rows)) if rows else 0


def _forget_chains(request: RemoveTraces) -> Transaction[int]:
    if request.chains_before is None:
        return 0
    return len((yield "remove_chains", [(request.app, request.chains_before, request.most)]))


def _forget_once(now: int | None, request: RemoveTraces) -> Transaction[int]:
    if not request.once:
        return 0
    row = (now, request.app, request.most)
    return len((yield "remove_once", [row])) + len((yield "remove_operation_keys", [row]))


def reseal_payloads(now: int | None, requests: Sequence[ResealPayloads]) -> Transaction[list[int]]:
    results = []
    for request in requests:
        if request.blobs:
            yield "insert_blob", [(now, *blob) for blob in request.blobs]
        by_query: dict[str, list[Row]] = {}
        for query, row in request.payloads:
            by_query.setdefault(query, []).append(row)
        for query in sorted(by_query):
            yield query, by_query[query]
        if request.alarms:
            yield from open_alarms(now, request.alarms)
        results.append(len(request.payloads))
    return results


def change_ciphers(now: int | None, requests: Sequence[ChangeCiphers]) -> Transaction[list[None]]:
    entered = sorted({identifier for request in requests for identifier in request.enters})
    left = sorted({identifier for request in requests for identifier in request.leaves})
    if entered:
        yield "insert_cipher", [(now, identifier) for identifier in entered]
    if left:
        yield "delete_cipher", [(identifier,) for identifier in left]
    return [None] * len(requests)


def enter_ciphers(now: int | None, requests: Sequence[EnterCipher]) -> Transaction[list[None]]:
    yield "insert_cipher", [(now, identifier) for identifier in sorted({request.id for request in requests})]
    return [None] * len(requests)


def note_bindings(now: int | None, requests: Sequence[NoteBinding]) -> Transaction[list[None]]:  # noqa: ARG001 a verb's shape
    yield "note_binding", [(request.process,) for request in requests]
    return [None] * len(requests)
