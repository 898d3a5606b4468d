"""The story of a delivery: its channel, its state, and what can be done."""

from __future__ import annotations

from collections import Counter

from wakeful.clock import Microseconds, readable
from wakeful.resources import alarms, deliveries, events, runs
from wakeful.resources.desk import Desk
from wakeful.why.story import Story, story_about
from wakeful.why.words import SHOWN_DELIVERIES, Shown, at, failure, moment, number, ordinal

DELIVERY_WORDS = ("delivered", "pending", "held", "unknown", "dead", "discarded")


async def why_delivery(desk: Desk, identifier: str) -> Story | None:
    delivery = await deliveries.find(desk, identifier)
    run = None if delivery is None else await runs.find(desk, delivery["run"])
    event = None if run is None else await events.find(desk, run["event"]["key"])
    if delivery is None or run is None or event is None:
        return None
    admissions = [one for one in event["admissions"] if one["agent"] == run["agent"]]
    story = tell_delivery(delivery, run, event, await desk.reads.time())
    story += await tell_alarms(desk, run["app"], [delivery])
    return story_about("delivery", delivery["id"], story, event=event, admissions=admissions, runs=[run])


async def tell_alarms(desk: Desk, app: str, deliveries: list[Shown]) -> list[str]:
    """The open alarms of the channels that these deliveries wait for."""
    channels = sorted({one["channel"] for one in deliveries if one["state"] == "pending"})
    if not channels:
        return []
    keys = {key for one in channels for key in (f"channel/{app}/{one}", f"delivery/{app}/{one}/late")}
    found = await alarms.alarms(desk, state="open")
    return [f"An alarm is open: {one['text']}." for one in found if one["key"] in keys]


def tell_deliveries(deliveries: list[Shown]) -> list[str]:
    """The number of deliveries in each state, and the errors of the failed ones."""
    counts = Counter(delivery["state"] for delivery in deliveries)
    if not counts:
        return []
    if set(counts) == {"held"}:
        are = "is" if len(deliveries) == 1 else "are"
        return [f"The run has {number(len(deliveries), 'delivery')}, which {are} held together with its output."]
    if set(counts) == {"discarded"}:
        were = "was" if len(deliveries) == 1 else "were"
        return [f"The run had {number(len(deliveries), 'delivery')}, which {were} discarded."]
    parts = [f"{counts[state]} {state}" for state in DELIVERY_WORDS if counts[state]]
    told = [f"The run has {number(len(deliveries), 'delivery')}: {', '.join(parts)}."]
    dead = [delivery for delivery in deliveries if delivery["state"] == "dead"]
    late = [delivery for delivery in deliveries if delivery["state"] == "pending" and delivery["error"]]
    told += [
        f"The delivery to {one['channel']} ({one['id']}) may have arrived. {what_to_find_out(one)}"
        for one in deliveries
        if one["state"] == "unknown"
    ][:SHOWN_DELIVERIES]
    told += [
        f"The delivery to {one['channel']} ({one['id']}) is dead{as_reason(one)}: {failure(one['error'])}. {what_to_do_with_it(one)}"
        for one in dead[:SHOWN_DELIVERIES]
    ]
    told += [
        f"The delivery to {one['channel']} ({one['id']}) failed {number(one['tries'], 'time')} with "
        f"{failure(one['error'])}; it is retried at {at(one['due_at'])}."
        for one in late[:SHOWN_DELIVERIES]
    ]
    more = len(dead[SHOWN_DELIVERIES:])
    if more:
        told.append(f"{more} more {'is' if more == 1 else 'are'} dead; `wakeful dead list` groups them by error.")
    return told


def tell_delivery(delivery: Shown, run: Shown, event: Shown, present: Microseconds) -> list[str]:
    subject = f" about {delivery['subject']}" if delivery["subject"] else ""
    story = [
        (
            f"Delivery {delivery['id']}{subject} goes to channel {delivery['channel']}. It comes from run {run['id']} of agent "
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
                f"It is held, because the output of its run did not pass its checks. `wakeful why {run}` explains why, and what can be done."
            ]
        case "delivered":
            return tell_delivered(delivery)
        case "unknown":
            reason = delivery["reason"] or "it may have arrived"
            return [
                f"It is unknown whether it arrived, after {tries}: {reason}. Its channel repeats nothing in doubt.",
                what_to_find_out(delivery),
            ]
        case "dead":
            settled = f"It is dead: given up at {at(delivery['settled_at'])} after {tries}{as_reason(delivery)}."
            return [
                f"{settled} The last error was {problem}.",
                f"It is not retried automatically. {what_to_do_with_it(delivery)}",
            ]
        case "discarded":
            return [f"It will not be sent: {delivery['reason'] or 'discarded'}, at {at(delivery['settled_at'])}."]
        case _ if delivery["tries"]:
            return [f"It failed {number(delivery['tries'], 'time')} with {problem}.", tell_when(delivery, present)]
        case _:
            again = [f"It was {delivery['reason']}."] if delivery["reason"] else []
            return [*again, tell_when(delivery, present)]


def tell_delivered(delivery: Shown) -> list[str]:
    """When it arrived and how that is known."""
    when, evidence = at(delivery["settled_at"]), delivery["evidence"] or {}
    seen = [f"The other side calls it {evidence['id']}."] if evidence.get("id") else []
    seen += [f"It is at {evidence['url']}."] if evidence.get("url") else []
    if delivery["reason"] and delivery["reason"].startswith(("found there", "confirmed by")):
        return [f"It is delivered, since {when}: {delivery['reason']}.", *seen]
    return [f"It is delivered: the channel accepted it at {when}, on the {ordinal(delivery['tries'])} try.", *seen]


def what_to_find_out(delivery: Shown) -> str:
    return (
        f"Look there, then `wakeful deliveries confirm {delivery['id']}` if it arrived; `wakeful deliveries replay {delivery['id']}` "
        f"sends it again, `wakeful deliveries discard {delivery['id']}` gives it up."
    )


def tell_when(delivery: Shown, present: Microseconds) -> str:
    due = moment(delivery["due_at"])
    if due is not None and due > present:
        return f"It is retried at {at(delivery['due_at'])}, {readable(due - present)} from now; the deliveries behind it wait."
    return (
        "It is due: a worker of its app delivers it, after the earlier deliveries to the same channel. "
        f"`wakeful deliveries --channel {delivery['channel']} --state pending` lists them."
    )


def what_to_do_with_it(delivery: Shown) -> str:
    return (
        f"Fix the cause, then retry it with `wakeful deliveries replay {delivery['id']}`; "
        f"`wakeful deliveries discard {delivery['id']}` discards it."
    )


def as_reason(delivery: Shown) -> str:
    return f" ({delivery['reason']})" if delivery["reason"] else ""
