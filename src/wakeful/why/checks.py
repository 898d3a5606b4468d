"""why, for a heartbeat check: its run ends well even if the check was skipped, was quiet or failed, so the result is
told here.
"""

from __future__ import annotations

from wakeful.resources import checks
from wakeful.resources.desk import Desk
from wakeful.triggers.schedule import TYPE
from wakeful.why.words import Shown

WORDS = {
    "quiet": "Check {check} had nothing to report: {reason}.",
    "told": "Check {check} reported something new, which was sent.",
    "unchanged": "Check {check} reported the same as before, which was {reason}; it is not sent again.",
    "failed": "Check {check} failed with {reason}. It is retried at its next occurrence; {now} runs it now.",
    "skipped": "Check {check} was skipped: {reason}. {now} runs it now.",
}

LAST = {
    "quiet": "had nothing to report",
    "told": "reported something new, which was sent",
    "unchanged": "reported the same as before",
    "failed": "failed",
    "skipped": "was skipped",
}


async def tell_check(desk: Desk, schedule: Shown) -> list[str]:
    """The last result of the check that this schedule runs; empty for other schedules."""
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
    now = f"`wakeful heartbeat run {schedule['name']}` runs it now, `wakeful why {check['run']}` explains the last run"
    return [f"{told}: {check['error']}.{often} It is retried at its next occurrence; {now}."]


def tell_occurrence(run: Shown) -> list[str]:
    """The result of the check that this run executed; empty for other runs."""
    output, event = run.get("output"), run["event"]
    if event["type"] != TYPE or not isinstance(output, dict) or output.get("result") not in WORDS:
        return []
    name = f"{output.get('heartbeat')}/{output.get('check')}"
    if not str(event["source"]).endswith(f"/schedules/{name}"):
        return []
    now = f"`wakeful heartbeat run {name}`"
    return [WORDS[output["result"]].format(check=name, reason=output.get("reason"), now=now)]
