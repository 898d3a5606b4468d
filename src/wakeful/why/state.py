"""How a run stands, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.clock import Microseconds, readable
from wakeful.model import ON_FAILURE
from wakeful.why.effects import what_to_say
from wakeful.why.steps import tell_waits
from wakeful.why.words import Shown, at, failure, moment, number, ordinal, own, span, who_takes_it


def tell_state(run: Shown, present: Microseconds, alive: Sequence[Shown]) -> list[str]:
    """Where it stands, why, and what to do next."""
    reason = run["reason"]
    because = f" ({reason})" if reason else ""
    problem = failure(run["error"])
    if run.get("cancel") is not None and run["state"] in {"ready", "running", "waiting"}:
        return tell_stopping(run, present, alive)
    match run["state"]:
        case "done":
            took = span(run["started_at"], run["finished_at"])
            tries = f", at its {ordinal(run['attempts'])} attempt" if run["attempts"] > 1 else ""
            return [f"It is done: finished at {at(run['finished_at'])}, {took} after it first started{tries}."]
        case "running":
            process = next((one for one in alive if one["id"] == run["owner"]), None)
            where = f"process {run['owner']}" + (f" (pid {process['pid']} on {process['host']})" if process else "")
            if process is None:
                return [f"It is running in {where}, whose lease is over: another worker takes it over soon."]
            return [f"It is running now, in {where}."]
        case "ready" if (moment(run["gathers_until"]) or 0) > present:
            left = readable((moment(run["gathers_until"]) or 0) - present)
            until = f"until {at(run['gathers_until'])}, {left} from now, unless it has them all before"
            return [f"It waits for more events, or for a newer one, {until}.", *who_takes_it(alive)]
        case "ready":
            return [f"It is ready to run{because}.", *who_takes_it(alive)]
        case "waiting" if run["error"] is None and (waits := tell_waits(run, present)):
            return [*waits, *([] if alive else who_takes_it(alive))]
        case "waiting":
            due = moment(run["due_at"])
            if due is not None and due > present:
                left = readable(due - present)
                return [f"It waits until {at(run['due_at'])}, {left} from now{because}.", *who_takes_it(alive)]
            return [f"It has been due since {at(run['due_at'])}{because}.", *who_takes_it(alive)]
        case "dead":
            done = any(one["state"] == "confirmed" and one.get("undoes") is None for one in own(run, "effects"))
            leaves = f", `wakeful cancel {run['id']}` too, and undoes what it did" if done else ""
            return [
                f"It is dead: given up at {at(run['finished_at'])}{because}. The last error was {problem}.",
                (
                    f"Nothing more happens by itself. See where it failed with `wakeful trace {run['id']} --full`, "
                    f"mend the cause, and let it go on with `wakeful replay {run['id']}`; "
                    f"`wakeful dead discard {run['id']}` gives it up for good{leaves}."
                ),
                *tell_failed_child(run),
                *tell_blocked(run),
            ]
        case "denied":
            return [
                f"It was denied at {at(run['finished_at'])}: {reason or problem}. That is an answer, not a failure: it is not tried again."
            ]
        case "cancelled":
            return [f"It was cancelled at {at(run['finished_at'])}{because}."]
        case "held":
            undoing = (run.get("cancel") or {}).get("by") == ON_FAILURE
            return [*([tell_undoing(run)] if undoing else []), f"It is held for a person{because}.", *what_to_say(run)]
        case "parked":
            return [f"It is parked{because}."]
        case other:
            return [f"It is {other}{because}."]


def tell_failed_child(run: Shown) -> list[str]:
    """A run that was called is called only once: what failed there is mended there."""
    if (run["error"] or {}).get("type") != "ChildFailed":
        return []
    failed = [one["id"] for one in run["children"] if one["state"] in {"dead", "denied", "cancelled"}]
    return [
        f"A replay finds run {child} as it is, and fails the same way: `wakeful replay {child}` first, and this one when "
        "that one is done."
        for child in failed
    ]


def tell_blocked(run: Shown) -> list[str]:
    """A dead letter that keeps its place in the order of its key."""
    behind = run["behind"]
    if behind is None:
        return []
    if not behind:
        return [f"It keeps its place: runs of key {run['key']} that come later wait until it is replayed or discarded."]
    wait = "waits" if behind == 1 else "wait"
    return [f"{number(behind, 'run')} of key {run['key']} {wait} behind it until then."]


def tell_stopping(run: Shown, present: Microseconds, alive: Sequence[Shown]) -> list[str]:
    """It is to be cancelled, or it failed and undoes what it did first: how far that is."""
    failed = run["cancel"]["by"] == ON_FAILURE
    asked = f"It is to be cancelled: {run['cancel']['by']} asked for that at {at(run['cancel']['asked_at'])}."
    if failed:
        asked = tell_undoing(run)
    due = moment(run["due_at"])
    if run["state"] == "running" and failed:
        return [asked]
    if run["state"] == "running":
        return [asked, "It stops at its next step, commits nothing, and what it did is undone, the latest first."]
    if due is not None and due > present:
        left = readable(due - present)
        return [asked, f"Undoing what it did goes on at {at(run['due_at'])}, {left} from now ({run['reason']})."]
    return [asked, "What it did is undone first, the latest first.", *who_takes_it(alive)]


def tell_undoing(run: Shown) -> str:
    return (
        f"It failed: {run['cancel']['note']}, at {at(run['cancel']['asked_at'])}. Its agent has {ON_FAILURE}: what it did is undone, "
        "the latest first; then it is a dead letter."
    )
