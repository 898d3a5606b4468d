"""What else a run may wait for, or be held up by: limits, pauses, locks, circuits, a turn."""

from __future__ import annotations

from wakeful.clock import Microseconds
from wakeful.resources import alarms, circuits, locks, pauses
from wakeful.resources.desk import Desk
from wakeful.resources.states import State
from wakeful.stores.known import limits_of
from wakeful.why.version import tell_version
from wakeful.why.words import Shown, at, moment, number


async def tell_stuck(desk: Desk, run: Shown) -> list[str]:
    """Is it known to get nowhere?"""
    if run["state"] != "running":
        return []
    key = f"stuck/{run['app']}/{run['agent']}/{run['id']}"
    found = await alarms.alarms(desk, state="open")
    return [f"An alarm is open: {one['text']}." for one in found if one["key"] == key]


async def tell_locks(desk: Desk, run: Shown) -> list[str]:
    """What it has locked, and what it waits for."""
    if run["state"] != "running":
        return []
    told = [
        f'It holds lock "{one["name"]}" since {at(one["taken_at"])}'
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
                f"{words}: run {one['run']} of agent {one['agent']} has it since {at(one['taken_at'])}. "
                f"`wakeful why {one['run']}` tells what that one is doing."
            )
    return told


async def tell_circuit(desk: Desk, run: Shown) -> list[str]:
    """What a parked run waits for, and when somebody tries."""
    if run["state"] != "parked" or run["parked_for"] is None:
        return []
    found = [
        one for one in await circuits.circuits(desk) if (one["app"], one["name"]) == (run["app"], run["parked_for"])
    ]
    if not found:
        return [
            f"Nothing is known any more of circuit {run['parked_for']}; the next look of a worker lets it come back."
        ]
    circuit = found[0]
    name, last = circuit["name"], f"The last error was {circuit['error']}."
    since, down_since = at(circuit["changed_at"]), at(circuit["opened_at"] or circuit["changed_at"])
    close = f"`wakeful circuits close {name}` does not wait for that."
    match circuit["state"]:
        case "open":
            again = f"One run tries again at {at(circuit['next_at'])}, and all come back by themselves once it answers."
            return [f"Circuit {name} is open since {down_since}. {last} {again} {close}"]
        case "probing":
            tried = f"is being tried by run {circuit['probe']} since {since}"
            return [f"Circuit {name} is open since {down_since}, and {tried}. {last} {close}"]
        case _:
            back = f"{number(circuit['parked'], 'parked run')} come back a few at a time"
            return [f"Circuit {name} recovers since {since}: {back}, the next ones at {at(circuit['next_at'])}."]


def tell_telling(run: Shown) -> list[str]:
    """What a run of Wakeful's own made of a reminder."""
    if run["agent"] != "wakeful.remind":
        return []
    name, output = run["event"]["source"].rpartition("/")[2], run["output"]
    if isinstance(output, dict) and output.get("told") is False:
        return [f"It told nobody, because reminder {name} was not needed any more: {output['because']}."]
    return [f"It is there to tell reminder {name}: `wakeful reminders show {name}` has all of its story."]


async def whose_turn(desk: Desk, run: Shown) -> str | None:
    """The run that has the state which this one waits for, if it does. Runs of an agent with a state go one by one."""
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
    """What keeps a run that is due from being claimed: a pause, or a limit of its agent."""
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
            f"It waits for a free place: agent {agent} runs {limits['running']} of {most} at once, in all processes together."
        )
    if limits["next_start_at"] is not None and run["started_at"] is None:
        told.append(
            f"It waits for its start: the rate of agent {agent}, {limits['rate']}, is used up until {at(limits['next_start_at'])}."
        )
    return told


def tell_expired(run: Shown, present: Microseconds) -> list[str]:
    """A run that waits although it is too late for it."""
    expires = moment(run["expires_at"])
    if run["state"] != "ready" or run["token"] or expires is None or expires > present:
        return []
    return [f"It expired at {at(run['expires_at'])}: it never starts, and is cancelled when its turn comes."]


def tell_pause(pause: Shown, app: str, agent: str) -> str:
    whole = pause["agent"] is None
    who = f"All of app {app}" if whole else f"Agent {agent}"
    note = f" ({pause['note'].rstrip('.')})" if pause["note"] else ""
    word = "all" if whole else agent
    if pause["paused"]:
        return (
            f"{who} is paused since {at(pause['since'])} by {pause['by']}{note}: nothing of it is claimed. "
            f"`wakeful resume {word}` lets it go on."
        )
    return (
        f"{who} comes back from a pause since {at(pause['since'])}{note}, no faster than {pause['rate']} until what has "
        f"gathered is done. `wakeful resume {word}` lifts that rate."
    )
