"""Events that become a run only if a person agrees: the run is stored as held, together with an approval and its alarm.

accepted ──► run held, approval open ─┬─ yes ──► run ready, in the order of its key
                                      └─ no ───► run denied
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic_core import from_json, to_json

from wakeful.model import Admission, Arrival, Decision, HeldAdmission, RunOutcome, digest
from wakeful.policy.asking import Ask
from wakeful.policy.judgement import Judgement
from wakeful.stores.alarm import Alarm, ask_alarm
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.asking import withdraw_approvals
from wakeful.stores.verbs.people import open_alarms
from wakeful.stores.verbs.standing import Judged, beyond, note_uses
from wakeful.stores.verbs.waits import Woken, tell_caller

KEY = "admission"  # in place of the step that waits for the answer
YES_OR_NO = '{"type":"boolean"}'  # the JSON schema of the answer
DENIED = to_json(RunOutcome("denied")).decode()


@dataclass(frozen=True, slots=True)
class NewHeld:
    """A new run that waits for a person, and the event that it is about."""

    app: str
    agent: str
    run: str
    event: str
    type: str
    held: HeldAdmission


def judge_counted(now: int | None, arrivals: Sequence[tuple[str, Arrival]]) -> Transaction[dict[str, Arrival]]:
    """New events that rules with a count are about, with their changed admissions, by the event's key. Those that begin are counted."""
    places = [
        (app, arrival, one) for app, arrival in arrivals for one in arrival.admissions if one.judgement is not None
    ]
    judged = {
        number: Judged(app, one.judgement, f"{arrival.key}/{one.agent}")
        for number, (app, arrival, one) in enumerate(places)
        if one.judgement is not None
    }
    over = yield from beyond(now, judged)
    changed: dict[str, Arrival] = {}
    begins = []
    for number, (_, arrival, one) in enumerate(places):
        judgement, beyond_count = judged[number].judgement, over.get(number, ())
        decision = asked_by_all(judgement, judgement.final(beyond_count), beyond_count)
        known = changed.get(arrival.key, arrival)
        watching = [each for each in judgement.watching(beyond_count) if each not in judgement.watched]
        if watching:
            known = replace(known, decisions=[*known.decisions, *((one.agent, each) for each in watching)])
            changed[arrival.key] = known
        if decision.answer == "allow":
            begins.append(judged[number])
            continue
        version = judgement.version
        admissions = [
            became(other, decision, version) if other.agent == one.agent else other for other in known.admissions
        ]
        changed[arrival.key] = replace(
            known, admissions=admissions, decisions=[*known.decisions, (one.agent, decision)]
        )
    yield from note_uses(now, begins)
    return changed


def asked_by_all(judgement: Judgement, decision: Decision, over: Sequence[str]) -> Decision:
    """The decision with the terms of every rule that asks, the counted ones that are beyond their count among them."""
    if decision.answer != "ask":
        return decision
    counted = [one.decision.asks for one in judgement.counted if one.rule in over]
    asks = {ask.rule: ask for each in (judgement.decision.asks, *counted) for ask in each}
    return replace(decision, asks=tuple(asks[rule] for rule in sorted(asks)))


def became(admission: Admission, decision: Decision, version: str | None) -> Admission:
    """The admission under a decision that is not "allow". `version` of the policy that decided."""
    if decision.answer == "deny":
        return Admission(admission.agent, "denied", reason=reason_of(decision))
    return as_held(admission, decision, version)


def as_held(admission: Admission, decision: Decision, version: str | None) -> Admission:
    """The admission whose run waits for a person. So it gathers with no other event, and replaces none."""
    flow = admission.flow
    if flow is not None:
        flow = replace(flow, overlap="queue", debounce=None, batch=None)
    return replace(admission, flow=flow, held=HeldAdmission(decision, admission.owner, version))


def hold_new_runs(now: int | None, runs: Sequence[NewHeld]) -> Transaction[bool]:
    """Hold runs that this transaction has inserted, and open their approvals: one for each rule that asks, without an end if a rule
    holds. Returns whether an alarm was opened.
    """
    by_run = {one.run: one for one in runs}
    rows = yield (
        "hold_new_run",
        [(one.run, reason_of(one.held.decision)) for one in sorted(runs, key=lambda one: one.run)],
    )
    opened: list[tuple[int, str, Ask, NewHeld]] = []
    for seq, run in sorted(rows):
        one = by_run[run]
        for number, ask in enumerate(asks_about(one.held)):
            opened.append((seq, KEY if number == 0 else f"{KEY} {ask.rule}", ask, one))
    yield from open_run_approvals(now, opened)
    return bool(opened)


