"""What `wakeful why` tells of an occurrence: a check that was not run, had nothing to say, or failed ends its run well all the same."""

from __future__ import annotations

from wakeful.resources import checks
from wakeful.resources.desk import Desk
from wakeful.triggers.schedule import TYPE
from wakeful.why.words import Shown

WORDS = {
    "quiet": "Check {check} had nothing to say: {reason}.",
    "told": "Check {check} had something new to say, and it was sent.",
    "unchanged": "Check {check} said the same as before, which was {reason}: it is not told again.",
    "failed": "Check {check} failed, with {reason}. Its next occurrence is its next try; {now} tries it now.",
    "skipped": "Check {check} was skipped: {reason}. {now} runs it now.",
}

LAST = {
    "quiet": "had nothing to say",
    "told": "had something new to say, and it was sent",
    "unchanged": "said the same as before",
    "failed": "failed",
    "skipped": "was skipped",
}


async def tell_check(desk: Desk, schedule: Shown) -> list[str]:
    """What is remembered of a check, by its schedule: its runs end well even where it failed. Empty for another schedule."""
    if schedule["origin"] != "heartbeat":
        return []
    own = (schedule["app"], schedule["name"])
    check = next((one for one in await checks.checks(desk) if (one["app"], one["name"]) == own), None)
    if check is None or check["result"] is None:
        return ["The check has not run yet."]
    told = f"The check last ran at {check['last_at']} and {LAST.get(check['result'], check['result'])}"
    failures = check["failures"]
    if not failures:
        return [f"{told}."]
    often = "" if failures == 1 else f" It has failed {failures} times in a row."
    now = f"`wakeful heartbeat run {schedule['name']}` tries it now, `wakeful why {check['run']}` tells of the last one"
    return [f"{told}: {check['error']}.{often} Its next occurrence is its next try; {now}."]


def tell_occurrence(run: Shown) -> list[str]:
    """Empty for a run of anything else."""
    output, event = run.get("output"), run["event"]
    if event["type"] != TYPE or not isinstance(output, dict) or output.get("result") not in WORDS:
        return []
    name = f"{output.get('heartbeat')}/{output.get('check')}"
    if not str(event["source"]).endswith(f"/schedules/{name}"):
        return []
    now = f"`wakeful heartbeat run {name}`"
    return [WORDS[output["result"]].format(check=name, reason=output.get("reason"), now=now)]
