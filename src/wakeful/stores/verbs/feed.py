"""feed: hands stored events to an agent that did not get them when they were accepted. The runs get the same identity as then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from wakeful.model import Decision, Flow, HeldAdmission
from wakeful.policy.judgement import Judgement
from wakeful.stores.alarm import about_broken_rule
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson, Others, Ready
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.admit import NewRun, insert_runs
from wakeful.stores.verbs.entry import Entry
from wakeful.stores.verbs.held_admissions import NewHeld, asked_by_all, hold_new_runs, reason_of
from wakeful.stores.verbs.once import take_once
from wakeful.stores.verbs.people import open_alarms
from wakeful.stores.verbs.standing import Judged, beyond, note_uses, stored_mode


@dataclass(frozen=True, slots=True)
class JudgedEvent:
    """A stored event, and policy's judgement about it."""

    key: str
    id: str
    type: str
    judgement: Judgement


@dataclass(slots=True)
class FeedEvents(ByPerson[int]):
    """Hand stored events to an agent that did not get them. Returns how many runs began. `runs` is (the event's seq, the run's id);
    `denied` are events that policy denies, `judged` are those about which it says more than "allow"; `flows` has the key and
    priority of an event's run, if the agent declares any.
    """

    app: str
    agent: str
    reason: str
    runs: list[tuple[int, str]]
    denied: list[tuple[int, Judgement]] = field(default_factory=list)
    judged: dict[int, JudgedEvent] = field(default_factory=dict)
    flows: dict[int, Flow] = field(default_factory=dict)
    overrules: bool = False  # also hand over events that policy denied before

    def size(self) -> tuple[int, int]:
        return len(self.runs) + len(self.denied) - 1, 0

    def lock_keys(self, lanes: Lanes) -> None:
        for flow in self.flows.values():
            lanes.add(self.app, self.agent, flow)

    def readies(self) -> Ready | None:
        return Ready(self.app, frozenset({self.agent})) if self.runs else None

    def tell(self, result: int, others: Others) -> None:
        others.all = others.all or bool(result)

    def alarming(self) -> bool:
        return bool(self.judged) or any(one.decision.broken for _, one in self.denied)

    def audit(self, result: int) -> Audit | None:
        return Audit("replay", self.app, self.agent, f"{result} events" + (f": {self.note}" if self.note else ""))

    def counted(self, result: int) -> int:
        return result


def feed_events(now: int | None, requests: Sequence[FeedEvents]) -> Transaction[list[int]]:
    """1. Count for the rules with a count. 2. Admit the events whose payload is still stored; rows that come back are new to the agent.
    3. Give each a run, and hold those that a person must agree to. 4. Mark unmatched events as accepted. 5. Record the denied events.
    """
    results: list[int] = []
    for request in requests:
        app, agent = request.app, request.agent
        there = yield "events_with_payload", [(seq,) for seq in sorted(seq for seq, _ in request.runs)]
        kept = {row[0] for row in there}
        runs = {seq: run for seq, run in sorted(request.runs) if seq in kept}
        decided = yield from _decide(now, request, runs)
        denied = [(seq, one.decision) for seq, one in request.denied]
        denied += [(seq, one) for seq, one in decided.final.items() if one.answer == "deny"]
        runs = {seq: run for seq, run in runs.items() if seq not in dict(denied)}
        rows = [(seq, agent, run, request.reason) for seq, run in runs.items()]
        overruled = (yield "start_denied", rows) if request.overrules else []
        admitted = yield "start_admission", rows
        new = sorted(row[0] for row in (*overruled, *admitted))
        # The run does not expire: a person who feeds an expired event wants it handled anyway.
        plain = [seq for seq in new if seq not in request.flows]
        yield "insert_run", [(now, runs[seq], runs[seq], app, agent, seq, None) for seq in plain]
        placed = [Entry(app, agent, seq, runs[seq], request.flows[seq]) for seq in new if seq in request.flows]
        going = (yield from take_once(now, placed)) if placed else []
        yield from insert_runs(now, [NewRun([entry]) for entry in going])
        joined = [(one.event_seq, one.agent, one.run, one.reason) for one in placed if one.state == "joined"]
        if joined:
            yield "join_admission", joined
        yield "accept_unmatched", [(seq,) for seq in new]
        held = {seq: decided.final[seq] for seq in new if seq in decided.final}
        yield from _hold(now, request, runs, held)
        yield from note_uses(now, [one for seq, one in decided.counting.items() if seq in new and seq not in held])
        said = [*held.items(), *denied]
        said += [one for one in decided.watched if one[0] in new or one[0] in dict(denied)]
        said += [(seq, each) for seq, one in request.denied for each in one.watched]
        yield from _record(now, request, denied, said)
        results.append(len(new) - len(joined))
    return results


@dataclass(slots=True)
class _Decided:
    """What policy says of the events of a request, by seq. `final` has the answers other than "allow"; `counting` are the judgements with
    rules that must be counted.
    """

    final: dict[int, Decision] = field(default_factory=dict)
    watched: list[tuple[int, Decision]] = field(default_factory=list)
    counting: dict[int, Judged] = field(default_factory=dict)


def _decide(now: int | None, request: FeedEvents, runs: Mapping[int, str]) -> Transaction[_Decided]:
    found = _Decided()
    judged = {seq: request.judged[seq] for seq in sorted(runs) if seq in request.judged}
    for seq, one in judged.items():
        if one.judgement.counted:
            found.counting[seq] = Judged(request.app, one.judgement, f"{one.key}/{request.agent}")
    over = yield from beyond(now, found.counting)
    for seq, one in judged.items():
        judgement, beyond_count = one.judgement, over.get(seq, ())
        decision = asked_by_all(judgement, judgement.final(beyond_count), beyond_count)
        found.watched += [(seq, each) for each in judgement.watching(beyond_count)]
        if decision.answer != "allow":
            found.final[seq] = decision
    return found


def _hold(
    now: int | None, request: FeedEvents, runs: Mapping[int, str], held: Mapping[int, Decision]
) -> Transaction[None]:
    """Hold the runs that a person must agree to."""
    if held:
        judged = [(runs[seq], request.judged[seq], decision) for seq, decision in held.items()]
        yield from hold_new_runs(
            now,
            [
                NewHeld(
                    request.app,
                    request.agent,
                    run,
                    one.id,
                    one.type,
                    HeldAdmission(decision, version=one.judgement.version),
                )
                for run, one, decision in judged
            ],
        )


def _record(
    now: int | None, request: FeedEvents, denied: Sequence[tuple[int, Decision]], said: Sequence[tuple[int, Decision]]
) -> Transaction[None]:
    """Store the denied admissions and all decisions; a rule that broke raises its alarm."""
    app, agent = request.app, request.agent
    if denied:
        ordered = sorted(denied, key=itemgetter(0))
        yield "insert_admission", [(seq, agent, "denied", None, reason_of(decision)) for seq, decision in ordered]
    broken = {one.rule: about_broken_rule(app, one) for _, one in denied if one.broken}
    if broken:
        yield from open_alarms(now, list(broken.values()))
    if said:
        rows = [
            (now, app, seq, None, agent, one.answer, one.rule, one.version, one.reason, stored_mode(one))
            for seq, one in sorted(said, key=itemgetter(0))
        ]
        yield "insert_decision", rows
