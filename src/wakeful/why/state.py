"""The state of a run, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.clock import Microseconds, readable
from wakeful.model import ON_FAILURE
from wakeful.why.effects import what_to_say
from wakeful.why.steps import tell_waits
from wakeful.why.words import Shown, at, failure, moment, number, ordinal, own, span, who_takes_it


def tell_state(run: Shown, present: Microseconds, alive: Sequence[Shown]) -> list[str]:
    """The state of a run, the reason, and what to do next."""
    reason = run["reason"]
    because = f" ({reason})" if reason else ""
    problem = failure(run["error"])
    if run.get("cancel") is not None and run["state"] in {"ready", "running", "waiting"}:
        return tell_stopping(run, present, alive)
    match run["state"]:
        case "done":
            took = span(run["started_at"], run["finished_at"])
            tries = f", on its {ordinal(run['attempts'])} attempt" if run["attempts"] > 1 else ""
            return [f"The run is done: it finished at {at(run['finished_at'])}, {took} after its first start{tries}."]
        case "running":
            process = next((one for one in alive if one["id"] == run["owner"]), None)
            where = f"process {run['owner']}" + (f" (pid {process['pid']} on {process['host']})" if process else "")
            if process is None:
                return [f"The run is running in {where}, whose lease has expired: another worker takes it over soon."]
            return [f"The run is running now, in {where}."]
        case "ready" if (moment(run["gathers_until"]) or 0) > present:
            left = readable((moment(run["gathers_until"]) or 0) - present)
            until = f"until {at(run['gathers_until'])}, {left} from now, unless the batch is full before"
            return [f"The run waits for more events, or for a newer one, {until}.", *who_takes_it(alive)]
        case "ready":
            return [f"The run is ready{because}.", *who_takes_it(alive)]
        case "waiting" if run["error"] is None and (waits := tell_waits(run, present)):
            return [*waits, *([] if alive else who_takes_it(alive))]
        case "waiting":
            due = moment(run["due_at"])
            if due is not None and due > present:
                left = readable(due - present)
                return [f"The run waits until {at(run['due_at'])}, {left} from now{because}.", *who_takes_it(alive)]
            return [f"The run has been due since {at(run['due_at'])}{because}.", *who_takes_it(alive)]
        case "dead":
            done = any(one["state"] == "confirmed" and one.get("undoes") is None for one in own(run, "effects"))
            leaves = f"; `wakeful cancel {run['id']}` also undoes its effects" if done else ""
            return [
                f"The run is dead: it was given up at {at(run['finished_at'])}{because}. The last error was {problem}.",
                (
                    f"It is not retried automatically. See where it failed with `wakeful trace {run['id']} --full`, "
                    f"fix the cause, then resume it with `wakeful replay {run['id']}`; "
                    f"`wakeful dead discard {run['id']}` discards it{leaves}."
                ),
                *tell_failed_child(run),
                *tell_blocked(run),
            ]
        case "denied":
            return [
                f"The run was denied at {at(run['finished_at'])}: {reason or problem}. This is a decision, not a failure: it is not retried."
            ]
        case "cancelled":
            return [f"The run was cancelled at {at(run['finished_at'])}{because}."]
        case "held":
            undoing = (run.get("cancel") or {}).get("by") == ON_FAILURE
            return [
                *([tell_undoing(run)] if undoing else []),
                f"The run is held for a person{because}.",
                *what_to_say(run),
            ]
        case "parked":
            return [f"The run is parked{because}."]
        case other:
            return [f"The run is {other}{because}."]


def tell_failed_child(run: Shown) -> list[str]:
    """A called run is called only once: replay the failed child first."""
    if (run["error"] or {}).get("type") != "ChildFailed":
        return []
    failed = [one["id"] for one in run["children"] if one["state"] in {"dead", "denied", "cancelled"}]
    return [
        f"A replay reuses run {child} and fails the same way: `wakeful replay {child}` first, then this run when "
        "that run is done."
        for child in failed
    ]


def tell_blocked(run: Shown) -> list[str]:
    """A dead letter that keeps its place in the order of its key."""
    behind = run["behind"]
    if behind is None:
        return []
    if not behind:
        return [f"It keeps its place: later runs of key {run['key']} wait until it is replayed or discarded."]
    wait = "waits" if behind == 1 else "wait"
    return [f"{number(behind, 'run')} of key {run['key']} {wait} behind it until then."]


def tell_stopping(run: Shown, present: Microseconds, alive: Sequence[Shown]) -> list[str]:
    """The progress of a run that is being cancelled, or that failed and undoes its effects first."""
    failed = run["cancel"]["by"] == ON_FAILURE
    asked = f"The run is being cancelled: {run['cancel']['by']} requested it at {at(run['cancel']['asked_at'])}."
    if failed:
        asked = tell_undoing(run)
    due = moment(run["due_at"])
    if run["state"] == "running" and failed:
        return [asked]
    if run["state"] == "running":
        return [asked, "It stops at its next step and commits nothing; its effects are undone, latest first."]
    if due is not None and due > present:
        left = readable(due - present)
        return [asked, f"Undoing its effects continues at {at(run['due_at'])}, {left} from now ({run['reason']})."]
    return [asked, "Its effects are undone first, latest first.", *who_takes_it(alive)]


def tell_undoing(run: Shown) -> str:
    return (
        f"The run failed: {run['cancel']['note']}, at {at(run['cancel']['asked_at'])}. Its agent has {ON_FAILURE}: its effects are undone, "
        "latest first; then it becomes a dead letter."
    )
