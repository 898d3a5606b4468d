"""accept: events, their admissions and their runs become rows; known identities map onto what they became before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pydantic_core import from_json, to_json

from wakeful.errors import IdempotencyConflict, StoreUnavailable
from wakeful.model import Arrival, Receipt
from wakeful.stores.base import AcceptEvents, SaveSteps, Transaction
from wakeful.stores.tampered import Tampered
from wakeful.stores.verbs.admit import admit
from wakeful.stores.verbs.chains import judge_loops
from wakeful.stores.verbs.entry import Entry
from wakeful.stores.verbs.progress import save_steps
from wakeful.stores.verbs.waits import Woken, bring_events, not_taken

Result = list[Receipt] | Exception

# What a run may wait for: not what came too late.
BRINGS = frozenset({"accepted", "unmatched"})
CONTENT = ("type", "subject", "datacontenttype", "dataschema", "data")


def accept_events(now: int | None, requests: Sequence[AcceptEvents]) -> Transaction[list[Result]]:
    """1. Take the idempotency keys; a request whose key was taken before is answered or refused, and stores nothing.
    2. Save the checkpoints that go with events from inside runs; a lost claim stores no event. 3. Insert the events, each
    under the name by which it is known already, if there is one;
    those that come back are new. 4. Of these, decide what closes a loop, and insert what they become. 5. Count the others as
    duplicates, and keep what conflicts. 6. Write the answers beside the keys.
    """
    results: list[Result | None] = [None] * len(requests)
    repeats = yield from _take_keys(now, requests, results)
    yield from _save_checkpoints(now, requests, results)

    pending = [number for number, result in enumerate(results) if result is None and number not in repeats]
    arrivals = {number: requests[number].arrivals for number in pending}
    if any(arrival.aliases for number in pending for arrival in arrivals[number]):
        arrivals = yield from _by_other_names(now, {number: requests[number].app for number in pending}, arrivals)
    rows = [_event_row(now, requests[number].app, arrival) for number in pending for arrival in arrivals[number]]
    rows.sort(
        key=lambda row: str(row[1])
    )  # in order of key, so that two processes never wait for each other in a circle
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
            seq = new.pop(arrival.key, None)  # a second one with the same key in the same batch is its duplicate
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
    for number in pending:
        requests[number].woken = [*_asked_to_stop(requests[number]), *woken]
    for seq, runs in decided.items():
        receipt_of[seq].runs = runs
    for seq, agent, reason in skipped:
        receipt_of[seq].skipped[agent] = reason
    yield from _bring_to_waits(now, fresh, [(requests[number], results[number]) for number in pending])
    if known:
        yield from _count_duplicates(now, known)
    if known or decided or judged:
        yield from _correct_checkpoints(now, requests, results)
    stored = [(requests[number], results[number]) for number in pending]
    yield from _adopt_children(stored)
    yield from _tell_in_vain(now, stored)
    yield from _write_answers([(requests[number], results[number]) for number in pending])
    for number, first in repeats.items():
        results[number] = results[first]
    return [result if result is not None else [] for result in results]


def _by_other_names(
    now: int | None, apps: dict[int, str], given: dict[int, list[Arrival]]
) -> Transaction[dict[int, list[Arrival]]]:
    """The arrivals, with those that are known by another name under the key of the event which they repeat. What such a one
    brings of new names are names of that event, too.
    """
    named: dict[str, tuple[str, str]] = {}  # of several with one name in a batch, the first has it
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
    """New events that close a loop, and what becomes of them instead where policy says no."""
    closing: dict[str, tuple[str, Arrival]] = {}
    for number, some in arrivals.items():
        for arrival in some:
            for one in arrival.admissions:
                if one.loop is not None and arrival.key in new:
                    closing.setdefault(arrival.key, (requests[number].app, arrival))
    if not closing:
        return {}
    judged, alarmed = yield from judge_loops(now, list(closing.values()))
    for number in arrivals:
        requests[number].alarmed = alarmed
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
    """Admissions and runs. Where an agent has order or limits, what becomes of an event is decided now: the runs of those,
    (event, agent, why) of those that got none, and who is to go on because of that.
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
            (now, seq, None, agent, decision.answer, decision.rule, decision.version, decision.reason)
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


def _bring_to_waits(
    now: int | None, fresh: list[tuple[str, int, Arrival]], stored: list[tuple[AcceptEvents, Result | None]]
) -> Transaction[None]:
    """Runs that wait for one of these events go on. An event that nobody takes but somebody waits for is accepted."""
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
    """Agents whose runs may have been asked to stop, to make room for a new one: their owners must look."""
    return [
        (request.app, admission.agent)
        for arrival in request.arrivals
        for admission in arrival.admissions
        if admission.flow is not None and admission.flow.overlap == "replace"
    ]


def _adopt_children(stored: list[tuple[AcceptEvents, Result | None]]) -> Transaction[None]:
    """A run that called another hears of its end, also if the other was there already."""
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
    """Is it the run of an earlier event of the same key? That one may have a caller of its own."""
    return any(one.flow is not None and one.flow.once is not None and one.run_id != run for one in arrival.admissions)


