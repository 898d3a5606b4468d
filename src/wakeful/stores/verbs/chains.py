"""Chains that come back to an agent. The rounds are counted in the transaction that would begin the next run, so the count holds over
all processes. Only events that close a loop, or are too deep in one, come here; other events cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wakeful.model import Admission, Arrival, Decision, Loop
from wakeful.policy.judgement import Judgement
from wakeful.stores.alarm import Alarm, about_broken_rule
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.held_admissions import became
from wakeful.stores.verbs.people import open_alarms

Place = tuple[str, str, str]  # app, chain, agent
New = tuple[str, Arrival]  # app, event


def judge_loops(now: int | None, arrivals: Sequence[New]) -> Transaction[tuple[dict[str, Arrival], bool]]:
    """1. Count, in order of the rows' keys. 2. Ask policy about each event, in order of arrival. 3. Denied events get no run;
    people are notified once for each chain. Runs of events that a person must agree to are held; rules with a count are left to
    `judge_counted`. Returns the changed events by key, and whether an alarm was opened.
    """
    coming: Counter[Place] = Counter()
    within: dict[Place, int] = {}
    for app, _, one, loop in _loops(arrivals):
        place = (app, loop.chain, one.agent)
        coming[place] += 1
        within[place] = loop.within
    counted = yield "count_rounds", [(now, *place, coming[place], within[place]) for place in sorted(coming)]
    rounds = {(row[0], row[1], row[2]): row[3] - coming[row[0], row[1], row[2]] for row in counted}
    judged: dict[str, dict[str, Judgement]] = {}
    stopped: dict[Place, tuple[Arrival, Decision, str | None]] = {}
    for app, arrival, one, loop in _loops(arrivals):
        place = (app, loop.chain, one.agent)
        rounds[place] += 1
        judgement: Judgement = loop.judge(rounds[place])
        decision = judgement.decision
        if decision.answer != "allow" or judgement.watched or judgement.counted:
            judged.setdefault(arrival.key, {})[one.agent] = judgement
        if decision.answer == "deny":
            stopped.setdefault(place, (arrival, decision, loop.owner))
    changed = {arrival.key: _judged(arrival, judged[arrival.key]) for _, arrival in arrivals if arrival.key in judged}
    if not stopped:
        return changed, False
    heard = yield "stop_chain", [(now, *place) for place in sorted(stopped)]
    news = {(row[0], row[1], row[2]) for row in heard}
    alarms = [
        alarm_of(place, *stopped[place]) for place in sorted(stopped) if place in news or stopped[place][1].broken
    ]
    if alarms:
        yield from open_alarms(now, alarms)
    return changed, bool(alarms)


def _loops(arrivals: Sequence[New]) -> list[tuple[str, Arrival, Admission, Loop]]:
    return [
        (app, arrival, one, one.loop) for app, arrival in arrivals for one in arrival.admissions if one.loop is not None
    ]


def _judged(arrival: Arrival, judged: dict[str, Judgement]) -> Arrival:
    """The event as policy has judged it. A copy, because the transaction may be retried."""
    decisions = list(arrival.decisions)
    admissions = []
    for one in arrival.admissions:
        judgement = judged.get(one.agent)
        if judgement is None:
            admissions.append(one)
            continue
        decision = judgement.decision
        decisions += [(one.agent, each) for each in judgement.watched]
        if judgement.counted and decision.answer != "deny":
            admissions.append(replace(one, judgement=judgement))
        elif decision.answer == "allow":
            admissions.append(one)
        else:
            admissions.append(became(one, decision, judgement.version))
            decisions.append((one.agent, decision))
    return replace(arrival, admissions=admissions, decisions=decisions)


def alarm_of(place: Place, arrival: Arrival, decision: Decision, owner: str | None) -> Alarm:
    """The alarm about a stopped loop: the first stopped event, the reason, and how to resume it."""
    app, _, agent = place
    if decision.broken:
        return about_broken_rule(app, decision)
    text = (
        f"agent {agent}: a loop was stopped at event {arrival.id}: {decision.reason}. To run the denied events: "
        f"`wakeful replay --events {arrival.type} --from 1h --agent {agent} --denied`"
    )
    return Alarm(app, f"loop/{app}/{agent}", text, agent, owner)
