"""The story of a run: its attempts, the operations of people, its steps, effects and output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from wakeful.clock import Microseconds
from wakeful.why.checks import tell_occurrence
from wakeful.why.delivery import tell_deliveries
from wakeful.why.effects import tell_effects
from wakeful.why.state import tell_state
from wakeful.why.steps import tell_steps
from wakeful.why.words import SHOWN_OUTPUT, Shown, at, failure, in_short, listed, moment, number, own, span

DID = {
    "replay": "replayed it",
    "again": "ran it again",
    "discard": "discarded it",
    "release": "released its output",
    "return": "returned its output",
    "redeliver": "replayed a delivery of it",
    "confirm": "confirmed a delivery of it",
    "drop": "discarded a delivery of it",
    "cancel": "cancelled it",
    "answer": "answered its approval",
}


def tell_run(
    run: Shown, present: Microseconds, alive: Sequence[Shown], *, because: str | None = None, turn: str | None = None
) -> list[str]:
    story = [f"Agent {run['agent']} took it as run {run['id']}" + (f" ({because})." if because else ".")]
    story += tell_events(run)
    if run["parent"] is not None:
        story.append(f"It was called by run {run['parent']}: see `wakeful why {run['parent']}`.")
    story += tell_history(run)
    story += tell_change(run)
    story += tell_steps(run)
    story += tell_effects(run)
    story += tell_output(run)
    if run["ahead"] is not None:
        return [*story, tell_order(run)]
    if turn is not None:
        return [*story, tell_turn(run, turn)]
    return [*story, *tell_state(run, present, alive)]


def tell_events(run: Shown) -> list[str]:
    """The other events of a run that handles several."""
    others = [one["id"] for one in run["events"] if one["id"] != run["event"]["id"]]
    if len(run["events"]) < 2:
        return []
    return [f"The run handles {len(run['events'])} events: {run['event']['id']}, then {listed(others)}."]


def tell_history(run: Shown) -> list[str]:
    """The attempts before the last one, and the operations of people in between."""
    history = run["history"]
    earlier = history[:-1] if history and history[-1]["outcome"] == run["state"] else history
    told: list[str] = []
    for remedy in run["remedies"]:
        done = moment(remedy["done_at"]) or 0
        before = [one for one in earlier if (moment(one["ended_at"]) or 0) <= done]
        told += [*tell_attempts(before), tell_remedy(remedy)]
        earlier = earlier[len(before) :]
    return [*told, *tell_attempts(earlier)]


def tell_remedy(remedy: Shown) -> str:
    if remedy["verb"] == "fork":
        return tell_fork(remedy)
    if remedy["verb"] in {"release", "return"}:
        return tell_review(remedy)
    did = DID.get(remedy["verb"], f"did {remedy['verb']}")
    if remedy["verb"] == "answer" and isinstance(remedy["data"], bool):
        did += " with yes" if remedy["data"] else " with no"
    edited = " with edited data" if remedy["data"] is not None and remedy["verb"] != "answer" else ""
    why_so = f": {remedy['note'].rstrip('.')}" if remedy["note"] else ""
    return f"{remedy['operator']} {did}{edited} at {at(remedy['done_at'])}{why_so}."


def tell_review(remedy: Shown) -> str:
    """What a person did with a held output, and the output as it was before."""
    did, data = DID[remedy["verb"]], remedy["data"]
    if remedy["verb"] == "release":
        did += " unchanged" if data is None else ", edited,"
    why_so = f": {remedy['note'].rstrip('.')}" if remedy["note"] else ""
    was = "" if data is None else f" The output was {in_short(data['output'], SHOWN_OUTPUT)}."
    return f"{remedy['operator']} {did} at {at(remedy['done_at'])}{why_so}.{was}"


def tell_fork(remedy: Shown) -> str:
    """The run that it was forked from."""
    about = remedy["data"]
    edited = [*(["data"] if "data" in about else []), *(f"result of {name}" for name in about.get("steps", {}))]
    words = f", with edited {listed(edited)}" if edited else ""
    why_so = f": {remedy['note'].rstrip('.')}" if remedy["note"] else ""
    return (
        f"{remedy['operator']} forked it from run {about['run']} at {at(remedy['done_at'])}{words}{why_so}. "
        f"It keeps the steps that run had finished before step {about['step']}."
    )


def tell_attempts(attempts: list[Shown]) -> list[str]:
    """Attempts that did not end well; equal ones in a row become one sentence."""
    told = []
    for (outcome, problem), group in groupby(attempts, key=lambda one: (one["outcome"], failure(one["error"]))):
        alike = list(group)
        count, last = len(alike), alike[-1]
        times = "" if count == 1 else f" {count} times, most recently"
        took = span(last["started_at"], last["ended_at"])
        match outcome:
            case "retried":
                told.append(f"The run failed{times} at {at(last['ended_at'])} after {took}: {problem}.")
            case "crashed":
                told.append(f"Its process {last['process']} died{times} at about {at(last['ended_at'])}.")
            case "released":
                told.append(f"Its worker stopped and released it{times} at {at(last['ended_at'])}.")
            case "waited" if problem:
                told.append(
                    f"The run was told to wait{times} at {at(last['ended_at'])}: {problem}. This did not count as an attempt."
                )
            case "waited":
                told.append(f"The run was suspended to wait{times} at {at(last['ended_at'])}.")
            case "held":
                told.append(f"The run was held for a person{times} at {at(last['ended_at'])}.")
            case "parked":
                told.append(f"The run was parked{times} at {at(last['ended_at'])}, which did not count as an attempt.")
            case "dead":
                told.append(f"The run was given up{times} at {at(last['ended_at'])}: {problem}.")
            case other:
                told.append(f"An attempt ended as {other}{times} at {at(last['ended_at'])}.")
    return told


def tell_change(run: Shown) -> list[str]:
    """The run met code that differs from the code it began with."""
    change = run.get("change")
    if change is None:
        return []
    told = [
        f"Its code changed while it was under way, at {at(one['at'])}, version {one['was']} to {one['now']}, and it "
        f"{'started from the top' if one['restarted'] else 'went on'}."
        for one in change.get("changes", ())
    ] or [f"Its code changed while it was under way, version {change['was']} to {change['now']}, and it went on."]
    left = change["not_asked_for"]
    if left:
        told.append(
            f"The new code never asked for {number(len(left), 'recorded step')}, so the recorded results were not used: "
            f"{listed(left)}."
        )
    return told


def tell_output(run: Shown) -> list[str]:
    """The output of the run, or the output that it holds: returned value, staged effects, deliveries, or silence by
    choice.
    """
    staged = [effect["action"] for effect in own(run, "effects") if effect["state"] == "staged"]
    told = []
    if run["output"] is not None and run["state"] in {"done", "held"}:
        returned = "The run returned" if run["state"] == "done" else "Its output is held:"
        told.append(f"{returned} {in_short(run['output'], SHOWN_OUTPUT)}.")
    if staged:
        verb = "waits" if len(staged) == 1 else "wait"
        until = "for its release" if run["state"] == "held" else "to be done"
        told.append(f"{number(len(staged), 'staged effect')} of the run {verb} {until}: {listed(staged)}.")
    told += tell_occurrence(run)
    told += tell_deliveries(own(run, "deliveries"))
    if (run["outcome"] or {}).get("silent_by_choice"):
        told.append("The run returned nothing, so there was nothing to deliver: it is silent by choice.")
    return told


def tell_later(runs: list[Shown]) -> list[str]:
    """The later runs that repeated or forked this one."""
    return [
        f"The run was {'forked' if one['forked'] else 'repeated'} at {at(one['created_at'])} as run {one['id']}, which is "
        f"{one['state']}: see `wakeful why {one['id']}`."
        for one in runs
    ]


def tell_turn(run: Shown, turn: str) -> str:
    """A run of an agent with state that waits for another run of the agent."""
    return (
        f"The run waits for its turn: runs of agent {run['agent']} execute one at a time, and run {turn} holds the state. "
        f"`wakeful why {turn}` explains that run."
    )


def tell_order(run: Shown) -> str:
    """A run that waits for earlier runs of its key."""
    ahead = run["ahead"]
    first, many = ahead["run"], ahead["count"]
    of = f"key {run['key']}" if run["key"] else "its agent"
    before = f"run {first} is ahead of it" if many == 1 else f"{many} are ahead of it, run {first} first"
    words = f"The run waits for its turn: runs of {of} execute in order, and {before}, which is {ahead['state']}. "
    if ahead["state"] == "dead":
        return words + (
            f"Run {first} keeps its place until a person acts: `wakeful replay {first}` resumes it, "
            f"`wakeful dead discard {first}` lets the runs behind it pass."
        )
    return words + f"`wakeful why {first}` explains that run."
