"""The effects of a run, and the commands that settle those that are held."""

from __future__ import annotations

from wakeful.stores.tampered import effect_to_settle, held_for_tampering, how_to_go_on
from wakeful.values import arguments_of
from wakeful.why.words import Shown, at, failure, listed, number, own


def tell_effects(run: Shown) -> list[str]:
    """The effects of this run, and the source of each state."""
    confirmed = [
        effect["action"]
        for effect in own(run, "effects")
        if effect["state"] == "confirmed" and effect.get("undoes") is None and effect.get("follows") is None
    ]
    undone = [effect["action"] for effect in own(run, "effects") if effect["state"] == "undone"]
    told = []
    if undone:
        were = "was" if len(undone) == 1 else "were"
        told.append(f"{number(len(undone), 'effect')} of the run {were} undone: {listed(undone)}.")
    if confirmed:
        verb = "is" if len(confirmed) == 1 else "are"
        told.append(
            f"{number(len(confirmed), 'effect')} of the run {verb} confirmed and will not be repeated: {listed(confirmed)}."
        )
    told += [
        f"Effect {effect['action']} ({effect['id']}) was called with {arguments_of(effect['executed'])}, as a person edited it."
        for effect in own(run, "effects")
        if effect["executed"] is not None and effect["tries"]
    ]
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
                    f"The outcome of {name[0].lower()}{name[1:]} is unknown; "
                    "it is settled before the handler runs again."
                )
            case "failed":
                told.append(f"{name} was refused: {failure(effect['error'])}.")
    return told


def tell_effects_of_others(run: Shown) -> list[str]:
    """Effects that other runs of the same family confirmed; this run reuses their results."""
    others: dict[str, list[str]] = {}
    for effect in run["effects"]:
        if effect["run"] != run["id"] and effect["state"] == "confirmed":
            others.setdefault(effect["run"], []).append(effect["action"])
    return [
        f"{number(len(actions), 'effect')} {'is' if len(actions) == 1 else 'are'} confirmed by run {other} of the same event "
        f"and reused instead of repeated: {listed(actions)}."
        for other, actions in others.items()
    ]


def tell_word(effect: Shown) -> str:
    """The decision of a person about an effect. One that was called again afterwards has no reason left once it is
    confirmed.
    """
    who = effect["settled_by"]
    note = f": {effect['note'].rstrip('.')}" if effect["note"] else ""
    when = f" at {at(effect['settled_at'])}" if effect["settled_at"] is not None else ""
    match effect["state"]:
        case "confirmed" if effect["reason"] is None:
            return f"{who} had it called again{note}. It was done{when}"
        case "confirmed":
            return f"{who} said{when} that it was done{note}"
        case "abandoned":
            return f"{who} said{when} that it must not be done{note}"
        case _:
            return f"{who} had it called again{note}"


def what_to_say(run: Shown) -> list[str]:
    held = [effect for effect in run["effects"] if effect["state"] == "held"]
    if held_for_tampering(run["reason"]):
        return [f"{how_to_go_on(run['id'], effect_to_settle(run['reason']))}."]
    if not held and run["outcome"] is None:
        return [
            (
                f"`wakeful replay {run['id']}` continues it with the current code, "
                f"`wakeful cancel {run['id']}` ends it and undoes its effects."
            )
        ]
    if not held and run["outcome"] is not None:
        release = f"`wakeful release {run['id']}` releases it unchanged, "
        if run["outdated"]:
            release = f"It cannot be released unchanged: the state of agent {run['agent']} has changed since the run read it. "
        return [
            (
                f"See the output with `wakeful trace {run['id']}`. {release}"
                f"`wakeful return {run['id']} --remark TEXT` runs the handler again with a remark, "
                f"`wakeful replay {run['id']}` without one, "
                f"`wakeful dead discard {run['id']}` ends it."
            )
        ]
    return [what_to_say_of(one["id"], called=one["tries"] > 0, read=one.get("undoes") is None) for one in held]


def what_to_say_of(effect: str, *, called: bool, read: bool) -> str:
    """`read`: the handler uses the result, so an operator who confirms the effect must supply it."""
    result = " With confirm, `--result JSON` supplies the result of the call." if read else ""
    if not called:
        return (
            f"It was not called yet. `wakeful effects repeat {effect}` calls it, `wakeful effects abandon {effect}` "
            f"if it must not be called, `wakeful effects confirm {effect}` if it was done in another way.{result}"
        )
    return (
        f"Find out whether it was done, then settle it: `wakeful effects confirm {effect}` if it was done, "
        f"`wakeful effects repeat {effect}` if it was not, `wakeful effects abandon {effect}` if it must not be done.{result}"
    )
