"""feed: hands stored events to an agent that did not get them when they were accepted. The runs get the same identity as then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wakeful.model import Decision, Flow, HeldAdmission
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Audit, ByPerson, Others, Ready
from wakeful.stores.transaction import Transaction
from wakeful.stores.verbs.admit import NewRun, insert_runs
from wakeful.stores.verbs.entry import Entry
from wakeful.stores.verbs.held_admissions import NewHeld, hold_new_runs
from wakeful.stores.verbs.once import take_once

EventName = tuple[str, str]  # id and type


@dataclass(slots=True)
class FeedEvents(ByPerson[int]):
    """Hand stored events to an agent that did not get them. Returns how many runs began. `runs` is (the event's seq, the run's id);
    `denied` are events that policy does not allow, `held` those that a person must agree to; `flows` has the key and priority of an event's run, if the agent declares any.
    """

    app: str
    agent: str
    reason: str
    runs: list[tuple[int, str]]
    denied: list[tuple[int, Decision]] = field(default_factory=list)
    held: dict[int, tuple[EventName, HeldAdmission]] = field(default_factory=dict)
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

    def audit(self, result: int) -> Audit | None:
        return Audit("replay", self.app, self.agent, f"{result} events" + (f": {self.note}" if self.note else ""))

    def counted(self, result: int) -> int:
        return result


def feed_events(now: int | None, requests: Sequence[FeedEvents]) -> Transaction[list[int]]:
    """1. Admit the events whose payload is still stored; rows that come back are new to the agent. 2. Give each a run. 3. Mark unmatched
    events as accepted. 4. Record the denied events.
    """
    results: list[int] = []
    for request in requests:
        app, agent = request.app, request.agent
        there = yield "events_with_payload", [(seq,) for seq in sorted(seq for seq, _ in request.runs)]
        kept = {row[0] for row in there}
        runs = {seq: run for seq, run in sorted(request.runs) if seq in kept}
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
        yield from _hold(now, request, {seq: runs[seq] for seq in new})
        if request.denied:
            denied = [
                (seq, agent, "denied", None, f"{decision.rule}: {decision.reason}") for seq, decision in request.denied
            ]
            yield "insert_admission", denied
            decisions = [
                (now, app, seq, None, agent, decision.answer, decision.rule, decision.version, decision.reason, None)
                for seq, decision in request.denied
            ]
            yield "insert_decision", decisions
        results.append(len(new) - len(joined))
    return results


def _hold(now: int | None, request: FeedEvents, runs: Mapping[int, str]) -> Transaction[None]:
    """Hold the runs that a person must agree to, and store the decisions."""
    waiting = {seq: request.held[seq] for seq in sorted(runs) if seq in request.held}
    if not waiting:
        return
    app, agent = request.app, request.agent
    yield from hold_new_runs(
        now, [NewHeld(app, agent, runs[seq], *event, held) for seq, (event, held) in waiting.items()]
    )
    said = [(seq, held.decision) for seq, (_, held) in waiting.items()]
    yield (
        "insert_decision",
        [(now, app, seq, None, agent, one.answer, one.rule, one.version, one.reason, None) for seq, one in said],
    )
