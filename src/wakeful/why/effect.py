"""why, for an effect: the call, its run, the number of tries, and the source of its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.resources import effects, events, runs
from wakeful.resources.desk import Desk
from wakeful.values import arguments_of
from wakeful.why.effects import tell_word, what_to_say_of
from wakeful.why.story import Story, story_about
from wakeful.why.words import at, failure, in_short, number

Shown = Mapping[str, Any]
SHOWN_CALL = 300


async def why_effect(desk: Desk, identifier: str) -> Story | None:
    """The story of an effect, by its id or the beginning of it; None if there is none."""
    effect = await effects.find(desk, identifier)
    run = None if effect is None else await runs.find(desk, effect["run"])
    event = None if run is None else await events.find(desk, run["event"]["key"])
    if effect is None or run is None or event is None:
        return None
    admissions = [one for one in event["admissions"] if one["agent"] == run["agent"]]
    story = tell_effect(effect, run, event)
    return story_about("effect", effect["id"], story, event=event, admissions=admissions, runs=[run])


def tell_effect(effect: Shown, run: Shown, event: Shown) -> list[str]:
    called = f"{effect['action']}{arguments_of(effect['arguments'])}"
    called = called if len(called) <= SHOWN_CALL else called[:SHOWN_CALL] + "…"
    story = [
        (
            f"Effect {effect['id']} is {called}, requested at {at(effect['opened_at'])} by run {run['id']} of agent "
            f"{run['agent']}, which handled event {event['id']} of type {event['type']}."
        )
    ]
    if effect["executed"] is not None:
        story.append(f"A person edited its arguments: it is called with {arguments_of(effect['executed'])}.")
    if effect["approval"] is not None and effect["state"] != "waiting":
        story.append(f"A rule asked people about it: `wakeful approvals show {effect['approval']}` says who agreed.")
    if effect["undoes"] is not None:
        story.append(f"It undoes effect {effect['undoes']}.")
    if effect["once"] is not None and effect["follows"] is None:
        handed = f", and is sent to the service as operation {effect['operation']}" if effect["operation"] else ""
        story.append(f'It has key "{effect["once"]}"{handed}.')
    if effect["follows"] is not None:
        story.append(tell_following(effect))
    else:
        if effect["settled_by"] is not None:
            story.append(f"{tell_word(effect)}.")
        story += tell_effect_state(effect)
    story.append(f"`wakeful why {run['id']}` explains its run.")
    return story


def tell_following(effect: Shown) -> str:
    """An effect that makes no call, because another effect has its key."""
    result = f" It returned {in_short(effect['result'])}." if effect["state"] == "confirmed" else ""
    reason = (effect["reason"] or "no reason was given").removeprefix("once: ")
    return (
        f'It makes no call, because effect {effect["follows"]} has its key "{effect["once"]}": {reason}.{result} '
        f"`wakeful why {effect['follows']}` explains that effect."
    )


def tell_effect_state(effect: Shown) -> list[str]:
    problem, reason = failure(effect["error"]), effect["reason"] or "no reason was given"
    tries, when = number(effect["tries"], "call"), at(effect["settled_at"])
    match effect["state"]:
        case "confirmed":
            result = f", and returned {in_short(effect['result'])}" if effect["result"] is not None else ""
            return [f"It was confirmed at {when}, after {tries}{result}. It will not be repeated."]
        case "held":
            return [
                f"It is held for a person: {reason}.",
                what_to_say_of(effect["id"], called=effect["tries"] > 0, read=effect["undoes"] is None),
            ]
        case "intent" | "unknown":
            return ["Its outcome is unknown; it is settled before the handler of its run runs again."]
        case "retrying":
            return [f"It failed after {tries} with {problem}; it is called again when its run continues."]
        case "failed":
            return [f"It was refused after {tries}: {problem}."]
        case "waiting":
            shows = f"`wakeful approvals show {effect['approval']}` shows what would happen and who may answer."
            return [f"A rule asks about it ({reason}), so it waits for approval {effect['approval']}: {shows}"]
        case "staged":
            return ["It waits for its run: it is called once the run commits and its checks have passed."]
        case "undone":
            return [f"It was undone at {when}."]
        case "abandoned":
            return [f"It will not be done: {reason}."]
        case other:
            return [f"It is {other}: {reason}."]
