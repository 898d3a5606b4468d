"""The story of an event and of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.errors import NotFound
from wakeful.resources import effects, events, runs
from wakeful.resources.desk import Desk
from wakeful.resources.events import StoredEvent
from wakeful.resources.processes import living
from wakeful.resources.quarantine_reading import input_of
from wakeful.resources.run_views import LaterRun, RunDetail
from wakeful.why.chain import tell_chain
from wakeful.why.delivery import tell_alarms
from wakeful.why.held_up import (
    tell_circuit,
    tell_expired,
    tell_halts,
    tell_limits,
    tell_locks,
    tell_stuck,
    tell_telling,
    whose_turn,
)
from wakeful.why.run import tell_later, tell_run
from wakeful.why.schedule import tell_occurrence
from wakeful.why.source import tell_quarantined, tell_released_from
from wakeful.why.state import tell_state
from wakeful.why.story import Story, story_about
from wakeful.why.words import OUT_OF_BUDGET, Shown, at, number


async def find(desk: Desk, identifier: str) -> tuple[StoredEvent | None, RunDetail | None]:
    """The event, and the run if one was asked for. A whole id takes precedence over the beginning of another."""
    event = await events.find(desk, identifier)
    try:
        run = await runs.find(desk, identifier)
    except NotFound:  # the beginning of several runs' ids
        if event is None:
            raise
        run = None
    if run is not None and (event is None or run["id"] == identifier):
        return await events.find(desk, run["event"]["key"]), run
    return event, None


async def refuse_two(desk: Desk, run: Shown, identifier: str) -> None:
    """Raise NotFound if the beginning of a run's id is also that of an effect; the message names both."""
    other = await effects.find(desk, identifier)
    if other is not None:
        message = (
            f'"{identifier}" is the beginning of several ids. Which one? Run {run["id"]} of agent {run["agent"]}, or effect '
            f"{other['id']} ({other['action']})"
        )
        raise NotFound(message)


async def story_of(desk: Desk, event: Shown, run: Shown | None, alive: Sequence[Shown]) -> Story:
    """The story of an event with all of its runs; given a run, of that run only."""
    if run is not None:
        told_runs = [run]
    else:
        ids = [admission["run"] for admission in event["admissions"] if admission["run"] is not None]
        told_runs = [found for one in ids if (found := await runs.find(desk, one)) is not None]
    present = await desk.reads.time()
    story = [*tell_event(event), *await tell_occurrence(desk, event)]
    of_agent = {one["agent"]: one for one in told_runs}
    for admission in event["admissions"]:
        told = of_agent.get(admission["agent"])
        if told is not None and run is None and joined_by_key(admission):
            story += [*tell_admission(admission), *tell_state(told, present, alive)]
        elif told is not None:
            turn = await whose_turn(desk, told)
            story += tell_run(told, present, alive, because=admission["reason"], turn=turn)
            story += tell_telling(told)
            story += await tell_halts(desk, told, present)
            story += await tell_limits(desk, told, present)
            story += tell_expired(told, present)
            story += await tell_stuck(desk, told)
            story += await tell_locks(desk, told)
            story += await tell_circuit(desk, told)
            story += await tell_alarms(desk, told["app"], told["deliveries"])
            story += tell_later(await desk.reads.rows(LaterRun, "later_runs", told["id"]))
        elif run is None:
            story += tell_admission(admission)
            if admission["run"] is not None:
                story.append(tell_removed(admission["run"], admission["agent"]))
    stored: dict[str, Any] = {"event": event, "admissions": event["admissions"], "runs": told_runs}
    if run is None:
        return story_about("event", event["id"], story, **stored)
    return story_about("run", run["id"], story, **stored)


async def why_known(desk: Desk, identifier: str) -> Story | None:
    """The story of a run or an event by its whole id, also of a run that was removed."""
    event, run = await find(desk, identifier)
    if event is None:
        return await why_removed(desk, identifier)
    return await story_of(desk, event, run, await living(desk))


async def why_quarantined(desk: Desk, identifier: str) -> Story | None:
    """The story of a quarantined input, by the beginning of its key."""
    found = await input_of(desk, identifier)
    return None if found is None else await why_known(desk, found["key"])


