"""What a person does to a run that was over. Who did it, why, and what it had ended with stays beside it."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.base import Redone, RedoRun, Transaction

OVER = frozenset({"dead", "denied", "cancelled"})


def redo_runs(now: int | None, requests: Sequence[RedoRun]) -> Transaction[list[Redone | None]]:
    """1. What is it now? 2. Write the remedy down. 3. Make it ready again: finished steps and confirmed effects stay, what
    failed is forgotten. Or a new run of the same family, or the end of it.
    """
    results: list[Redone | None] = []
    for request in requests:
        found = yield "find_run_to_redo", [(request.id,)]
        if not found:
            results.append(None)
            continue
        seq, identifier, root, state, error = found[0]
        if refused := _refusal(request, state):
            results.append(Redone(identifier, state, refused))
        elif request.discard:
            yield "insert_remedy", [(now, seq, "discard", request.operator, request.note, None, error)]
            yield "discard_run", [(now, seq, _reason("discarded", request))]
            results.append(Redone(identifier, state))
        elif state in OVER:
            yield "insert_remedy", [(now, seq, "replay", request.operator, request.note, request.data, error)]
            yield "replay_run", [(now, seq, _reason("replayed", request), request.data)]
            yield "clear_failed_steps", [(seq,)]
            yield "clear_failed_effects", [(root,)]
            results.append(Redone(identifier, state))
        else:
            count = (yield "count_family", [(root,)])[0][0]
            again = f"{root}.{count}"
            made = yield "insert_again", [(now, again, seq, _reason("done again", request), request.data)]
            yield "insert_remedy", [(now, made[0][0], "again", request.operator, request.note, request.data, None)]
            results.append(Redone(again, state))
    return results


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
