"""Events that a wait's condition could not be evaluated for: the last one is stored with the wait. If the condition exceeded its budget,
the event may be the awaited one, so an alarm is opened too, in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wakeful.cel import Match
from wakeful.stores.alarm import Alarm, condition_alarm
from wakeful.stores.judging import Judge
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import open_alarms

# Whether an event matches a condition with its variables: (CEL, JSON or None, the event's envelope).
Matches = Judge[[str, str | None, str], Match]


DATA_OF_MISFIT = "; its data is "  # in a reason: the beginning of the event's data follows


Place = tuple[int, str]  # run and key of a wait
Noted = tuple[int, str]  # seq of an event, and the reason


@dataclass(slots=True)
class Misfits:
    """The last misfit of each wait, and the last one that exceeded the budget."""

    last: dict[Place, Noted] = field(default_factory=dict)
    exhausted: dict[Place, Noted] = field(default_factory=dict)

    def add(self, run: int, key: str, event: int, match: Match) -> None:
        self.last[run, key] = (event, match.reason)
        if match.exhausted:
            self.exhausted[run, key] = (event, match.reason)


def note_misfits(now: int | None, misfits: Misfits) -> Transaction[bool]:
    """Store misfits. Returns whether an alarm was opened. Waits and alarms are written in order of key, so that two transactions that
    bring events to the same waits cannot deadlock.
    """
    alarms = (yield from _alarms(misfits)) if misfits.exhausted else {}
    if misfits.last:
        yield "note_misfit", [(run, key, *noted) for (run, key), noted in sorted(misfits.last.items())]
    if alarms:
        yield from open_alarms(now, list(alarms.values()))
    return bool(alarms)


def _alarms(misfits: Misfits) -> Transaction[dict[str, Alarm]]:
    """One alarm for each agent, by key. An event that is already stored with the wait had its alarm then: a wait may be checked often."""
    alarms: dict[str, Alarm] = {}
    for (run, key), (event, reason) in sorted(misfits.exhausted.items()):
        for app, agent, identifier, taken, noted, came in (yield "wait_and_event", [(run, key, event)]):
            if taken is not None or noted == came:
                continue
            text = (
                f"event {came} did not end a wait of run {identifier} of agent {agent}, because "
                f"{reason.partition(DATA_OF_MISFIT)[0]}: see `wakeful why {identifier}`"
            )
            about = condition_alarm(app, agent)
            alarms[about] = Alarm(app, about, text, agent)
    return alarms
