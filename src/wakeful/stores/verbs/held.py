"""Held runs and the alarm that they share: with the last of them it is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wakeful.stores.alarm import Alarm
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.dead import resolve_if_last
from wakeful.stores.verbs.people import resolve_alarms


class HeldRun(NamedTuple):
    """A run that is held no longer."""

    seq: int
    app: str
    agent: str
    id: str


def note_held(runs: Sequence[tuple[int, Alarm]]) -> Transaction[None]:
    """Which alarm each of these runs raised. The alarms are open by now, and locked until the commit."""
    if runs:
        yield "note_alarm_of_run", sorted((seq, alarm.key) for seq, alarm in runs)


def resolve_held(now: int | None, runs: Sequence[HeldRun], ending: str | None = None) -> Transaction[None]:
    """After the runs were moved: alarms of which no run is held any more are over. A process of an older version raised one
    for each run, by the run's id.
    """
    if not runs:
        return
    yield from resolve_alarms(now, [f"held/{run.app}/{run.agent}/{run.id}" for run in runs])
    raised = yield "alarms_of_runs", [(run.seq,) for run in runs]
    yield from resolve_if_last(now, [row[0] for row in raised], ending)
