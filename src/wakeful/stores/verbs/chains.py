"""Chains that come back to an agent. The rounds are counted in the transaction that would begin the next run, so the count holds over
all processes. Only events that close a loop, or are too deep in one, come here; other events cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wakeful.model import Admission, Arrival, Decision, Loop
from wakeful.stores.alarm import Alarm
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.people import open_alarms

Place = tuple[str, str, str]  # app, chain, agent
New = tuple[str, Arrival]  # app, event


def judge_loops(now: int | None, arrivals: Sequence[New]) -> Transaction[tuple[dict[str, Arrival], bool]]:
    """1. Count, in order of the rows' keys. 2. Ask policy about each event, in order of arrival. 3. Denied events get no run;
    people are notified once for each chain. Returns the changed events by key, and whether an alarm was opened.
    """
    coming: Counter[Place] = Counter()
    within: dict[Place, int] = {}
    for app, _, one, loop in _loops(arrivals):
        place = (app, loop.chain, one.agent)
        coming[place] += 1
        within[place] = loop.within
    counted = yield "count_rounds", [(now, *place, coming[place], within[place]) for place in sorted(coming)]
    rounds = {(row[0], row[1], row[2]): row[3] - coming[row[0], row[1], row[2]] for row in counted}
    denied: dict[str, dict[str, Decision]] = {}
    stopped: dict[Place, tuple[Arrival, Decision, str | None]] = {}
    for app, arrival, one, loop in _loops(arrivals):
        place = (app, loop.chain, one.agent)
        rounds[place] += 1
        decision = loop.judge(rounds[place])
        if decision.answer != "allow":
            denied.setdefault(arrival.key, {})[one.agent] = decision
            stopped.setdefault(place, (arrival, decision, loop.owner))
    if not denied:
        return {}, False
    heard = yield "stop_chain", [(now, *place) for place in sorted(stopped)]
    news = {(row[0], row[1], row[2]) for row in heard}
    alarms = [
        alarm_of(place, *stopped[place]) for place in sorted(stopped) if place in news or stopped[place][1].broken
    ]
    if alarms:
        yield from open_alarms(now, alarms)
    became = {arrival.key: _without(arrival, denied[arrival.key]) for _, arrival in arrivals if arrival.key in denied}
    return became, bool(alarms)


def _loops(arrivals: Sequence[New]) -> list[tuple[str, Arrival, Admission, Loop]]:
    return [
        (app, arrival, one, one.loop) for app, arrival in arrivals for one in arrival.admissions if one.loop is not None
    ]


def _without(arrival: Arrival, denied: dict[str, Decision]) -> Arrival:
    """The event without the denied runs. A copy, because the transaction may be retried."""
    admissions = [
        Admission(one.agent, "denied", reason=f"{decision.rule}: {decision.reason}")
        if (decision := denied.get(one.agent)) is not None
        else one
        for one in arrival.admissions
    ]
    return replace(arrival, admissions=admissions, decisions=[*arrival.decisions, *denied.items()])


def alarm_of(place: Place, arrival: Arrival, decision: Decision, owner: str | None) -> Alarm:
    """The alarm about a stopped loop: the first stopped event, the reason, and how to resume it."""
    app, _, agent = place
    if decision.broken:
        return Alarm(app, f"rule/{app}/{decision.rule}", f"rule {decision.rule} denies everything: {decision.reason}")
    text = (
        f"agent {agent}: a loop was stopped at event {arrival.id}: {decision.reason}. To run the denied events: "
        f"`wakeful replay --events {arrival.type} --from 1h --agent {agent} --denied`"
    )
    return Alarm(app, f"loop/{app}/{agent}", text, agent, owner)
