"""Held runs and their shared alarm: it resolves with the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wakeful.stores.alarm import Alarm
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.dead import resolve_if_last
from wakeful.stores.verbs.people import resolve_alarms


class HeldRun(NamedTuple):
    """A run that is no longer held."""

    seq: int
    app: str
    agent: str
    id: str


def note_held(runs: Sequence[tuple[int, Alarm]]) -> Transaction[None]:
    """Store which alarm each run raised. The alarms are open and locked until the commit."""
    if runs:
        yield "note_alarm_of_run", sorted((seq, alarm.key) for seq, alarm in runs)


def resolve_held(now: int | None, runs: Sequence[HeldRun], ending: str | None = None) -> Transaction[None]:
    """After the runs were moved: resolve the alarms that no held run is left for. A process of an older version raised one alarm for
    each run, with the run's id in its key.
    """
    if not runs:
        return
    yield from resolve_alarms(now, [f"held/{run.app}/{run.agent}/{run.id}" for run in runs])
    raised = yield "alarms_of_runs", [(run.seq,) for run in runs]
    yield from resolve_if_last(now, [row[0] for row in raised], ending)
