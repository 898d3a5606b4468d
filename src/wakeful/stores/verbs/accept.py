"""accept: stores events, their admissions and their runs. A known identity maps onto its earlier result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from wakeful.model import Arrival, Claim, Receipt, Step
from wakeful.stores.lanes import Lanes
from wakeful.stores.notes import note
from wakeful.stores.request import Others, Ready, Request
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.admit import admit
from wakeful.stores.verbs.chains import judge_loops
from wakeful.stores.verbs.duplicates import count_duplicates
from wakeful.stores.verbs.entry import Entry
from wakeful.stores.verbs.held_admissions import held_of, hold_new_runs, judge_counted
from wakeful.stores.verbs.idempotency import Result, take_keys, write_answers
from wakeful.stores.verbs.locks import HeldLock
from wakeful.stores.verbs.misfits import Matches
from wakeful.stores.verbs.progress import SaveSteps, save_steps
from wakeful.stores.verbs.standing import stored_mode
from wakeful.stores.verbs.waits import Woken, bring_events, not_taken


@dataclass(slots=True)
class AcceptEvents(Request[list[Receipt]]):
    """Store events, their admissions and their runs, all or none. Returns a receipt for each event.

    `idempotency` is (key, digest of the request): a repeated key gets the first answer, or IdempotencyConflict if the digest differs.
    With `claim` and `step`, the events come from inside a run and are stored together with its checkpoint; refused if the claim is lost.
    """

    app: str
    arrivals: list[Arrival]
    idempotency: tuple[str, str] | None = None
    claim: Claim | None = None
    step: Step | None = None
    # The new run is a child, whose end is told to the step: the facts that the step notes beside the child.
    adopts: Mapping[str, Any] | None = None
    matches: Matches | None = None
    woken: list[tuple[str, str]] = field(default_factory=list)  # runs that waited for these events: (app, agent)
    locks: tuple[HeldLock, ...] = ()
    alarmed: bool = False  # a loop was stopped or a condition exceeded its budget: an alarm is open

    @property
    def fenced_by(self) -> str | None:
        return None if self.claim is None else self.claim.process

    plain = True

    @property
    def patient(self) -> bool:
        return self.claim is not None

    def size(self) -> tuple[int, int]:
        return len(self.arrivals) - 1, sum([len(arrival.envelope) for arrival in self.arrivals])

    def lock_keys(self, lanes: Lanes) -> None:
        for arrival in self.arrivals:
            for admission in arrival.admissions:
                if admission.flow is not None:
                    lanes.add(self.app, admission.agent, admission.flow)

    def readies(self) -> Ready | None:
        agents = frozenset(
            [one.agent for arrival in self.arrivals for one in arrival.admissions if one.run_id is not None]
        )
        return Ready(self.app, agents) if agents else None

    def alarming(self) -> bool:
        return self.alarmed

    def tell(self, result: list[Receipt], others: Others) -> None:
        for arrival, receipt in zip(self.arrivals, result or [], strict=False):
            if receipt.status != "duplicate":
                for one in arrival.admissions:
                    if one.run_id is not None and one.run_id not in others.taken:
                        others.hear(self.app, one.agent)


# A run may wait for events in these states, but not for one that expired.
BRINGS = frozenset({"accepted", "unmatched"})


def accept_events(now: int | None, requests: Sequence[AcceptEvents]) -> Transaction[list[Result]]:
    """1. Take the idempotency keys. A request whose key was taken before is answered or refused, and stores nothing.
    2. Save the checkpoints of events from inside runs; a lost claim stores no event. 3. Insert the events, each under the
    key by which it is already known, if there is one; rows that come back are new. 4. Judge the new events that close a
    loop, and insert admissions and runs. 5. Count the others as duplicates, and record conflicts. 6. Store the answers
    with the idempotency keys.
    """
    results: list[Result | None] = [None] * len(requests)
    repeats = yield from take_keys(now, requests, results)
    yield from _save_checkpoints(now, requests, results)

    pending = [number for number, result in enumerate(results) if result is None and number not in repeats]
    arrivals = {number: requests[number].arrivals for number in pending}
    if any(arrival.aliases for number in pending for arrival in arrivals[number]):
        arrivals = yield from _by_other_names(now, {number: requests[number].app for number in pending}, arrivals)
    rows = [_event_row(now, requests[number].app, arrival) for number in pending for arrival in arrivals[number]]
    rows.sort(key=lambda row: str(row[1]))  # in order of key, so that two processes cannot deadlock
    inserted = yield "insert_event", rows
    new = {row[0]: row[1] for row in inserted}
    judged = yield from _judge(now, requests, arrivals, new)

    fresh: list[tuple[str, int, Arrival]] = []
    traced: list[tuple[object, ...]] = []
    receipt_of: dict[int, Receipt] = {}
    known: list[tuple[Arrival, Receipt]] = []
    for number in pending:
        receipts: list[Receipt] = []
        for arrival in arrivals[number]:
            seq = new.pop(arrival.key, None)  # the same key again in the same batch is a duplicate
            if seq is not None:
                arrival = judged.get(arrival.key, arrival)
                fresh.append((requests[number].app, seq, arrival))
                if arrival.trace is not None:
                    traced.append((arrival.trace, seq))
                receipts.append(_receipt(arrival))
                receipt_of[seq] = receipts[-1]
            else:
                receipt = Receipt(arrival.source, arrival.id, "duplicate", [])
                known.append((arrival, receipt))
                receipts.append(receipt)
        results[number] = receipts
    if traced:
        yield "insert_trace", traced
    decided, skipped, woken = yield from _insert_consequences(now, fresh)
    held = [one for app, seq, arrival in fresh for one in held_of(app, arrival, _own_runs(arrival, decided.get(seq)))]
    asked = (yield from hold_new_runs(now, held)) if held else False
    for number in pending:
        requests[number].alarmed |= asked
        requests[number].woken = [*_asked_to_stop(requests[number]), *woken]
    for seq, runs in decided.items():
        receipt_of[seq].runs = runs
    for seq, agent, reason in skipped:
        receipt_of[seq].skipped[agent] = reason
    yield from _bring_to_waits(now, fresh, [(requests[number], results[number]) for number in pending])
    if known:
        yield from count_duplicates(now, known)
    if known or decided or judged:
        yield from _correct_checkpoints(now, requests, results)
    stored = [(requests[number], results[number]) for number in pending]
    yield from _adopt_children(stored)
    yield from _tell_in_vain(now, stored)
    yield from write_answers([(requests[number], results[number]) for number in pending])
    for number, first in repeats.items():
        results[number] = results[first]
    return [result if result is not None else [] for result in results]


def _by_other_names(
    now: int | None, apps: dict[int, str], given: dict[int, list[Arrival]]
) -> Transaction[dict[int, list[Arrival]]]:
    """Replace the key of each arrival that is known by another name with the key of the event that it repeats. New names of
    such an arrival become names of that event too.
    """
    named: dict[str, tuple[str, str]] = {}  # if several in a batch share a name, it belongs to the first
    for number, arrivals in given.items():
        for arrival in arrivals:
            for alias in arrival.aliases:
                named.setdefault(alias, (apps[number], arrival.key))
    new = {row[0] for row in (yield "insert_alias", [(now, alias, *named[alias]) for alias in sorted(named)])}
    key_of = {alias: key for alias, (_, key) in named.items()}
    known = sorted(named.keys() - new)
    if known:
        key_of |= {row[0]: row[1] for row in (yield "find_alias", [(alias,) for alias in known])}
    moved: dict[str, str] = {}
    found: dict[int, list[Arrival]] = {}
    for number, arrivals in given.items():
        found[number] = []
        for arrival in arrivals:
            keys = (key_of[alias] for alias in arrival.aliases)
            other = next((key for key in keys if key != arrival.key), None)
            if other is not None:
                moved |= {alias: other for alias in arrival.aliases if key_of[alias] == arrival.key and alias in new}
                key_of |= moved
            found[number].append(arrival if other is None else replace(arrival, key=other))
    if moved:
        yield "move_alias", [(alias, moved[alias]) for alias in sorted(moved)]
    return found


def _judge(
    now: int | None, requests: Sequence[AcceptEvents], arrivals: dict[int, list[Arrival]], new: dict[str, int]
) -> Transaction[dict[str, Arrival]]:
    """New events that close a loop or that a rule counts, and that policy does not allow, with their changed admissions."""
    closing: dict[str, tuple[str, Arrival]] = {}
    counted: dict[str, tuple[str, Arrival]] = {}
    for number, some in arrivals.items():
        for arrival in some:
            for one in arrival.admissions:
                if one.loop is not None and arrival.key in new:
                    closing.setdefault(arrival.key, (requests[number].app, arrival))
                elif one.judgement is not None and arrival.key in new:
                    counted.setdefault(arrival.key, (requests[number].app, arrival))
    judged: dict[str, Arrival] = {}
    if closing:
        judged, alarmed = yield from judge_loops(now, list(closing.values()))
        for number in arrivals:
            requests[number].alarmed = alarmed
        for app, arrival in closing.values():
            if any(one.judgement is not None for one in judged.get(arrival.key, arrival).admissions):
                counted[arrival.key] = app, arrival
    if counted:
        found = yield from judge_counted(now, [(app, judged.get(one.key, one)) for app, one in counted.values()])
        judged |= found
    return judged


def _event_row(now: int | None, app: str, arrival: Arrival) -> tuple[object, ...]:
    return (
        now,
        arrival.key,
        app,
        arrival.source,
        arrival.id,
        arrival.type,
        arrival.subject,
        arrival.state,
        arrival.reason,
        arrival.content,
        arrival.envelope,
    )


def _receipt(arrival: Arrival) -> Receipt:
    runs = [admission.run_id for admission in arrival.admissions if admission.run_id is not None]
    return Receipt(arrival.source, arrival.id, arrival.state, runs)


def _insert_consequences(
    now: int | None, fresh: list[tuple[str, int, Arrival]]
) -> Transaction[tuple[dict[int, list[str]], list[tuple[int, str, str]], Woken]]:
    """Insert admissions and runs. For agents with order or limits, the admission is decided here. Returns the runs of these events,
    (event, agent, reason) of those that got no run, and the callers to wake.
    """
    admissions: list[tuple[object, ...]] = []
    runs: list[tuple[object, ...]] = []
    decisions: list[tuple[object, ...]] = []
    entries: list[Entry] = []
    for app, seq, arrival in fresh:
        for admission in arrival.admissions:
            run, flow = admission.run_id, admission.flow
            if flow is not None:
                expires_at = arrival.expires_at
                entries.append(
                    Entry(app, admission.agent, seq, run, flow, arrival.id, expires_at, reason=admission.reason)
                )
                continue
            admissions.append((seq, admission.agent, admission.state, run, admission.reason))
            if run is not None:
                runs.append((now, run, run, app, admission.agent, seq, arrival.expires_at))
        decisions.extend(
            (
                now,
                app,
                seq,
                None,
                agent,
                decision.answer,
                decision.rule,
                decision.version,
                decision.reason,
                stored_mode(decision),
            )
            for agent, decision in arrival.decisions
        )
    if admissions:
        yield "insert_admission", admissions
    if runs:
        yield "insert_run", runs
    if decisions:
        yield "insert_decision", decisions
    if not entries:
        return {}, [], []
    woken = yield from admit(now, entries)
    skipped = [(one.event_seq, one.agent, one.reason or "") for one in entries if one.state == "skipped"]
    became = {(one.event_seq, one.agent): one.run for one in entries}
    concerned = {one.event_seq for one in entries}
    decided = {
        seq: [
            run
            for one in arrival.admissions
            if (run := became.get((seq, one.agent), one.run_id if one.flow is None else None)) is not None
        ]
        for _, seq, arrival in fresh
        if seq in concerned
    }
    return decided, skipped, woken


def _own_runs(arrival: Arrival, decided: list[str] | None) -> dict[str, str]:
    """The run that each agent got for this event alone. `decided`: its runs, if agents with order or limits decided about them."""
    return {
        one.agent: one.run_id
        for one in arrival.admissions
        if one.run_id is not None and (decided is None or one.run_id in decided)
    }


def _bring_to_waits(
    now: int | None, fresh: list[tuple[str, int, Arrival]], stored: list[tuple[AcceptEvents, Result | None]]
) -> Transaction[None]:
    """Resume runs that wait for one of these events. An unmatched event that a run waits for counts as accepted."""
    seqs = {arrival.key: seq for _, seq, arrival in fresh if arrival.state in BRINGS}
    if not seqs or not (yield "any_wait", [()]):
        return
    for request, receipts in stored:
        mine = {
            seqs[arrival.key]: (arrival, receipt)
            for arrival, receipt in zip(request.arrivals, receipts if isinstance(receipts, list) else [], strict=False)
            if arrival.key in seqs and receipt.status != "duplicate"
        }
        events = [(seq, one.type, one.subject, one.envelope) for seq, (one, _) in mine.items()]
        woken, taken, alarmed = yield from bring_events(now, request.app, events, request.matches)
        request.woken += woken
        request.alarmed |= alarmed
        for seq in taken:
            mine[seq][1].status = "accepted"


def _asked_to_stop(request: AcceptEvents) -> list[tuple[str, str]]:
    """Agents whose runs may have been asked to stop to make room for a new one: the workers that run them must look."""
    return [
        (request.app, admission.agent)
        for arrival in request.arrivals
        for admission in arrival.admissions
        if admission.flow is not None and admission.flow.overlap == "replace"
    ]


def _adopt_children(stored: list[tuple[AcceptEvents, Result | None]]) -> Transaction[None]:
    """Record the caller of each called run, so that it is told of the end, also if the run existed before."""
    rows = [
        (receipts[0].runs[0], request.arrivals[0], request.claim.seq, request.step.key)
        for request, receipts in stored
        if request.adopts and request.claim is not None and request.step is not None
        if isinstance(receipts, list) and receipts[0].runs
    ]
    if not rows:
        return
    joined = [row for row in rows if _joined_by_key(row[0], row[1])]
    rows = [row for row in rows if row not in joined] if joined else rows
    if rows:
        yield "adopt_run", [(run, parent, key) for run, _, parent, key in rows]
    for run, _, parent, key in sorted(joined, key=lambda row: row[0]):
        for (seq,) in (yield "lock_joined", [(run,)]):
            yield "adopt_joined", [(seq, parent, key)]
    members = [
        (run, arrival.key, parent, key)
        for run, arrival, parent, key in rows
        if any(one.flow is not None and one.flow.batch is not None for one in arrival.admissions)
    ]
    if members:
        yield "adopt_member", members


def _joined_by_key(run: str, arrival: Arrival) -> bool:
    """Whether it is the run of an earlier event with the same `once=` key. That run may already have a caller."""
    return any(one.flow is not None and one.flow.once is not None and one.run_id != run for one in arrival.admissions)


def _tell_in_vain(now: int | None, stored: list[tuple[AcceptEvents, Result | None]]) -> Transaction[None]:
    """A call that led to no run: fail its step at once, so that the caller does not wait for nothing."""
    failed = []
    for request, receipts in stored:
        if not request.adopts or request.claim is None or request.step is None:
            continue
        if isinstance(receipts, list) and not receipts[0].runs:
            arrival = request.arrivals[0]
            became = yield "became_of_event", [(arrival.key,)]
            request.step.state, request.step.error = "failed", not_taken(arrival.id, became)
            failed.append(SaveSteps(request.claim, [request.step]))
    if failed:
        yield from save_steps(now, failed)


def _save_checkpoints(
    now: int | None, requests: Sequence[AcceptEvents], results: list[Result | None]
) -> Transaction[None]:
    """Store a run's event together with its checkpoint. The checkpoint's result is the receipt."""
    inside = []
    for number, request in enumerate(requests):
        if results[number] is None and request.claim is not None and request.step is not None:
            request.step.result = _written(request, _receipt(request.arrivals[0]))
            if request.adopts:  # set again each time this transaction is retried
                request.step.state, request.step.error = "waiting", None
            inside.append((number, SaveSteps(request.claim, [request.step], request.locks)))
    if not inside:
        return
    saved = yield from save_steps(now, [request for _, request in inside])
    for (number, _), outcome in zip(inside, saved, strict=True):
        if isinstance(outcome, Exception):
            results[number] = outcome


def _correct_checkpoints(
    now: int | None, requests: Sequence[AcceptEvents], results: list[Result | None]
) -> Transaction[None]:
    """Correct checkpoints whose event turned out to be known: a resume must read the actual receipt."""
    corrected = []
    for request, receipts in zip(requests, results, strict=True):
        if request.claim is not None and request.step is not None and isinstance(receipts, list):
            written = _written(request, receipts[0])
            if request.step.result != written:
                request.step.result = written
                corrected.append(SaveSteps(request.claim, [request.step]))
    if corrected:
        yield from save_steps(now, corrected)


def _written(request: AcceptEvents, receipt: Receipt) -> str:
    if request.adopts is None:
        return to_json(receipt.to_json()).decode()
    child = receipt.runs[0] if receipt.runs else None
    return note(to_json({"child": child, **request.adopts}).decode())
