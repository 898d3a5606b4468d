"""The steps of a run, and its waits."""

from __future__ import annotations

from wakeful.clock import Microseconds, readable
from wakeful.model import FINAL_RUN_STATES
from wakeful.why.words import Shown, at, failure, listed, moment, number, under


def tell_steps(run: Shown) -> list[str]:
    done = [step["name"] for step in run["steps"] if step["state"] == "done"]
    told = []
    if done and run["state"] != "done":
        told.append(
            f"{number(len(done), 'step')} of the run {'is' if len(done) == 1 else 'are'} finished and will not run again: {listed(done)}."
        )
    for step in run["steps"]:
        if step["state"] == "retrying" and run["state"] in FINAL_RUN_STATES:
            told.append(
                f"Step {step['name']} had failed {number(step['tries'], 'time')}, with {failure(step['error'])}."
            )
        elif step["state"] == "retrying" and step["tries"] == 0:
            told.append(f"Step {step['name']} failed with {failure(step['error'])}; this did not count as a try.")
        elif step["state"] == "retrying":
            told.append(
                f"Step {step['name']} failed {number(step['tries'], 'time')}, with {failure(step['error'])}; "
                f"it is retried at {at(step['due_at'])}."
            )
        elif step["state"] == "failed" and step["tries"] == 0:
            told.append(f"Its wait {step['name']} ended without a result: {failure(step['error'])}.")
        elif step["state"] == "failed":
            told.append(
                f"Step {step['name']} failed permanently after {number(step['tries'], 'try')}: {failure(step['error'])}."
            )
        elif step["tries"] > 1:
            told.append(f"Step {step['name']} needed {step['tries']} tries.")
    return [*told, *(tell_decided(step["result"]) for step in run["steps"] if is_decided(step))]


def is_decided(step: Shown) -> bool:
    """Whether it is the record of a finished `run.decide`."""
    return step["state"] == "done" and step["key"].startswith("run.decide:") and isinstance(step["result"], dict)


def tell_decided(told: Shown) -> str:
    """What was decided, and by whom."""
    if told["answer"] is None:
        return f'The run could not decide "{told["question"]}": {told["why"]}.'
    who = {"rule": f"rule {told['rule']}", "model": f"model {told['model']}", "person": told["person"] or "a person"}
    sure = f", with confidence {told['confidence']:g}" if told["by"] == "model" else ""
    why_so = f" ({told['why']})" if told["by"] == "person" else ""
    return f'"{told["question"]}" was decided by {who[told["by"]]}{sure}: {told["answer"]}{why_so}.'


def tell_waits(run: Shown, present: Microseconds) -> list[str]:
    """What the run waits for, since when, until when, and what would end the wait."""
    waits = [step for step in run["steps"] if step["state"] == "waiting"]
    return [sentence for step in waits for sentence in (tell_wait(step, run["children"], present), *tell_misfit(step))]


def tell_wait(step: Shown, children: list[Shown], present: Microseconds) -> str:
    awaited, since = step["waits_for"], f"Since {at(step['started_at'])} the run"
    until = moment(step["due_at"]) or present
    left = f"{readable(until - present)} from now" if until > present else "and that time has passed"
    if "event" in awaited:
        event = awaited["event"]
        about = f" about {event['subject']}" if event["subject"] else ""
        where = under(event)
        option = f" --subject {event['subject']}" if event["subject"] else ""
        bring = f"`wakeful emit APP {event['type']}{option}` sends one."
        if source := event.get("source"):
            about, bring = f"{about} from {source}", f"Events of type {event['type']} from other sources do not count."
        return (
            f"{since} has waited for an event {event['type']}{about}{where}, until {at(step['due_at'])} at the latest, {left}; "
            f"then the wait ends with TimedOut. {bring}"
        )
    if "child" in awaited:
        state = next((f" and which is {one['state']}" for one in children if one["id"] == awaited["child"]), "")
        return (
            f"{since} has waited for run {awaited['child']} of agent {awaited['agent']}, which it called{state}, until "
            f"{at(step['due_at'])} at the latest, {left}. `wakeful why {awaited['child']}` explains that run."
        )
    if "question" in awaited:
        approval = awaited["approval"]
        asked = f"{since} has asked {awaited['to'] or 'people'}: {awaited['question'].rstrip('.')}"
        limit = f"It waits for an answer until {at(step['due_at'])} at the latest, {left}; then"
        if step["name"].startswith("approve "):
            return (
                f"{asked}. {limit} the effect is denied. Answer it with `wakeful approvals approve {approval}` or "
                f"`wakeful approvals deny {approval}`; `wakeful approvals show {approval}` shows what would happen."
            )
        return (
            f"{asked} {limit} the wait ends with TimedOut. Answer it with `wakeful approvals answer {approval} ANSWER`; "
            f"`wakeful approvals show {approval}` shows the expected answer."
        )
    return f"{since} has been asleep; it continues automatically at {at(step['due_at'])}, {left}."


def tell_misfit(step: Shown) -> list[str]:
    """An event that the wait could not evaluate."""
    misfit = step["waits_for"].get("misfit")
    if misfit is None:
        return []
    came = (
        f"Event {misfit['event']} arrived, but the condition could not be evaluated for it, which counts as no match: "
    )
    ask = "test in the condition first that the field exists: has(data.field) && …"
    return [f"{came}{misfit['reason']}. If it should match, correct it and emit it with a new id; if not, {ask}"]
