"""redo: a person replays, repeats or discards ended runs. The operator, the note and the previous error are recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from wakeful.model import RunState
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.tampered import plain
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.asking import withdraw_approvals
from wakeful.stores.verbs.consent import ask_anew, ask_anew_in_family
from wakeful.stores.verbs.dead import resolve_if_last
from wakeful.stores.verbs.held import HeldRun, resolve_held
from wakeful.stores.verbs.keys import take_places
from wakeful.stores.verbs.waits import cancelled_with, tell_caller


@dataclass(slots=True)
class Redone:
    """The result. `run` continues; it is a new run if an ended one was done again. `refused` says why nothing was changed."""

    run: str
    was: RunState
    refused: str | None = None


@dataclass(slots=True)
class RedoRun(ByPerson[Redone | None]):
    """A person replays an ended run, does one that succeeded `again` as a new run of its family, or `discard`s one. `data` replaces the
    event's data for the handler. None if there is no such run; refused if its state or its family does not allow it.
    """

    id: str
    data: str | None = None
    again: bool = False
    discard: bool = False

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.add(self.id)

    def audit(self, result: Redone | None) -> Audit | None:
        if result is None or result.refused is not None:
            return None
        return Audit("discard" if self.discard else "replay", None, result.run, self.note)


OVER = frozenset({"dead", "denied", "cancelled"})

Errors = dict[Any, list[dict[str, Any]]]


class RunToRedo(NamedTuple):
    """A run before the change."""

    seq: int
    id: str
    root: str
    state: RunState
    error: str | None
    app: str
    agent: str
    reason: str | None
    holds_output: bool  # held for its output, not for an effect
    key: str | None
    gathered: int
    undone: bool  # it failed, and its effects were undone
    committed: bool  # its handler does not run again: its staged effects will be released


class Keyed(Protocol):
    """The parts of a run that determine its place in the order of a key."""

    @property
    def root(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def key(self) -> str | None: ...


Asked = list[tuple[RedoRun, RunToRedo]]


def redo_runs(now: int | None, requests: Sequence[RedoRun]) -> Transaction[list[Redone | None]]:
    """1. Read the runs. 2. Sort the requests by kind; if two people ask for the same, the first one counts. 3. Discard runs, make them
    ready again, or start new ones of the same families. Each step is one query for all requests.
    """
    rows = yield "find_run_to_redo", [(one,) for one in sorted({request.id for request in requests})]
    found = {row[1]: RunToRedo(*row) for row in rows}
    at_work = yield "family_at_work", [(run.root, run.seq) for run in sorted(found.values(), key=lambda run: run.seq)]
    relatives = {row[0]: row[1] for row in at_work}
    begun: set[str] = set()
    states: dict[str, RunState] = {run.id: run.state for run in found.values()}
    results: list[Redone | None] = [None] * len(requests)
    discards: Asked = []
    replays: Asked = []
    agains: Asked = []
    further: list[int] = []
    for number, request in enumerate(requests):
        run = found.get(request.id)
        if run is None:
            continue
        state = states[run.id]
        refused = _refusal(request, state, holds_output=run.holds_output)
        if refused is None and not request.discard:
            refused = _not_beside(run, relatives, begun)
        results[number] = Redone(run.id, state, refused)
        if refused is not None:
            continue
        if request.discard:
            discards.append((request, run))
            states[run.id] = "cancelled"
        elif state != "done":
            begun.add(run.root)
            replays.append((request, run))
            states[run.id] = "ready"
        else:
            begun.add(run.root)
            agains.append((request, run))
            further.append(number)
    if discards:
        yield from _discard(now, discards)
    if replays:
        yield from _replay(now, replays)
    if agains:
        names = yield from _begin_again(now, agains)
        for number, name in zip(further, names, strict=True):
            results[number] = Redone(name, "done")
    dead = sorted(run.seq for _, run in (*discards, *replays) if run.state == "dead")
    if dead:
        raised = yield "alarms_of_runs", [(seq,) for seq in dead]
        yield from resolve_if_last(now, [row[0] for row in raised])
    held = [(one, run) for one, run in (*discards, *replays) if run.state == "held"]
    if held:
        done = _reason("discarded" if held[0][0].discard else "replayed", held[0][0])
        yield from resolve_held(now, [HeldRun(run.seq, run.app, run.agent, run.id) for _, run in held], done)
    return results


def _not_beside(run: RunToRedo, relatives: dict[int, str], begun: set[str]) -> str | None:
    """Only one run of a family at a time, because they share effects."""
    if run.seq in relatives:
        return f"shares its effects with run {relatives[run.seq]}, which has not ended: wait for that run, or cancel it"
    return "is already being done again" if run.root in begun else None


def _discard(now: int | None, asked: Asked) -> Transaction[None]:
    """End the runs, and drop their staged effects that have not begun."""
    yield from _drop_outgoing(now, asked, "discarded")
    remedies = [(now, run.seq, "discard", one.by.name, one.note, None, _ended_with(run)) for one, run in asked]
    yield "insert_remedy", remedies
    yield "discard_run", [(now, run.seq, _reason("discarded", one)) for one, run in asked]
    for one, run in asked:
        if run.state == "held":  # for a dead run, this was done when it died
            reason = _reason("discarded", one)
            yield "close_waits", [(run.seq,)]
            yield from withdraw_approvals(now, [(run.seq, reason)])
            yield from tell_caller(now, run.seq, run.id, "cancelled", reason)


def _replay(now: int | None, asked: Asked) -> Transaction[None]:
    """Finished steps and confirmed effects stay. Failed steps and effects are cleared and recorded with the remedy. If the handler runs
    again after it had prepared its output (a held output, other data, undone effects), the prepared deliveries and effects are
    dropped, because the handler prepares them again.
    """
    ordered = sorted(asked, key=lambda pair: pair[1].seq)
    undone = yield from _undone(ordered)
    anew = [
        (one, run)
        for one, run in asked
        if (run.state == "held" and not run.committed) or one.data is not None or run.seq in undone
    ]
    if anew:
        yield from _drop_outgoing(now, anew, "replayed")
    if undone:
        yield "forget_commit", [(seq,) for seq in sorted(undone)]
    yield "clear_state_fact", [(run.seq,) for _, run in ordered]
    yield "clear_unanswered", [(run.seq,) for _, run in ordered]
    yield from ask_anew(now, [(run.root, run.seq) for _, run in ordered])
    discarded = [
        (run.root, run.seq)
        for one, run in ordered
        if run.state == "cancelled" and one.data is None and run.seq not in undone
    ]
    if discarded:
        yield "revive_staged", discarded
    steps = _by_owner((yield "clear_failed_steps", [(run.seq,) for _, run in ordered]), "name")
    yield "clear_trouble", [(run.seq,) for _, run in ordered]
    roots = sorted({run.root for _, run in ordered})
    effects = _by_owner((yield "clear_failed_effects", [(root,) for root in roots]), "action")
    remedies = []
    for one, run in ordered:
        error = _with_errors(_ended_with(run), steps.get(run.seq), effects.pop(run.root, None))
        remedies.append((now, run.seq, "replay", one.by.name, one.note, one.data, error))
    yield "insert_remedy", remedies
    yield "replay_run", [(now, run.seq, _reason("replayed", one), one.data) for one, run in ordered]
    yield from queue([(run, run.seq) for _, run in ordered])
    for one, run in ordered:
        if run.state == "cancelled" or run.undone:
            yield from _replay_children(now, one, run)


def _undone(asked: Asked) -> Transaction[set[int]]:
    """Runs with undone effects: their commit relied on these."""
    cancelled = [(run.root, run.seq) for _, run in asked if run.state == "cancelled"]
    rows = (yield "undone_of_run", cancelled) if cancelled else []
    return {row[0] for row in rows} | {run.seq for _, run in asked if run.undone}


def _replay_children(now: int | None, asked: RedoRun, run: RunToRedo) -> Transaction[None]:
    """Replay the children that were cancelled together with their caller: otherwise its calls would find them cancelled and fail again."""
    with_it = cancelled_with(run.id)
    children = [child for child, note in (yield "cancelled_children", [(run.seq,)]) if note == with_it]
    if children:
        note = f"run {run.id}, which called it, was replayed"
        yield from redo_runs(now, [RedoRun(child, by=asked.by, note=note) for child in children])


def queue(runs: Sequence[tuple[Keyed, int]]) -> Transaction[None]:
    """Give runs with a key their place: the one that a dead letter of their family kept, else at the end. A family has one place, so that
    a run does not wait behind the dead letter that it replaces.
    """
    keyed = [(run, seq) for run, seq in runs if run.key is not None]
    if not keyed:
        return
    kept: dict[str, list[tuple[int, int]]] = {}
    for root, seq, place in (yield "places_of_family", [(root,) for root in sorted({run.root for run, _ in keyed})]):
        kept.setdefault(root, []).append((place, seq))
    counts = Counter((run.app, run.agent, run.key or "") for run, _ in keyed if run.root not in kept)
    places = (yield from take_places(counts)) if counts else {}
    rows = []
    for run, seq in keyed:
        lane = (run.app, run.agent, run.key or "")
        if run.root in kept:
            rows.append((seq, min(kept[run.root])[0]))
        else:
            rows.append((seq, places[lane]))
            places[lane] += 1
    given_up = sorted({(seq,) for places_of_one in kept.values() for _, seq in places_of_one})
    if given_up:
        yield "let_go_of_place", given_up
    yield "queue_again", rows


def _drop_outgoing(now: int | None, asked: Asked, word: str) -> Transaction[None]:
    yield "discard_deliveries", [(now, run.seq, _reason(word, one)) for one, run in asked]
    yield "abandon_staged", [(now, run.root, run.seq, _reason(word, one)) for one, run in asked]


def data_of(runs: Sequence[int]) -> Transaction[dict[int, str | None]]:
    """The data that people gave to these runs, to be written for another run. The database cannot copy it, because encrypted data is
    bound to its row.
    """
    rows = (yield "data_of_run", [(seq,) for seq in sorted(runs)]) if runs else []
    return {row[0]: row[1] for row in rows}


def _begin_again(now: int | None, asked: Asked) -> Transaction[list[str]]:
    roots = sorted({run.root for _, run in asked})
    counts = {row[0]: row[1] for row in (yield "count_family", [(root,) for root in roots])}
    kept = yield from data_of([run.seq for one, run in asked if one.data is None])
    names, rows = [], []
    for one, run in asked:
        counts[run.root] += 1
        names.append(f"{run.root}.{counts[run.root]}")
        rows.append((now, names[-1], run.seq, _reason("done again", one), kept.get(run.seq, one.data)))
    made = {row[0]: row[1] for row in (yield "insert_again", rows)}
    yield from ask_anew_in_family(now, roots)
    remedies = [
        (now, made[name], "again", one.by.name, one.note, one.data, None)
        for name, (one, _) in zip(names, asked, strict=True)
    ]
    yield "insert_remedy", remedies
    gathered = [(run.seq, made[name]) for name, (_, run) in zip(names, asked, strict=True) if run.gathered > 1]
    if gathered:
        yield "copy_members", gathered
    yield from queue([(run, made[name]) for name, (_, run) in zip(names, asked, strict=True)])
    return names


def _ended_with(run: RunToRedo) -> str | None:
    """The error of a failed run, or the reason of a held one."""
    return to_json({"type": "Held", "message": run.reason}).decode() if run.state == "held" else plain(run.error)


def _by_owner(rows: Sequence[Row], what: str) -> Errors:
    errors: Errors = {}
    for owner, name, error in rows:
        errors.setdefault(owner, []).append({what: name, "error": None if error is None else from_json(error)})
    return errors


def _with_errors(
    error: str | None, steps: list[dict[str, Any]] | None, effects: list[dict[str, Any]] | None
) -> str | None:
    """The error of a run, with the errors of its steps and effects that the replay clears."""
    if not steps and not effects:
        return error
    whole = {} if error is None else from_json(error)
    whole |= {"steps": steps} if steps else {}
    whole |= {"effects": effects} if effects else {}
    return to_json(whole).decode()


def _refusal(request: RedoRun, state: str, *, holds_output: bool) -> str | None:
    if state == "held":
        return None if holds_output else "is held for an effect: `wakeful effects list` shows it, and how to settle it"
    if request.discard:
        return None if state == "dead" else f"is {state}: only a dead letter can be discarded"
    if state in OVER or (state == "done" and request.again):
        return None
    if state == "done":
        return "is done: --again does it once more, and finds its confirmed effects instead of repeating them"
    return f"is {state}: only a run that has ended can be replayed"


def _reason(what: str, request: RedoRun) -> str:
    return f"{what} by {request.by.name}" + (f": {request.note}" if request.note else "")