async def why_removed(desk: Desk, identifier: str) -> Story | None:
    """The story of a removed run, as long as its event is still stored."""
    rows = await desk.reads.fetch("admission_of_run", identifier.partition(".")[0])
    event = await events.find(desk, rows[0][0]) if rows else None
    if event is None:
        return None
    agent = rows[0][1]
    story = [*tell_event(event), tell_removed(identifier, agent)]
    admissions = [one for one in event["admissions"] if one["agent"] == agent]
    return story_about("run", identifier, story, event=event, admissions=admissions)


def tell_event(event: Shown) -> list[str]:
    subject = f" about {event['subject']}" if event["subject"] else ""
    story = [
        (
            f"Event {event['id']} of type {event['type']}{subject} came from {event['source']} "
            f"at {at(event['accepted_at'])} and was stored."
        )
    ]
    story += tell_released_from(event)
    if event.get("payload_removed"):
        story.append(
            "Its payload was removed at the end of its retention time. Its id is kept until its deduplication window "
            "ends, so that a repeated delivery starts nothing."
        )
    cause = (event.get("envelope") or {}).get("causationid")
    if cause:
        story.append(f"It was caused by event {cause}.")
    story += tell_chain(event["app"], event.get("envelope") or {})
    if event["same_id"]:
        story.append(
            f"{number(event['same_id'], 'other event')} from other sources {'has' if event['same_id'] == 1 else 'have'} "
            "the same id; this is the newest. Use a key to see another."
        )
    if event["duplicates"]:
        story.append(
            f"It was delivered {number(event['duplicates'], 'more time')}, which started nothing: each agent runs once per event."
        )
    story += [
        f"At {at(conflict['seen_at'])} it arrived again with different content. The first one counts; "
        "the other is stored as a conflict. The sender must use a new id for a new event."
        for conflict in event["conflicts"]
    ]
    story += [f"Run {one['run']} of agent {one['agent']} waited for it and received it." for one in event["waited"]]
    if event["state"] == "expired":
        story.append(f"Nothing ran, because {event['reason']}.")
    elif event["state"] == "quarantined":
        story += tell_quarantined(event)
    elif event["state"] == "unmatched":
        story.append(f"Nothing ran, because {event['reason']}.")
        if not event["admissions"]:
            story.append('To handle such events, add a trigger to an agent: on("' + event["type"] + '").')
    return story


def tell_admission(admission: Shown) -> list[str]:
    """The result of the event for an agent that has no run of it."""
    agent, reason = admission["agent"], admission["reason"] or "no reason was given"
    match admission["state"]:
        case "skipped" if reason.startswith("overlap="):
            return [f"Agent {agent} did nothing, because it was still busy with an earlier event ({reason})."]
        case "started":
            return [f"Agent {agent} took it."]
        case "skipped":
            return [f"Agent {agent} did nothing, because its condition was not met: {reason}."]
        case "expired":
            return [f"Agent {agent} did nothing, because the event {reason}."]
        case "denied" if OUT_OF_BUDGET in reason:
            hand_over = f"`wakeful replay --events TYPE --from TIME --agent {agent} --denied`"
            return [
                f"Agent {agent} did nothing, because its condition could not be evaluated: {reason}.",
                f"Simplify its where=, then replay the event: {hand_over}.",
            ]
        case "denied":
            return [f"Agent {agent} did nothing, because policy denied it: {reason}."]
        case "superseded":
            return [f"Agent {agent} did nothing, because a newer event replaced this one: {reason}."]
        case "joined" if joined_by_key(admission):
            return [
                (
                    f"Agent {agent} started no run for it, because an earlier event has the same key ({reason}). "
                    f"`wakeful why {admission['run']}` explains that run."
                )
            ]
        case "joined":
            return [f"Agent {agent} takes it together with others: {reason}."]
        case other:
            return [f"Agent {agent}: {other}, {reason}."]


def joined_by_key(admission: Shown) -> bool:
    """Whether the event joined the run of an earlier event with the same key (`once=`)."""
    return admission["state"] == "joined" and (admission["reason"] or "").startswith("once:")


def tell_removed(run: str, agent: str) -> str:
    return (
        f"Run {run} of agent {agent} finished and was removed at the end of its retention time or by "
        "`wakeful archive --remove`: look for it in the archive, if one exists."
    )
