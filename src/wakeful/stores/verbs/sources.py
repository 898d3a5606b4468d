"""Sources: who reads them, and what they brought, in one transaction with where they stand now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_core import to_json

from wakeful.errors import SourceLost
from wakeful.model import Receipt
from wakeful.stores.payloads import LARGE
from wakeful.stores.sources import (
    BY_ITSELF,
    TOLD_OR_GONE,
    EnterSources,
    ForgetOld,
    ForgetSource,
    HeldSource,
    HoldSource,
    LetSourceGo,
    ReportSource,
    ServeSources,
    SettleQuarantine,
    StoredSource,
    TakeIn,
    TakenIn,
    concern_alarm,
    source_alarm,
)
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.accept import AcceptEvents, accept_events
from wakeful.stores.verbs.people import open_alarms, resolve_alarms
from wakeful.stores.verbs.quarantine_room import free_room, take_room


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
    """Whoever serves now makes the words of those that are gone superfluous: since when nobody did was told until then."""
    begins = sorted({(one.app, name, one.process) for one in requests if not one.ends for name in one.names})
    ends = sorted({(one.app, name, one.process) for one in requests if one.ends for name in one.names})
    if begins:
        yield "drop_dead_servers", [(now, app, name) for app, name, _ in begins]
        yield "insert_server", [(now, *row) for row in begins]
    if ends:
        yield "remove_server", ends
    return [None] * len(requests)


def hold_sources(now: int | None, requests: Sequence[HoldSource]) -> Transaction[list[HeldSource | None]]:
    """The row is locked before its holder is looked at: of several who come at once, one gets it. Taking what the process has
    already is a repetition after a lost answer: it gets a new token.
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


def take_in(now: int | None, requests: Sequence[TakeIn]) -> Transaction[list[TakenIn | SourceLost]]:
    """1. Lock the sources that are held, and see by whom. 2. The events. 3. What is quarantined, and what is not any more. 4. Items and cursors. 5. The room that
    unverified inputs take: over the ceiling, the oldest go.
    """
    refused: dict[int, SourceLost] = {}
    order = sorted(range(len(requests)), key=lambda number: (requests[number].app, requests[number].source))
    for number in order:
        one = requests[number]
        if one.token is None:
            continue
        found = yield "lock_source", [(one.app, one.source)]
        if not found or tuple(found[0][:2]) != (one.process, one.token):
            refused[number] = SourceLost(
                f"source {one.source} is read by another process now (token {one.token}): nothing was stored"
            )
    going = [number for number in order if number not in refused]
    known = yield from _known_large([requests[number] for number in going])
    accepting = [_accept_of(requests[number], known) for number in going]
    answers = yield from accept_events(now, accepting)
    results: dict[int, TakenIn | SourceLost] = dict(refused)
    items: list[tuple[int | None, str, str, str, int, str, int]] = []
    moved: list[Row] = []
    rooms: list[tuple[int, int]] = []
    for number, answer in zip(going, answers, strict=True):
        one = requests[number]
        if isinstance(answer, Exception):
            raise answer
        receipts: list[Receipt] = answer[: len(answer) - len(one.kept)]
        kept = room = 0
        for held in one.kept:
            row = (held.arrival.key, one.app, one.source, held.kind, held.size, held.headers, held.form, held.room)
            new = len((yield "insert_quarantine", [row]))
            kept += new
            if not new and one.token is not None:
                yield "keep_again", [(one.app, held.arrival.key, BY_ITSELF)]
            room += held.room if new and held.kind == "unverified" else 0
        if one.settled:
            by = ("discarded", None, None, BY_ITSELF, TOLD_OR_GONE)
            yield "settle_quarantine", [(now, one.app, key, *by) for key in sorted(one.settled)]
        items += [(now, one.app, one.source, item.item, item.version, item.mark, int(item.gone)) for item in one.items]
        repeated = sum(receipt.status == "duplicate" for receipt in receipts)
        moved.append((now, one.app, one.source, one.cursor, one.lag, one.behind, len(receipts), repeated, kept))
        results[number] = TakenIn(receipts, kept)
        if room:
            rooms.append((number, room))
    if items:
        yield "save_item", sorted(items, key=lambda row: tuple(row[1:4]))
    if moved:
        yield "move_source", moved
    for number, room in rooms:
        one, taken = requests[number], results[number]
        cutting = yield from take_room(now, one.app, room, one.ceiling)
        if isinstance(taken, TakenIn):
            taken.cutting = cutting
    return [results[number] for number in range(len(requests))]


def _known_large(requests: Sequence[TakeIn]) -> Transaction[set[int]]:
    """Large unverified inputs that are here already, by identity of the object. Only their identity is stored once more: else a
    stranger who repeats one request would leave a blob each time that no row points to.
    """
    large = [
        kept
        for one in requests
        if one.accept is None
        for kept in one.kept
        if kept.kind == "unverified" and len(kept.arrival.envelope) > LARGE // 2
    ]
    if not large:
        return set()
    known = {
        row[0] for row in (yield "event_is_stored", [(key,) for key in sorted({one.arrival.key for one in large})])
    }
    found = set()
    for kept in large:
        if kept.arrival.key in known:
            found.add(id(kept))
        known.add(kept.arrival.key)
    return found


def _accept_of(one: TakeIn, known: set[int]) -> AcceptEvents:
    """Its events, with those that are kept in quarantine behind them."""
    held = [replace(kept.arrival, envelope="") if id(kept) in known else kept.arrival for kept in one.kept]
    if one.accept is None:
        return AcceptEvents(one.app, held)
    if held and one.accept.arrivals[-len(held) :] != held:  # a transaction may be tried again
        one.accept.arrivals = [*one.accept.arrivals, *held]
    return one.accept


def report_sources(now: int | None, requests: Sequence[ReportSource]) -> Transaction[list[None]]:
    ordered = sorted(requests, key=lambda one: (one.app, one.name))
    yield (
        "report_source",
        [
            (
                now,
                one.app,
                one.name,
                one.state,
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
    over = sorted({one.resolves for one in ordered if one.resolves is not None})
    if over:
        yield from resolve_alarms(now, over)
    alarms = [one.alarm for one in ordered if one.alarm is not None]
    if alarms:
        yield from open_alarms(now, alarms)
    return [None] * len(requests)


def settle_quarantined(now: int | None, requests: Sequence[SettleQuarantine]) -> Transaction[list[TakenIn | None]]:
    """Of several who settle the same at once, one wins: only that one's events are stored. What was made of it is noted under the
    name by which it is known, also where that was known before.
    """
    results: dict[int, TakenIn | None] = {}
    for number in sorted(range(len(requests)), key=lambda one: requests[one].key):
        one = requests[number]
        state, became, made = "discarded", None, None
        if one.accept is not None:
            first = one.accept.arrivals[0]
            named = (yield "find_alias", [(alias,) for alias in sorted(first.aliases)]) if first.aliases else []
            state, became, made = "released", named[0][1] if named else first.key, len(one.accept.arrivals)
        settled = yield "settle_quarantine", [(now, one.app, one.key, state, became, made, one.by.name, one.note)]
        if not settled:
            results[number] = None
            continue
        if state == "released":
            yield from free_room([(one.app, settled[0][0])])
        receipts: list[Receipt] = []
        if one.accept is not None:
            answer = (yield from accept_events(now, [one.accept]))[0]
            if isinstance(answer, Exception):
                raise answer
            receipts = answer
        results[number] = TakenIn(receipts)
    return [results[number] for number in range(len(requests))]


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
    """A row of `{source}`."""
    return StoredSource(*row)
