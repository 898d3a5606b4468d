"""What a person does to runs that were over. Who did it, why, and what each had ended with stays beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.stores.base import Redone, RedoRun, Row, Transaction

OVER = frozenset({"dead", "denied", "cancelled"})

Found = dict[str, Row]  # by id: seq, id, root, state, error
Errors = dict[Any, list[dict[str, Any]]]


def redo_runs(now: int | None, requests: Sequence[RedoRun]) -> Transaction[list[Redone | None]]:
    """1. What are they now? 2. Sort them by what is asked; of two people who ask for the same, the first is heard. 3. Discard,
    make ready again, or start further ones of the same families. Each step is one query for all of them.
    """
    rows = yield "find_run_to_redo", [(one,) for one in sorted({request.id for request in requests})]
    found: Found = {row[1]: row for row in rows}
    states = {identifier: row[3] for identifier, row in found.items()}
    results: list[Redone | None] = [None] * len(requests)
    discards: list[RedoRun] = []
    replays: list[RedoRun] = []
    agains: list[tuple[int, RedoRun]] = []
    for number, request in enumerate(requests):
        state = states.get(request.id)
        if state is None:
            continue
        refused = _refusal(request, state)
        results[number] = Redone(request.id, state, refused)
        if refused is not None:
            continue
        if request.discard:
            discards.append(request)
            states[request.id] = "cancelled"
        elif state in OVER:
            replays.append(request)
            states[request.id] = "ready"
        else:
            agains.append((number, request))
    if discards:
        yield from _discard(now, found, discards)
    if replays:
        yield from _replay(now, found, replays)
    if agains:
        names = yield from _begin_again(now, found, [request for _, request in agains])
        for (number, request), name in zip(agains, names, strict=True):
            results[number] = Redone(name, found[request.id][3])
    return results


def _discard(now: int | None, found: Found, requests: Sequence[RedoRun]) -> Transaction[None]:
    rows = [(request, *found[request.id]) for request in requests]
    yield "insert_remedy", [(now, seq, "discard", one.operator, one.note, None, error) for one, seq, *_, error in rows]
    yield "discard_run", [(now, seq, _reason("discarded", one)) for one, seq, *_ in rows]


def _replay(now: int | None, found: Found, requests: Sequence[RedoRun]) -> Transaction[None]:
    """Finished steps and confirmed effects stay. What failed is forgotten by the run, and kept with the remedy."""
    rows = sorted(((request, *found[request.id]) for request in requests), key=lambda row: row[1])
    steps = _by_owner((yield "clear_failed_steps", [(seq,) for _, seq, *_ in rows]), "name")
    roots = sorted({root for _, _, _, root, *_ in rows})
    effects = _by_owner((yield "clear_failed_effects", [(root,) for root in roots]), "action")
    remedies = []
    for request, seq, _, root, _, error in rows:
        ended = _with_errors(error, steps.get(seq), effects.pop(root, None))
        remedies.append((now, seq, "replay", request.operator, request.note, request.data, ended))
    yield "insert_remedy", remedies
    yield "replay_run", [(now, seq, _reason("replayed", one), one.data) for one, seq, *_ in rows]


def _begin_again(now: int | None, found: Found, requests: Sequence[RedoRun]) -> Transaction[list[str]]:
    roots = sorted({found[request.id][2] for request in requests})
    counts = {row[0]: row[1] for row in (yield "count_family", [(root,) for root in roots])}
    names, rows = [], []
    for request in requests:
        seq, _, root, *_ = found[request.id]
        counts[root] += 1
        names.append(f"{root}.{counts[root]}")
        rows.append((now, names[-1], seq, _reason("done again", request), request.data))
    made = {row[0]: row[1] for row in (yield "insert_again", rows)}
    remedies = [
        (now, made[name], "again", one.operator, one.note, one.data, None)
        for name, one in zip(names, requests, strict=True)
    ]
    yield "insert_remedy", remedies
    return names


def _by_owner(rows: Sequence[Row], what: str) -> Errors:
    errors: Errors = {}
    for owner, name, error in rows:
        errors.setdefault(owner, []).append({what: name, "error": None if error is None else from_json(error)})
    return errors


def _with_errors(
    error: str | None, steps: list[dict[str, Any]] | None, effects: list[dict[str, Any]] | None
) -> str | None:
    """What a run ended with, and the errors of its steps and effects that the replay clears away."""
    if not steps and not effects:
        return error
    whole = {} if error is None else from_json(error)
    whole |= {"steps": steps} if steps else {}
    whole |= {"effects": effects} if effects else {}
    return to_json(whole).decode()


def _refusal(request: RedoRun, state: str) -> str | None:
    if request.discard:
        return None if state == "dead" else f"is {state}: only a dead letter can be discarded"
    if state in OVER or (state == "done" and request.again):
        return None
    if state == "done":
        return "is done: --again does it once more, and finds its confirmed effects instead of repeating them"
    return f"is {state}: only what is over can be replayed"


def _reason(what: str, request: RedoRun) -> str:
    return f"{what} by {request.operator}" + (f": {request.note}" if request.note else "")