def open_run_approvals(now: int | None, asked: Sequence[tuple[int, str, Ask, NewHeld]]) -> Transaction[None]:
    """Open approvals of runs, with their alarms: the seq of the run, the key of the approval, its terms and the run."""
    opened: list[tuple[object, ...]] = []
    alarms: list[Alarm] = []
    spans: dict[str, int] = {}
    for seq, key, ask, one in asked:
        approval = digest(one.run, key)
        question = f"May agent {one.agent} handle event {one.event} ({one.type})? {ask.rule}: {ask.reason}"
        terms = (*terms_of(ask, one), one.held.version)
        opened.append((now, approval, seq, key, one.app, one.agent, question, YES_OR_NO, *terms))
        alarm = ask_alarm(one.app, one.agent, approval)
        text = f"{question} (run {one.run}, which waits)"
        addressee = ", ".join(ask.by) or None
        alarms.append(Alarm(one.app, alarm, text, one.agent, one.held.owner, addressee=addressee))
        if ask.within:
            spans[alarm] = ask.within * 3 // 4
    if opened:
        yield "open_run_approval", opened
        yield from open_alarms(now, sorted(alarms, key=lambda alarm: alarm.key))
        reminded = [(now, alarm.key, spans[alarm.key]) for alarm in alarms if alarm.key in spans]
        if reminded:
            yield "remind_of_alarm", sorted(reminded, key=lambda row: row[1])


def asks_about(held: HeldAdmission) -> Sequence[Ask]:
    """The approvals that a held run needs. A rule that holds wants the yes of anybody, and waits without an end."""
    decision = held.decision
    return decision.asks or (Ask(decision.rule, decision.reason, within=0),)


def terms_of(ask: Ask, one: NewHeld) -> tuple[object, ...]:
    """Who may answer, and until when, as `open_run_approval` takes it."""
    first = ask.escalate[0][0] if ask.escalate else None
    ends = ask.within or None
    return (
        ask.rule,
        ", ".join(ask.by) or None,
        ends,
        digest("approve", one.run, ask.rule),
        ask.of,
        to_json(ask.by).decode() if ask.by else None,
        to_json(ask.kept_out).decode() if ask.kept_out else None,
        to_json(ask.escalate).decode() if ask.escalate else None,
        min((at for at in (first, ends) if at is not None), default=None),
    )


def reason_of(decision: Decision) -> str:
    return f"{decision.rule}: {decision.reason}"


def decide_run(now: int | None, seq: int, answer: str, by: str) -> Transaction[Woken]:
    """A person's answer to the question whether a run may begin: it begins when no rule wants a further yes. Returns the agents that may
    have work.
    """
    if from_json(answer) is True:
        return (yield from begin_runs(now, [seq]))
    return (yield from deny_run(now, seq, f"{by} said no"))


def begin_runs(now: int | None, seqs: Sequence[int]) -> Transaction[Woken]:
    """Begin the runs about which nothing is asked any more. Returns their agents."""
    if not seqs:
        return []
    return [(row[0], row[1]) for row in (yield "begin_held_run", [(now, seq) for seq in seqs])]


def deny_run(now: int | None, seq: int, reason: str) -> Transaction[Woken]:
    """Deny a run that waits to begin, and withdraw its open approvals."""
    woken: Woken = []
    yield from withdraw_approvals(now, [(seq, reason)])
    for _, _, run in (yield "deny_held_run", [(now, seq, reason, DENIED)]):
        woken += yield from tell_caller(now, seq, run, "denied", reason)
    return woken


def held_of(app: str, arrival: Arrival, runs: Mapping[str, str]) -> list[NewHeld]:
    """The runs of an event that wait for a person; `runs` has the run of each agent that got one."""
    return [
        NewHeld(app, one.agent, runs[one.agent], arrival.id, arrival.type, one.held)
        for one in arrival.admissions
        if one.held is not None and one.agent in runs
    ]
