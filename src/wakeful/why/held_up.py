"""What a run may wait for or be blocked by: limits, pauses, locks, circuits, its turn."""

from __future__ import annotations

from wakeful.clock import Microseconds
from wakeful.model import OWN_AGENTS
from wakeful.resources import alarms, circuits, halts, locks, pauses
from wakeful.resources.desk import Desk
from wakeful.resources.states import State
from wakeful.stores.known import limits_of
from wakeful.why.version import tell_version
from wakeful.why.words import Shown, at, moment, number


async def tell_stuck(desk: Desk, run: Shown) -> list[str]:
    """The open alarm about a stuck run."""
    if run["state"] != "running":
        return []
    key = f"stuck/{run['app']}/{run['agent']}/{run['id']}"
    found = await alarms.alarms(desk, state="open")
    return [f"An alarm is open: {one['text']}." for one in found if one["key"] == key]


async def tell_locks(desk: Desk, run: Shown) -> list[str]:
    """The locks that the run holds, and those it waits for."""
    if run["state"] != "running":
        return []
    told = [
        f'It has held lock "{one["name"]}" since {at(one["taken_at"])}'
        + (f", and {number(one['waiting'], 'other run')} wait for it." if one["waiting"] else ".")
        for one in await locks.locks(desk)
        if one["run"] == run["id"]
    ]
    for one in await locks.awaited_by(desk, run["id"]):
        words = f'It waits for lock "{one["name"]}" since {at(one["since"])}'
        if one["run"] is None:
            told.append(f"{words}; it is free now.")
        else:
            told.append(
                f"{words}: run {one['run']} of agent {one['agent']} has held it since {at(one['taken_at'])}. "
                f"`wakeful why {one['run']}` explains that run."
            )
    return told


async def tell_circuit(desk: Desk, run: Shown) -> list[str]:
    """The circuit that a parked run waits for, and the time of the next probe."""
    if run["state"] != "parked" or run["parked_for"] is None:
        return []
    found = [
        one for one in await circuits.circuits(desk) if (one["app"], one["name"]) == (run["app"], run["parked_for"])
    ]
    if not found:
        return [f"Circuit {run['parked_for']} no longer exists; a worker resumes the run at its next check."]
    circuit = found[0]
    name, last = circuit["name"], f"The last error was {circuit['error']}."
    since, down_since = at(circuit["changed_at"]), at(circuit["opened_at"] or circuit["changed_at"])
    close = f"`wakeful circuits close {name}` closes it now."
    match circuit["state"]:
        case "open":
            again = f"One run probes it at {at(circuit['next_at'])}; all parked runs resume once it answers."
            return [f"Circuit {name} has been open since {down_since}. {last} {again} {close}"]
        case "probing":
            tried = f"run {circuit['probe']} has been probing it since {since}"
            return [f"Circuit {name} has been open since {down_since}, and {tried}. {last} {close}"]
        case _:
            back = f"{number(circuit['parked'], 'parked run')} resume a few at a time"
            return [f"Circuit {name} has been recovering since {since}: {back}, the next at {at(circuit['next_at'])}."]


async def tell_halts(desk: Desk, run: Shown, present: Microseconds) -> list[str]:
    """The halts that keep a due run from being claimed, or that a parked run waits for."""
    app, agent, due = run["app"], run["agent"], moment(run["due_at"])
    parked = run["state"] == "parked" and run["parked_for"] is None
    if agent.startswith(OWN_AGENTS) or not (
        parked or (run["state"] in {"ready", "waiting"} and due is not None and due <= present)
    ):
        return []
    found = [one for one in await halts.halts(desk, app=app) if one["agent"] in {None, agent}]
    return [tell_halt(one, app) for one in found if one["action"] is None or (parked and stops(one, run))]


def stops(halt: Shown, run: Shown) -> bool:
    """Whether a parked run waits for the halt of an action: its reason names the author and the note."""
    note = f": {halt['note']}" if halt["note"] else ""
    return bool(run["reason"] == f"halted by {halt['by']}{note}")


def tell_halt(halt: Shown, app: str) -> str:
    note = f" ({halt['note'].rstrip('.')})" if halt["note"] else ""
    since = f"has been halted since {at(halt['since'])} by {halt['by']}{note}"
    lift = f"`wakeful halt {halts.typed(halt)} --lift` lifts it."
    if halt["action"] is not None:
        return f"Action {halt['action']} {since}: none of its effects is called. {lift}"
    who = f"All of app {app}" if halt["agent"] is None else f"Agent {halt['agent']}"
    return f"{who} {since}: nothing of it is claimed, called or delivered. {lift}"


def tell_telling(run: Shown) -> list[str]:
    """The result of Wakeful's own run for a reminder."""
    if run["agent"] != "wakeful.remind":
        return []
    name, output = run["event"]["source"].rpartition("/")[2], run["output"]
    if isinstance(output, dict) and output.get("told") is False:
        return [f"It sent nothing, because reminder {name} was no longer needed: {output['because']}."]
    return [f"It sends reminder {name}: see `wakeful reminders show {name}`."]


async def whose_turn(desk: Desk, run: Shown) -> str | None:
    """The run that holds the state this run waits for, or None. Runs of an agent with state execute one at a time."""
    if run["state"] not in {"ready", "waiting"}:
        return None
    place = (run["app"], run["key"] or "")
    holders = [
        one["run"]
        for one in await desk.reads.rows(State, "list_states", run["agent"])
        if (one["app"], one["key"] or "") == place
    ]
    return next((holder for holder in holders if holder not in {None, run["id"]}), None)


async def tell_limits(desk: Desk, run: Shown, present: Microseconds) -> list[str]:
    """The pause or limit that keeps a due run from being claimed."""
    due = moment(run["due_at"])
    if run["state"] not in {"ready", "waiting"} or due is None or due > present:
        return []
    app, agent = run["app"], run["agent"]
    told = [
        tell_pause(one, app, agent)
        for one in await pauses.pauses(desk)
        if one["app"] == app and one["agent"] in {None, agent}
    ]
    told += tell_version(agent, run.get("awaits_code"))
    limits = await limits_of(desk.reads, app, agent)
    most = limits["concurrency"]
    if most is not None and limits["running"] >= most:
        told.append(
            f"It waits for a free slot: agent {agent} has {limits['running']} of {most} runs at once, in all processes together."
        )
    if limits["next_start_at"] is not None and run["started_at"] is None:
        told.append(
            f"It waits to start: the rate of agent {agent}, {limits['rate']}, is used up until {at(limits['next_start_at'])}."
        )
    return told


def tell_expired(run: Shown, present: Microseconds) -> list[str]:
    """A run that still waits although it has expired."""
    expires = moment(run["expires_at"])
    if run["state"] != "ready" or run["token"] or expires is None or expires > present:
        return []
    return [f"It expired at {at(run['expires_at'])}: it will not start, and is cancelled when its turn comes."]


def tell_pause(pause: Shown, app: str, agent: str) -> str:
    whole = pause["agent"] is None
    who = f"All of app {app}" if whole else f"Agent {agent}"
    note = f" ({pause['note'].rstrip('.')})" if pause["note"] else ""
    word = "all" if whole else agent
    if pause["paused"]:
        return (
            f"{who} has been paused since {at(pause['since'])} by {pause['by']}{note}: no run of it is claimed. "
            f"`wakeful resume {word}` resumes it."
        )
    return (
        f"{who} has been resuming from a pause since {at(pause['since'])}{note}, at most {pause['rate']} until the backlog "
        f"is done. `wakeful resume {word}` lifts that rate."
    )
