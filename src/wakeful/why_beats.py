"""What `wakeful why` tells of a beat: a check that was not run, had nothing to say, or failed ends its run well all the same."""

from __future__ import annotations

from typing import Any

from wakeful.triggers.schedule import TYPE

WORDS = {
    "quiet": "Check {check} had nothing to say: {reason}.",
    "told": "Check {check} had something new to say, and it was sent.",
    "unchanged": "Check {check} said the same as before, which was {reason}: it is not told again.",
    "failed": "Check {check} failed, with {reason}. Its next beat is its next try; {now} tries it now.",
    "skipped": "Check {check} was skipped: {reason}. {now} runs it now.",
}


def tell_beat(run: dict[str, Any]) -> list[str]:
    """Empty for a run of anything else."""
    output, event = run.get("output"), run["event"]
    if event["type"] != TYPE or not isinstance(output, dict) or output.get("result") not in WORDS:
        return []
    name = f"{output.get('heartbeat')}/{output.get('check')}"
    if not str(event["source"]).endswith(f"/schedules/{name}"):
        return []
    now = f"`wakeful heartbeat run {name}`"
    return [WORDS[output["result"]].format(check=name, reason=output.get("reason"), now=now)]
