"""Agents that fail repeatedly: dead letters in a row are counted, and the next success resets the count.

    dead ──► one more in a row ──► alarm_after: an alarm ──► pause_after: paused, and an alarm that cannot be muted
    done ──► the row is deleted, the alarm resolved     (only for agents that are known to have a row)

A run counts once, however often a person replays it. A worker that finishes a run well knows from its last claim, and from its own
dead letters, whether the agent has a row; for other agents this costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.clock import to_text
from wakeful.model import Claim
from wakeful.stores.alarm import Alarm, failing_alarm, paused_alarm
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import open_alarms, resolve_alarms

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import FinishRun


@dataclass(frozen=True, slots=True)
class Streak:
    """When an agent whose runs keep ending dead gets an alarm or is paused (None: never), and the error of this run."""

    alarm_after: int | None
    pause_after: int | None
    words: str
    owner: str | None = None


OPERATOR = "wakeful"


def note_dead(now: int | None, requests: Sequence[FinishRun]) -> Transaction[None]:
    """Count runs that just became dead letters. In order of agent, because the rows are locked."""
    replayed = {row[0] for row in (yield "replayed_runs", [(one.claim.seq,) for one in requests])}
    agents: dict[tuple[str, str], list[Streak]] = {}
    for one in requests:
        if one.streak is not None and one.claim.seq not in replayed:
            agents.setdefault((one.claim.app, one.claim.agent), []).append(one.streak)
    for place in sorted(agents):
        yield from _count(now, *place, agents[place])


def _count(now: int | None, app: str, agent: str, dead: Sequence[Streak]) -> Transaction[None]:
    last = dead[-1]
    count, since = (yield "count_failures", [(now, app, agent, len(dead))])[0]
    if last.alarm_after is not None and count >= last.alarm_after:
        text = (
            f"agent {agent}: {count} runs in a row became dead letters since {to_text(since)}, the last: {last.words}"
        )
        if last.pause_after is not None and count < last.pause_after:
            text += f". After {last.pause_after} the agent is paused"
        text += f". `wakeful dead --agent {agent}` lists them"
        yield from open_alarms(now, [Alarm(app, failing_alarm(app, agent), text, agent, last.owner)])
    if last.pause_after is not None and count >= last.pause_after:
        yield from _pause(now, app, agent, count, last)


def _pause(now: int | None, app: str, agent: str, count: int, streak: Streak) -> Transaction[None]:
    """Pause without first shutting the gate as a person's pause does: a claim in flight may still take a few runs, and these finish like
    all others in flight. An agent that is already paused stays as it is.
    """
    found = yield "find_pause", [(app, agent)]
    if found and found[0][0]:
        return
    note = f"{count} runs in a row became dead letters, the last: {streak.words}"
    yield "set_pause", [(now, app, agent, 1, None, OPERATOR, note)]
    yield "insert_operation", [(now, app, OPERATOR, "worker", 0, "pause", agent, note)]
    text = (
        f"agent {agent} is paused: {note}. No run of it is claimed until a person resumes it: `wakeful resume {agent}`"
    )
    yield from open_alarms(now, [Alarm(app, paused_alarm(app, agent), text, agent, streak.owner, loud=True)])


def went_well(now: int | None, claims: Sequence[Claim]) -> Transaction[None]:
    """Runs of failing agents succeeded: reset the count and resolve the alarm."""
    for app, agent in sorted({(claim.app, claim.agent) for claim in claims}):
        if (yield "forget_failures", [(app, agent)]):
            yield from resolve_alarms(now, [failing_alarm(app, agent)])


def resumed(now: int | None, app: str, agent: str) -> Transaction[None]:
    """A person resumed the agent: restart the count and resolve the alarm."""
    yield "restart_failures", [(app, agent)]
    yield from resolve_alarms(now, [paused_alarm(app, agent)])