def _tell_in_vain(now: int | None, stored: list[tuple[AcceptEvents, Result | None]]) -> Transaction[None]:
    """A call that no run came of: its step has failed from the start, so that nobody waits for nothing."""
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


def _count_duplicates(now: int | None, known: list[tuple[Arrival, Receipt]]) -> Transaction[None]:
    counted = yield "count_duplicate", [(arrival.key,) for arrival, _ in sorted(known, key=lambda pair: pair[0].key)]
    first_of = {row[0]: (row[1], row[2]) for row in counted}
    if len(first_of) < len({arrival.key for arrival, _ in known}):
        message = (
            "an event whose deduplication window is over was just removed, and has come again: nothing was stored yet"
        )
        raise StoreUnavailable(message)
    rows = yield "runs_of_event", [(seq,) for seq in sorted({seq for seq, _ in first_of.values()})]
    runs: dict[int, list[str]] = {}
    for event_seq, run in rows:
        runs.setdefault(event_seq, []).append(run)
    for arrival, receipt in known:
        receipt.runs = runs.get(first_of[arrival.key][0], [])
    # One without an envelope only says that it came again (verbs/sources.py).
    differing = [pair for pair in known if pair[0].envelope and pair[0].content != first_of[pair[0].key][1]]
    if differing:
        yield from _keep_conflicts(now, differing, {key: seq for key, (seq, _) in first_of.items()})


def _keep_conflicts(
    now: int | None, differing: list[tuple[Arrival, Receipt]], seqs: dict[str, int]
) -> Transaction[None]:
    """Other digests may still say the same, in another order. Each content is looked at once, however often it came: a
    large event and a thousand deliveries of its identity must not hold up everybody else.
    """
    firsts = yield "envelope_of_event", [(seq,) for seq in sorted({seqs[arrival.key] for arrival, _ in differing})]
    # What an event said whose payload was removed, or tampered with, nobody knows any more: then it is a repeat, as far as can be told.
    said = {
        seq: canonical(envelope) if envelope and not isinstance(envelope, Tampered) else None
        for seq, envelope in firsts
    }
    other: dict[tuple[int, str], bool] = {}
    conflicts = []
    for arrival, receipt in differing:
        seq = seqs[arrival.key]
        place = (seq, arrival.content)
        if place not in other:
            other[place] = said[seq] is not None and canonical(arrival.envelope) != said[seq]
            if other[place]:
                conflicts.append((now, seq, arrival.content, arrival.envelope))
        receipt.conflict = other[place]
    if conflicts:
        yield "insert_conflict", conflicts


def canonical(envelope: str) -> str:
    """What an event says, whenever and however it came, and in whatever order."""
    event = json.loads(envelope)
    return json.dumps([event.get(name) for name in CONTENT], sort_keys=True)


def _save_checkpoints(
    now: int | None, requests: Sequence[AcceptEvents], results: list[Result | None]
) -> Transaction[None]:
    """A run's event and its checkpoint are stored together. The checkpoint's result is the receipt."""
    inside = []
    for number, request in enumerate(requests):
        if results[number] is None and request.claim is not None and request.step is not None:
            request.step.result = _written(request, _receipt(request.arrivals[0]))
            if request.adopts:  # said anew each time that this transaction is tried
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
    """What was expected to be new and was known already: the checkpoint says so too, as a resume will read it."""
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
    return to_json(receipt.to_json()).decode() if request.written is None else request.written(receipt)


def _take_keys(
    now: int | None, requests: Sequence[AcceptEvents], results: list[Result | None]
) -> Transaction[dict[int, int]]:
    """Before anything else is stored, so that a refused request leaves nothing behind. Where another process is just
    storing a request with the same key, the insert waits for its end. Returns which requests repeat which other one of
    this very transaction.
    """
    keyed = [
        (request.app, request.idempotency, number) for number, request in enumerate(requests) if request.idempotency
    ]
    takers: dict[tuple[str, str], int] = {}
    repeats: dict[int, int] = {}
    for app, (key, digest), number in sorted(keyed, key=lambda one: (one[0], one[1][0], one[2])):
        taker = takers.get((app, key))
        if taker is not None:
            if requests[taker].idempotency == (key, digest):
                repeats[number] = taker
            else:
                results[number] = _refuse_key(key)
        elif (yield "insert_idempotency", [(now, app, key, digest)]):
            takers[app, key] = number
        else:
            found = yield "find_idempotency", [(app, key)]
            results[number] = _answer_again(found[0][1]) if found[0][0] == digest else _refuse_key(key)
    return repeats


def _refuse_key(key: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"Idempotency-Key {key!r} was used before for a request with other content: use a new key for a new request"
    )


def _answer_again(response: str) -> list[Receipt]:
    return [Receipt.from_json(one) for one in from_json(response)]


def _write_answers(stored: list[tuple[AcceptEvents, Result | None]]) -> Transaction[None]:
    answers = [
        (request.app, request.idempotency[0], to_json([receipt.to_json() for receipt in receipts]).decode())
        for request, receipts in stored
        if request.idempotency is not None and isinstance(receipts, list)
    ]
    if answers:
        yield "answer_idempotency", answers
