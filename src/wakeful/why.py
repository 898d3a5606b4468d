"""why: the whole story of an event, a run, a delivery, a schedule or a reminder, in plain sentences, including "did nothing, because".

Works on what a reader gives, the same objects that the HTTP API shows; so the story can never know more than they do.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import groupby
from typing import Any, Protocol

from pydantic_core import to_json

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.errors import NotFound, in_one_line
from wakeful.model import FINAL_RUN_STATES, ON_FAILURE
from wakeful.stores.tampered import held_for_tampering, how_to_go_on
from wakeful.triggers.zones import shown_time
from wakeful.why_beats import tell_beat
from wakeful.why_chain import tell_chain
from wakeful.why_schedule import tell_occurrence, why_schedule
from wakeful.why_source import tell_quarantined, tell_released_from, why_source
from wakeful.why_version import tell_version

Shown = dict[str, Any]

SHOWN_MESSAGE = 300
SHOWN_MESSAGES = 3
SHOWN_VALUE = 60
SHOWN_OUTPUT = 300
OUT_OF_BUDGET = "ran out of its budget"  # as cel.py says it
DID = {
    "replay": "replayed it",
    "again": "had it done again",
    "discard": "discarded it",
    "release": "let its output out as it is",
    "redeliver": "had a message of it tried again",
    "drop": "discarded a message of it",
    "cancel": "cancelled it",
    "answer": "answered its question",
}


DELIVERY_WORDS = ("delivered", "pending", "held", "dead", "discarded")


class Source(Protocol):
    """What the story is told from."""

    async def run(self, identifier: str, /) -> Shown | None: ...
    async def event(self, identifier: str, /) -> Shown | None: ...
    async def delivery(self, identifier: str, /) -> Shown | None: ...
    async def effect(self, identifier: str, /) -> Shown | None: ...
    async def alarm(self, key: str, /) -> Shown | None: ...
    async def approval(self, identifier: str, /) -> Shown | None: ...
    async def runs_of_alarm(self, key: str, /) -> list[str]: ...
    async def reminder(self, identifier: str, /) -> Shown | None: ...
    async def removed_run(self, identifier: str, /) -> Shown | None: ...
    async def later_runs(self, root: str, /) -> list[Shown]: ...
    async def states(self, agent: str | None = None, /) -> list[Shown]: ...
    async def checks(self) -> list[Shown]: ...
    async def locks_of(self, run: str, /) -> Shown: ...
    async def circuits(self) -> list[Shown]: ...
    async def processes(self) -> list[Shown]: ...
    async def pauses(self) -> list[Shown]: ...
    async def limits(self, app: str, agent: str, /) -> Shown: ...
    async def alarms(self, *, state: str | None = None) -> Shown: ...
    async def expectations(self) -> list[Shown]: ...
    async def time(self) -> Microseconds: ...
    async def schedule(self, name: str, app: str | None = None, /) -> Shown | None: ...
    async def occurrence(self, event: Shown, /) -> Shown | None: ...
    async def living_agents(self, app: str, /) -> set[str]: ...
    async def source(self, name: str, app: str | None = None, /) -> Shown | None: ...
    async def quarantined(self, identifier: str, /) -> Shown | None: ...


async def why(reader: Source, identifier: str) -> Shown | None:
    """What became of an event (by its id or key), a run, an effect, a delivery or an alarm (by its id or the beginning of it) or a
    schedule (by its name), and what can be done.

    `{"subject": {"kind", "id"}, "event": …, "admissions": […], "runs": […], "story": [sentences]}`, or None.
    """
    event, run = await find(reader, identifier)
    if run is not None and run["id"] != identifier:
        await refuse_two(reader, run, identifier)
    alive = [
        process for process in await reader.processes() if process["state"] == "alive" and process["lease_left"] > 0
    ]
    if event is None or (run is not None and run["id"] != identifier):
        # A whole name goes before the beginning of an id.
        told_schedule = await why_schedule(reader, identifier, alive)
        if told_schedule is not None:
            return told_schedule
    if event is None:
        # These tell a part of it by functions of this file.
        from wakeful.why_alarm import why_alarm
        from wakeful.why_effect import why_effect
        from wakeful.why_question import why_question
        from wakeful.why_reminder import why_reminder

        for tell in (
            why_delivery,
            why_effect,
            why_question,
            why_reminder,
            why_source,
            why_quarantined,
            why_removed,
            why_expected,
            why_alarm,
        ):
            if (told := await tell(reader, identifier)) is not None:
                return told
        return None
    if run is not None:
        runs = [run]
    else:
        ids = [admission["run"] for admission in event["admissions"] if admission["run"] is not None]
        runs = [found for one in ids if (found := await reader.run(one)) is not None]
    present = await reader.time()
    story = [*tell_event(event), *await tell_occurrence(reader, event)]
    of_agent = {one["agent"]: one for one in runs}
    for admission in event["admissions"]:
        told = of_agent.get(admission["agent"])
        if told is not None and run is None and joined_by_key(admission):
            story += [*tell_admission(admission), *tell_state(told, present, alive)]
        elif told is not None:
            turn = await whose_turn(reader, told)
            story += tell_run(told, present, alive, because=admission["reason"], turn=turn)
            story += tell_telling(told)
            story += await tell_limits(reader, told, present)
            story += tell_expired(told, present)
            story += await tell_stuck(reader, told)
            story += await tell_locks(reader, told)
            story += await tell_circuit(reader, told)
            story += await tell_alarms(reader, told["app"], told["deliveries"])
            story += tell_later(await reader.later_runs(told["id"]))
        elif run is None:
            story += tell_admission(admission)
            if admission["run"] is not None:
                story.append(tell_removed(admission["run"], admission["agent"]))
    subject = {"kind": "event", "id": event["id"]} if run is None else {"kind": "run", "id": run["id"]}
    return {"subject": subject, "event": event, "admissions": event["admissions"], "runs": runs, "story": story}


async def refuse_two(reader: Source, run: Shown, identifier: str) -> None:
    """The beginning of a run's id may be that of an effect's, too: NotFound with both."""
    other = await reader.effect(identifier)
    if other is not None:
        message = (
            f'"{identifier}" is the beginning of several ids. Which one? Run {run["id"]} of agent {run["agent"]}, or effect '
            f"{other['id']} ({other['action']})"
        )
        raise NotFound(message)


async def why_delivery(reader: Source, identifier: str) -> Shown | None:
    delivery = await reader.delivery(identifier)
    run = None if delivery is None else await reader.run(delivery["run"])
    event = None if run is None else await reader.event(run["event"]["key"])
    if delivery is None or run is None or event is None:
        return None
    admissions = [one for one in event["admissions"] if one["agent"] == run["agent"]]
    story = tell_delivery(delivery, run, event, await reader.time())
    story += await tell_alarms(reader, run["app"], [delivery])
    subject = {"kind": "delivery", "id": delivery["id"]}
    return {"subject": subject, "event": event, "admissions": admissions, "runs": [run], "story": story}


async def why_quarantined(reader: Source, identifier: str) -> Shown | None:
    """Something in quarantine, by the beginning of its key."""
    found = await reader.quarantined(identifier)
    return None if found is None else await why(reader, found["key"])


async def why_removed(reader: Source, identifier: str) -> Shown | None:
    """A run that was removed, as long as its event is still known."""
    known = await reader.removed_run(identifier)
    event = None if known is None else await reader.event(known["event"])
    if known is None or event is None:
        return None
    story = [*tell_event(event), tell_removed(identifier, known["agent"])]
    admissions = [one for one in event["admissions"] if one["agent"] == known["agent"]]
    subject = {"kind": "run", "id": identifier}
    return {"subject": subject, "event": event, "admissions": admissions, "runs": [], "story": story}


async def why_expected(reader: Source, name: str) -> Shown | None:
    """What is expected under this name, and how it stands."""
    found = [one for one in await reader.expectations() if one["name"] == name]
    if not found:
        return None
    story = [sentence for one in found for sentence in tell_expected(one)]
    subject = {"kind": "expectation", "id": name}
    return {"subject": subject, "event": None, "admissions": [], "runs": [], "story": story}


def tell_expected(one: Shown) -> list[str]:
    what = {"schedule": "Schedule", "source": "Source"}.get(one["kind"], "Expectation")
    told = [f"{what} {one['name']} of app {one['app']}: {one['what']}."]
    match one["state"]:
        case "absent":
            told.append(f"It is not met: {one['reason']}.")
        case "excused":
            told.append(f"Nothing is expected of it now: {one['reason']}.")
        case state:
            told.append(f"It is {state}: {one['reason']}.")
    told.append("It was never met." if one["met_at"] is None else f"It was last met at {at(one['met_at'])}.")
    if one["due_at"] is not None:
        told.append(f"Somebody hears of it if that is not so by {at(one['due_at'])}.")
    return told


def tell_removed(run: str, agent: str) -> str:
    return (
        f"Run {run} of agent {agent} was over and done, and was removed when its retention time was over, or by "
        "`wakeful archive --remove`: look for it in the archive, if there is one."
    )


async def tell_alarms(reader: Source, app: str, deliveries: list[Shown]) -> list[str]:
    """What is known to be wrong with the channels that messages wait for."""
    channels = sorted({one["channel"] for one in deliveries if one["state"] == "pending"})
    if not channels:
        return []
    keys = {key for one in channels for key in (f"channel/{app}/{one}", f"delivery/{app}/{one}/late")}
    found = (await reader.alarms(state="open"))["alarms"]
    return [f"An alarm is open: {one['text']}." for one in found if one["key"] in keys]


async def tell_stuck(reader: Source, run: Shown) -> list[str]:
    """Is it known to get nowhere?"""
    if run["state"] != "running":
        return []
    key = f"stuck/{run['app']}/{run['agent']}/{run['id']}"
    found = (await reader.alarms(state="open"))["alarms"]
    return [f"An alarm is open: {one['text']}." for one in found if one["key"] == key]


async def tell_locks(reader: Source, run: Shown) -> list[str]:
    """What it has locked, and what it waits for."""
    if run["state"] != "running":
        return []
    locks = await reader.locks_of(run["id"])
    told = [
        f'It holds lock "{one["name"]}" since {at(one["taken_at"])}'
        + (f", and {number(one['waiting'], 'other run')} wait for it." if one["waiting"] else ".")
        for one in locks["held"]
    ]
    for one in locks["waited_for"]:
        words = f'It waits for lock "{one["name"]}" since {at(one["since"])}'
        if one["run"] is None:
            told.append(f"{words}; it is free now.")
        else:
            told.append(
                f"{words}: run {one['run']} of agent {one['agent']} has it since {at(one['taken_at'])}. "
                f"`wakeful why {one['run']}` tells what that one is doing."
            )
    return told


async def tell_circuit(reader: Source, run: Shown) -> list[str]:
    """What a parked run waits for, and when somebody tries."""
    if run["state"] != "parked" or run["parked_for"] is None:
        return []
    found = [one for one in await reader.circuits() if (one["app"], one["name"]) == (run["app"], run["parked_for"])]
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


async def whose_turn(reader: Source, run: Shown) -> str | None:
    """The run that has the state which this one waits for, if it does. Runs of an agent with a state go one by one."""
    if run["state"] not in {"ready", "waiting"}:
        return None
    place = (run["app"], run["key"] or "")
    holders = [one["run"] for one in await reader.states(run["agent"]) if (one["app"], one["key"] or "") == place]
    return next((holder for holder in holders if holder not in {None, run["id"]}), None)


async def tell_limits(reader: Source, run: Shown, present: Microseconds) -> list[str]:
    """What keeps a run that is due from being claimed: a pause, or a limit of its agent."""
    due = moment(run["due_at"])
    if run["state"] not in {"ready", "waiting"} or due is None or due > present:
        return []
    app, agent = run["app"], run["agent"]
    told = [
        tell_pause(one, app, agent)
        for one in await reader.pauses()
        if one["app"] == app and one["agent"] in {None, agent}
    ]
    told += tell_version(agent, run.get("awaits_code"))
    limits = await reader.limits(app, agent)
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


async def find(reader: Source, identifier: str) -> tuple[Shown | None, Shown | None]:
    """The event, and the run if one was asked for. A whole id goes before the beginning of one."""
    event = await reader.event(identifier)
    try:
        run = await reader.run(identifier)
    except NotFound:  # the beginning of several runs' ids
        if event is None:
            raise
        run = None
    if run is not None and (event is None or run["id"] == identifier):
        return await reader.event(run["event"]["key"]), run
    return event, None


# the event


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
            "What it said was removed when its retention time was over. That it came is kept until its deduplication window "
            "is over, so that another delivery of it starts nothing."
        )
    cause = (event.get("envelope") or {}).get("causationid")
    if cause:
        story.append(f"It was caused by event {cause}.")
    story += tell_chain(event["app"], event.get("envelope") or {})
    if event["same_id"]:
        story.append(
            f"{number(event['same_id'], 'other event')} from elsewhere {'has' if event['same_id'] == 1 else 'have'} "
            "the same id; this is the newest. Ask by key for another."
        )
    if event["duplicates"]:
        story.append(
            f"It was delivered {number(event['duplicates'], 'more time')}; that started nothing: one event is one run per agent."
        )
    story += [
        f"At {at(conflict['seen_at'])} it came with other content under the same source and id. The first one stands; "
        "the other is kept as a conflict. Its sender should use a new id for a new fact."
        for conflict in event["conflicts"]
    ]
    story += [f"Run {one['run']} of agent {one['agent']} waited for it, and took it." for one in event["waited"]]
    if event["state"] == "expired":
        story.append(f"Nothing ran, because {event['reason']}.")
    elif event["state"] == "quarantined":
        story += tell_quarantined(event)
    elif event["state"] == "unmatched":
        story.append(f"Nothing ran, because {event['reason']}.")
        if not event["admissions"]:
            story.append('To handle such events, give an agent a trigger for them: on("' + event["type"] + '").')
    return story


def tell_admission(admission: Shown) -> list[str]:
    """What became of the event for an agent that has no run of it."""
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
                f"Agent {agent} did nothing, because it could not be told whether the event is for it: {reason}.",
                f"Ask for less in its where=, then hand the event over: {hand_over}.",
            ]
        case "denied":
            return [f"Agent {agent} did nothing, because policy denied it: {reason}."]
        case "superseded":
            return [f"Agent {agent} did nothing, because a newer event took this one's place: {reason}."]
        case "joined" if joined_by_key(admission):
            return [
                (
                    f"Agent {agent} started no run for it, because an earlier event has the same key ({reason}). "
                    f"`wakeful why {admission['run']}` tells the story of that run."
                )
            ]
        case "joined":
            return [f"Agent {agent} takes it together with others: {reason}."]
        case other:
            return [f"Agent {agent}: {other}, {reason}."]


def joined_by_key(admission: Shown) -> bool:
    """Did it join the run of an earlier event of the same key (`once=`)?"""
    return admission["state"] == "joined" and (admission["reason"] or "").startswith("once:")


# a run


def tell_run(
    run: Shown, present: Microseconds, alive: list[Shown], *, because: str | None = None, turn: str | None = None
) -> list[str]:
    story = [f"Agent {run['agent']} took it as run {run['id']}" + (f" ({because})." if because else ".")]
    story += tell_events(run)
    if run["parent"] is not None:
        story.append(f"It was called by run {run['parent']}: `wakeful why {run['parent']}` tells that one's story.")
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
    """The other events of a run that is over many."""
    others = [one["id"] for one in run["events"] if one["id"] != run["event"]["id"]]
    if len(run["events"]) < 2:
        return []
    return [f"It is over {len(run['events'])} events: {run['event']['id']}, and after it {listed(others)}."]


def tell_history(run: Shown) -> list[str]:
    """The attempts before the last one, and what people did in between."""
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
    did = DID[remedy["verb"]]
    edited = " with edited data" if remedy["data"] is not None and remedy["verb"] != "answer" else ""
    why_so = f": {remedy['note'].rstrip('.')}" if remedy["note"] else ""
    return f"{remedy['operator']} {did}{edited} at {at(remedy['done_at'])}{why_so}."


def tell_fork(remedy: Shown) -> str:
    """Where it came from."""
    about = remedy["data"]
    edited = [*(["data"] if "data" in about else []), *(f"result of {name}" for name in about.get("steps", {}))]
    words = f", with edited {listed(edited)}" if edited else ""
    why_so = f": {remedy['note'].rstrip('.')}" if remedy["note"] else ""
    return (
        f"{remedy['operator']} forked it from run {about['run']} at {at(remedy['done_at'])}{words}{why_so}. "
        f"It keeps what that run had finished before step {about['step']}."
    )


def tell_attempts(attempts: list[Shown]) -> list[str]:
    """Attempts that did not end well; equal ones in a row are told once."""
    told = []
    for (outcome, problem), group in groupby(attempts, key=lambda one: (one["outcome"], failure(one["error"]))):
        alike = list(group)
        count, last = len(alike), alike[-1]
        times = "" if count == 1 else f" {count} times, the last time"
        took = span(last["started_at"], last["ended_at"])
        match outcome:
            case "retried":
                told.append(f"It failed{times} at {at(last['ended_at'])} after {took}: {problem}.")
            case "crashed":
                told.append(f"Its process {last['process']} died with it{times} at about {at(last['ended_at'])}.")
            case "released":
                told.append(f"Its worker stopped and gave it back{times} at {at(last['ended_at'])}.")
            case "waited" if problem:
                told.append(
                    f"It was told to wait{times} at {at(last['ended_at'])}: {problem}. That used up no attempt."
                )
            case "waited":
                told.append(f"It was put away to wait{times} at {at(last['ended_at'])}.")
            case "held":
                told.append(f"It was put aside for a person{times} at {at(last['ended_at'])}.")
            case "parked":
                told.append(f"It was parked{times} at {at(last['ended_at'])}, which used up no attempt.")
            case "dead":
                told.append(f"It was given up{times} at {at(last['ended_at'])}: {problem}.")
            case other:
                told.append(f"An attempt ended as {other}{times} at {at(last['ended_at'])}.")
    return told


def tell_change(run: Shown) -> list[str]:
    """It met other code than it began with."""
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
            f"The new code never asked for {number(len(left), 'recorded step')}, so what the old code found there was not used: "
            f"{listed(left)}."
        )
    return told


def tell_steps(run: Shown) -> list[str]:
    done = [step["name"] for step in run["steps"] if step["state"] == "done"]
    told = []
    if done and run["state"] != "done":
        told.append(
            f"{number(len(done), 'step')} of it {'is' if len(done) == 1 else 'are'} finished and will not run again: {listed(done)}."
        )
    for step in run["steps"]:
        if step["state"] == "retrying" and run["state"] in FINAL_RUN_STATES:
            told.append(
                f"Step {step['name']} had failed {number(step['tries'], 'time')}, with {failure(step['error'])}."
            )
        elif step["state"] == "retrying" and step["tries"] == 0:
            told.append(f"Step {step['name']} failed with {failure(step['error'])}; that used up no try.")
        elif step["state"] == "retrying":
            told.append(
                f"Step {step['name']} failed {number(step['tries'], 'time')}, with {failure(step['error'])}; "
                f"it is tried again at {at(step['due_at'])}."
            )
        elif step["state"] == "failed" and step["tries"] == 0:
            told.append(f"Its wait {step['name']} ended without what it waited for: {failure(step['error'])}.")
        elif step["state"] == "failed":
            told.append(
                f"Step {step['name']} failed for good after {number(step['tries'], 'try')}: {failure(step['error'])}."
            )
        elif step["tries"] > 1:
            told.append(f"Step {step['name']} needed {step['tries']} tries.")
    return told


def tell_effects(run: Shown) -> list[str]:
    """What it did outside, and whose word that rests on."""
    confirmed = [
        effect["action"]
        for effect in own(run, "effects")
        if effect["state"] == "confirmed" and effect.get("undoes") is None and effect.get("follows") is None
    ]
    undone = [effect["action"] for effect in own(run, "effects") if effect["state"] == "undone"]
    told = []
    if undone:
        were = "was" if len(undone) == 1 else "were"
        told.append(f"{number(len(undone), 'effect')} of it {were} undone again: {listed(undone)}.")
    if confirmed:
        verb = "is" if len(confirmed) == 1 else "are"
        told.append(
            f"{number(len(confirmed), 'effect')} of it {verb} confirmed and will not be repeated: {listed(confirmed)}."
        )
    told += tell_effects_of_others(run)
    for effect in run["effects"]:
        whose = "" if effect["run"] == run["id"] else f" of run {effect['run']}"
        name = f"Effect {effect['action']} ({effect['id']}){whose}"
        if effect.get("follows") is not None:
            told.append(f"{name}: {(effect['reason'] or '').removeprefix('once: ')}.")
            continue
        if effect["settled_by"] is not None:
            told.append(f"{name}: {tell_word(effect)}.")
        match effect["state"]:
            case "held":
                told.append(f"{name} is held: {effect['reason'] or 'no reason was given'}.")
            case "intent" | "unknown":
                told.append(
                    f"Nobody knows yet whether {name[0].lower()}{name[1:]} was done; "
                    "that is found out before the handler runs again."
                )
            case "failed":
                told.append(f"{name} was refused: {failure(effect['error'])}.")
    return told


def own(run: Shown, what: str) -> list[Shown]:
    """Those of this run. A run that was had again shares effects and messages with its family."""
    return [one for one in run[what] if one["run"] == run["id"]]


def tell_effects_of_others(run: Shown) -> list[str]:
    """What other runs of its family did is found in the ledger, whichever of them comes to the same call."""
    others: dict[str, list[str]] = {}
    for effect in run["effects"]:
        if effect["run"] != run["id"] and effect["state"] == "confirmed":
            others.setdefault(effect["run"], []).append(effect["action"])
    return [
        f"{number(len(actions), 'effect')} {'is' if len(actions) == 1 else 'are'} confirmed by run {other} of the same event, "
        f"and found instead of repeated: {listed(actions)}."
        for other, actions in others.items()
    ]


def tell_output(run: Shown) -> list[str]:
    """What it put out, or would: its output, staged effects, messages and what became of them, or nothing by choice."""
    staged = [effect["action"] for effect in own(run, "effects") if effect["state"] == "staged"]
    told = []
    if run["output"] is not None and run["state"] in {"done", "held"}:
        returned = "It returned" if run["state"] == "done" else "What it returned is held:"
        told.append(f"{returned} {in_short(run['output'], SHOWN_OUTPUT)}.")
    if staged:
        verb = "waits" if len(staged) == 1 else "wait"
        until = "for its release" if run["state"] == "held" else "to be done"
        told.append(f"{number(len(staged), 'staged effect')} of it {verb} {until}: {listed(staged)}.")
    told += tell_beat(run)
    told += tell_messages(own(run, "deliveries"))
    if (run["outcome"] or {}).get("silent_by_choice"):
        told.append("It returned nothing, so there was nothing to deliver: it is silent by choice.")
    return told


def tell_messages(deliveries: list[Shown]) -> list[str]:
    """How many stand where, and of those in trouble what it is."""
    counts = Counter(delivery["state"] for delivery in deliveries)
    if not counts:
        return []
    if set(counts) == {"held"}:
        return [f"It would send {number(len(deliveries), 'message')}, held together with its output."]
    if set(counts) == {"discarded"}:
        were = "was" if len(deliveries) == 1 else "were"
        return [f"It had {number(len(deliveries), 'message')} to send, which {were} discarded."]
    parts = [f"{counts[state]} {state}" for state in DELIVERY_WORDS if counts[state]]
    verb = "had" if counts["discarded"] else "sent"
    told = [f"It {verb} {number(len(deliveries), 'message')}: {', '.join(parts)}."]
    dead = [delivery for delivery in deliveries if delivery["state"] == "dead"]
    late = [delivery for delivery in deliveries if delivery["state"] == "pending" and delivery["error"]]
    told += [
        f"The message to {one['channel']} ({one['id']}) is dead{as_reason(one)}: {failure(one['error'])}. {what_to_do_with_it(one)}"
        for one in dead[:SHOWN_MESSAGES]
    ]
    told += [
        f"The message to {one['channel']} ({one['id']}) failed {number(one['tries'], 'time')}, with "
        f"{failure(one['error'])}; it is tried again at {at(one['due_at'])}."
        for one in late[:SHOWN_MESSAGES]
    ]
    more = len(dead[SHOWN_MESSAGES:])
    if more:
        told.append(f"So {'is' if more == 1 else 'are'} {more} more; `wakeful dead list` groups them by what is wrong.")
    return told


def tell_word(effect: Shown) -> str:
    """What a person said of an effect. One that was called again after that has no reason left, once it is confirmed."""
    who = effect["settled_by"]
    note = f": {effect['note'].rstrip('.')}" if effect["note"] else ""
    when = f" at {at(effect['settled_at'])}" if effect["settled_at"] is not None else ""
    match effect["state"]:
        case "confirmed" if effect["reason"] is None:
            return f"{who} had it called again{note}. It was done{when}"
        case "confirmed":
            return f"{who} said{when} that it was done{note}"
        case "abandoned":
            return f"{who} said{when} that it shall not be done{note}"
        case _:
            return f"{who} had it called again{note}"


def tell_state(run: Shown, present: Microseconds, alive: list[Shown]) -> list[str]:
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


def tell_later(runs: list[Shown]) -> list[str]:
    """What came of it when it was done again, or forked."""
    return [
        f"It was {'forked' if one['forked'] else 'done again'} at {at(one['created_at'])} as run {one['id']}, which is "
        f"{one['state']}: `wakeful why {one['id']}` tells that one's story."
        for one in runs
    ]


def tell_order(run: Shown) -> str:
    """A run that waits for others of its key."""
    ahead = run["ahead"]
    first, many = ahead["run"], ahead["count"]
    of = f"key {run['key']}" if run["key"] else "its agent"
    before = f"run {first} is before it" if many == 1 else f"{many} are before it, run {first} first"
    words = f"It waits for its turn: runs of {of} go in order, and {before}, which is {ahead['state']}. "
    if ahead["state"] == "dead":
        return words + (
            f"That one keeps its place until a person acts: `wakeful replay {first}` lets it go on, "
            f"`wakeful dead discard {first}` lets those behind it pass."
        )
    return words + f"`wakeful why {first}` tells what that one is doing."


def tell_blocked(run: Shown) -> list[str]:
    """A dead letter that keeps its place in the order of its key."""
    behind = run["behind"]
    if behind is None:
        return []
    if not behind:
        return [f"It keeps its place: runs of key {run['key']} that come later wait until it is replayed or discarded."]
    wait = "waits" if behind == 1 else "wait"
    return [f"{number(behind, 'run')} of key {run['key']} {wait} behind it until then."]


def tell_stopping(run: Shown, present: Microseconds, alive: list[Shown]) -> list[str]:
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


def tell_waits(run: Shown, present: Microseconds) -> list[str]:
    """What it waits for: since when, until when, and who can bring it."""
    waits = [step for step in run["steps"] if step["state"] == "waiting"]
    return [sentence for step in waits for sentence in (tell_wait(step, run["children"], present), *tell_misfit(step))]


def tell_wait(step: Shown, children: list[Shown], present: Microseconds) -> str:
    awaited, since = step["waits_for"], f"Since {at(step['started_at'])} it"
    until = moment(step["due_at"]) or present
    left = f"{readable(until - present)} from now" if until > present else "and that time has come"
    if "event" in awaited:
        event = awaited["event"]
        about = f" about {event['subject']}" if event["subject"] else ""
        where = under(event)
        option = f" --subject {event['subject']}" if event["subject"] else ""
        bring = f"`wakeful emit APP {event['type']}{option}` brings one."
        if source := event.get("source"):
            about, bring = f"{about} from {source}", f"Events of type {event['type']} from other sources do not count."
        return (
            f"{since} waits for an event {event['type']}{about}{where}, until {at(step['due_at'])} at the latest, {left}; "
            f"then the wait ends with TimedOut. {bring}"
        )
    if "child" in awaited:
        state = next((f" and which is {one['state']}" for one in children if one["id"] == awaited["child"]), "")
        return (
            f"{since} waits for run {awaited['child']} of agent {awaited['agent']}, which it called{state}, until "
            f"{at(step['due_at'])} at the latest, {left}. `wakeful why {awaited['child']}` tells what that one is doing."
        )
    if "question" in awaited:
        return (
            f"{since} asks {awaited['to'] or 'people'}: {awaited['question'].rstrip('.')} It waits for an answer until "
            f"{at(step['due_at'])} at the latest, {left}; then the wait ends with TimedOut. Answer it with "
            f"`wakeful approvals answer {awaited['approval']} ANSWER`; `wakeful approvals show {awaited['approval']}` "
            "shows what is expected."
        )
    return f"{since} sleeps, until {at(step['due_at'])}, {left}. It goes on by itself then."


def tell_misfit(step: Shown) -> list[str]:
    """An event that may have been the one."""
    misfit = step["waits_for"].get("misfit")
    if misfit is None:
        return []
    came = f"Event {misfit['event']} came, but it could not be told whether that is the one, which counts as no: "
    ask = "let the condition ask first whether a field is there: has(data.field) && …"
    return [f"{came}{misfit['reason']}. If it was meant, emit it as it should be, under a new id; if not, {ask}"]


def under(event: Shown) -> str:
    """The condition under which an event is waited for, and what it names besides the event."""
    values = ", ".join(f"{name} = {in_short(value)}" for name, value in (event.get("values") or {}).items())
    where = f" where {event['where']}" if event["where"] else ""
    return where + (f" ({values})" if values else "")


def in_short(value: Any, most: int = SHOWN_VALUE) -> str:
    text = to_json(value, inf_nan_mode="strings").decode()
    return text if len(text) <= most else text[:most] + "…"


def tell_turn(run: Shown, turn: str) -> str:
    """A run of an agent with a state that waits for another one of them."""
    return (
        f"It waits for its turn: runs of agent {run['agent']} go one after the other, and run {turn} has the state. "
        f"`wakeful why {turn}` tells what that one is doing."
    )


def what_to_say(run: Shown) -> list[str]:
    held = [effect for effect in run["effects"] if effect["state"] == "held"]
    if held_for_tampering(run["reason"]):
        return [f"{how_to_go_on(run['id'])}."]
    if not held and run["outcome"] is None:
        return [
            (
                f"`wakeful replay {run['id']}` lets it go on with the code that there is now, "
                f"`wakeful cancel {run['id']}` ends it and undoes what it did."
            )
        ]
    if not held and run["outcome"] is not None:
        release = f"`wakeful release {run['id']}` lets it out as it is, "
        if run["outdated"]:
            release = (
                f"It cannot be let out as it is: the state of agent {run['agent']} was changed since it read that. "
            )
        return [
            (
                f"Look at what it would put out with `wakeful trace {run['id']}`. {release}"
                f"`wakeful replay {run['id']}` runs the handler again, `wakeful dead discard {run['id']}` ends it."
            )
        ]
    return [what_to_say_of(one["id"], called=one["tries"] > 0, read=one.get("undoes") is None) for one in held]


def what_to_say_of(effect: str, *, called: bool, read: bool) -> str:
    """`read`: the handler gets its result, so whoever confirms it must give that."""
    result = " With confirm, `--result JSON` gives what the call would have returned." if read else ""
    if not called:
        return (
            f"It was not called yet. `wakeful effects repeat {effect}` lets it be called, `wakeful effects abandon {effect}` "
            f"if it shall not be, `wakeful effects confirm {effect}` if somebody did it in another way.{result}"
        )
    return (
        f"Find out what became of it, and say so: `wakeful effects confirm {effect}` if it was done, "
        f"`wakeful effects repeat {effect}` if it was not, `wakeful effects abandon {effect}` if it shall not be.{result}"
    )


def who_takes_it(alive: list[Shown]) -> list[str]:
    if alive:
        return [
            f"{number(len(alive), 'worker')} {'is' if len(alive) == 1 else 'are'} alive on this store; one that has this agent takes it when it is due."
        ]
    return ["No worker is alive on this store: start one with `wakeful serve APP` or `wakeful worker APP`."]


# a delivery


def tell_delivery(delivery: Shown, run: Shown, event: Shown, present: Microseconds) -> list[str]:
    subject = f" about {delivery['subject']}" if delivery["subject"] else ""
    story = [
        (
            f"Delivery {delivery['id']} is a message{subject} to channel {delivery['channel']}, from run {run['id']} of agent "
            f"{run['agent']}, which handled event {event['id']} of type {event['type']}."
        )
    ]
    if delivery["state"] != "held":
        story.append(f"It was committed with its run at {at(delivery['committed_at'])}.")
    return [*story, *tell_delivery_state(delivery, present)]


def tell_delivery_state(delivery: Shown, present: Microseconds) -> list[str]:
    tries, problem, run = number(delivery["tries"], "try"), failure(delivery["error"]), delivery["run"]
    match delivery["state"]:
        case "held":
            return [
                f"It is held, because the output of its run did not pass. `wakeful why {run}` tells why, and what can be done."
            ]
        case "delivered":
            return [
                f"It is delivered: the channel took it at {at(delivery['settled_at'])}, at the {ordinal(delivery['tries'])} try."
            ]
        case "dead":
            settled = f"It is dead: given up at {at(delivery['settled_at'])} after {tries}{as_reason(delivery)}."
            return [
                f"{settled} The last error was {problem}.",
                f"Nothing more happens by itself. {what_to_do_with_it(delivery)}",
            ]
        case "discarded":
            return [f"It shall not be sent: {delivery['reason'] or 'discarded'}, at {at(delivery['settled_at'])}."]
        case _ if delivery["tries"]:
            return [f"It failed {number(delivery['tries'], 'time')}, with {problem}.", tell_when(delivery, present)]
        case _:
            again = [f"It was {delivery['reason']}."] if delivery["reason"] else []
            return [*again, tell_when(delivery, present)]


def tell_when(delivery: Shown, present: Microseconds) -> str:
    due = moment(delivery["due_at"])
    if due is not None and due > present:
        return (
            f"It is tried again at {at(delivery['due_at'])}, {readable(due - present)} from now; those behind it wait."
        )
    return (
        "It is due: a worker of its app that runs delivers it, after those that were committed before it to the same channel. "
        f"`wakeful deliveries --channel {delivery['channel']} --state pending` lists them."
    )


def what_to_do_with_it(delivery: Shown) -> str:
    return (
        f"Mend the cause, and have it tried again with `wakeful deliveries replay {delivery['id']}`; "
        f"`wakeful deliveries discard {delivery['id']}` gives it up for good."
    )


def as_reason(delivery: Shown) -> str:
    return f" ({delivery['reason']})" if delivery["reason"] else ""


# words


def failure(error: Shown | None) -> str:
    if not error:
        return ""
    first = in_one_line(str(error.get("message", ""))).rstrip(".")
    cut = first if len(first) <= SHOWN_MESSAGE else first[:SHOWN_MESSAGE] + "…"
    return f"{error.get('type')}: {cut}" if cut else str(error.get("type"))


def moment(text: str | None) -> Microseconds | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * SECOND)


def at(text: str | None) -> str:
    """To the second."""
    return shown_time(None if text is None else datetime.fromisoformat(text).replace(microsecond=0).isoformat())


def span(start: str | None, end: str | None) -> str:
    first, last = moment(start), moment(end)
    return "an unknown time" if first is None or last is None else readable(max(0, last - first))


def number(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def ordinal(count: int) -> str:
    ending = "th" if 10 <= count % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def listed(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
