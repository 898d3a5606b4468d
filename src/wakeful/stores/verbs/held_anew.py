"""Runs that are held at admission, judged anew once another policy is in force. Their events were judged before the transaction, by one
version of the policy.

    another version is in force now ──► PolicyMoved: nothing is written, the caller judges again
    no rule asks any more ────────────► the run is ready, and its approvals are withdrawn
    a rule denies ────────────────────► the run is denied
    rules ask ────────────────────────► an approval stays, with its votes, if its rule asks on the same terms; others are withdrawn, and the
                                        rules without a yes ask anew. If enough people have said yes already, the run is ready
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic_core import from_json

from wakeful.clock import Microseconds
from wakeful.errors import PolicyMoved
from wakeful.model import ApprovalState, Decision, HeldAdmission
from wakeful.policy.approvers import Person
from wakeful.policy.asking import Ask
from wakeful.policy.judgement import Judgement
from wakeful.stores.alarm import about_broken_rule, ask_alarm
from wakeful.stores.lanes import Lanes
from wakeful.stores.request import Others, Ready, Request, stands_for
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.asking import tell_answered
from wakeful.stores.verbs.held_admissions import (
    KEY,
    NewHeld,
    asked_by_all,
    asks_about,
    begin_runs,
    deny_run,
    open_run_approvals,
    reason_of,
)
from wakeful.stores.verbs.people import open_alarms, resolve_alarms
from wakeful.stores.verbs.persons import people_from
from wakeful.stores.verbs.standing import Judged, beyond, note_uses, stored_mode
from wakeful.stores.verbs.votes import YES, as_strict, who_agreed

NOT_NEEDED = "the policy has changed, and this approval is not needed any more"
NOT_ASKED = "the policy has changed, and no rule asks any more"


class HeldRun(NamedTuple):
    """A run that waits to begin, and its event: a row of `held_runs_to_judge`."""

    seq: int
    run: str
    agent: str
    event_seq: int
    event: str
    type: str
    key: str
    envelope: str  # '' once its payload was removed


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run that waits to begin, and policy's judgement about its event."""

    held: HeldRun
    owner: str | None
    judgement: Judgement


@dataclass(slots=True)
class JudgeHeld(Request[None]):
    """Judge runs that wait to begin anew, all by this version of the policy. PolicyMoved if another one is in force. Runs that were answered,
    or judged by this version, meanwhile are left as they are.
    """

    app: str
    process: str
    version: str
    runs: list[JudgedRun]
    woken: list[tuple[str, str]] = field(default_factory=list)

    fenced_by = stands_for("process")
    gate = stands_for("app")

    def size(self) -> tuple[int, int]:
        return len(self.runs) - 1, 0

    def lock_keys(self, lanes: Lanes) -> None:
        lanes.named.update(one.held.run for one in self.runs)

    def readies(self) -> Ready | None:
        return Ready(self.app, frozenset(one.held.agent for one in self.runs))

    def tell(self, _: None, others: Others) -> None:
        for app, agent in self.woken:
            others.hear(app, agent)

    def alarming(self) -> bool:
        return True


class Asked(NamedTuple):
    """An approval of a run: a row of `lock_approvals_of_held`."""

    run_seq: int
    id: str
    key: str
    rule: str
    state: ApprovalState
    answer: str | None
    asked_at: Microseconds
    due_at: Microseconds | None
    digest: str | None
    needed: int
    approvers: str | None
    kept_out: str | None
    escalations: str | None
    policy: str | None


def judge_held(now: int | None, requests: Sequence[JudgeHeld]) -> Transaction[list[PolicyMoved | None]]:
    """On PostgreSQL these transactions pass the gate of their app: no policy is applied meanwhile."""
    rows = yield "policy_in_force", [(app,) for app in sorted({one.app for one in requests})]
    in_force = dict(rows)
    results: list[PolicyMoved | None] = []
    for request in requests:
        version = in_force.get(request.app)
        if version == request.version:
            yield from _judge(now, request)
            results.append(None)
        else:
            results.append(PolicyMoved(request.app, version))
    return results


def _judge(now: int | None, request: JudgeHeld) -> Transaction[None]:
    request.woken = []  # the transaction may be retried
    approvals: dict[int, list[Asked]] = {}
    given = sorted(one.held.seq for one in request.runs)
    for row in (yield "lock_approvals_of_held", [(seq,) for seq in given]):
        approvals.setdefault(row[0], []).append(Asked(*row))
    runs = {one.held.seq: one for one in request.runs if _waits(approvals.get(one.held.seq, ()), request.version)}
    if not runs:
        return
    judged = {
        seq: Judged(request.app, one.judgement, f"{one.held.key}/{one.held.agent}") for seq, one in sorted(runs.items())
    }
    over = yield from beyond(now, {seq: one for seq, one in judged.items() if one.judgement.counted})
    decisions = {
        seq: asked_by_all(one.judgement, one.judgement.final(over.get(seq, ())), over.get(seq, ()))
        for seq, one in judged.items()
    }
    asking = {seq: _sorted_out(request, runs[seq], one, approvals[seq]) for seq, one in decisions.items() if asks(one)}
    yield from _withdraw(now, request, decisions, approvals, asking)
    allowed = [seq for seq, one in decisions.items() if one.answer == "allow"]
    agreed = yield from _ask(now, request, decisions, asking)
    for seq, decision in decisions.items():
        if decision.answer == "deny":
            request.woken += yield from deny_run(now, seq, reason_of(decision))
    request.woken += yield from begin_runs(now, sorted((*allowed, *agreed)))
    yield from note_uses(now, [judged[seq] for seq in allowed])  # as at admission: what people agreed to is not counted
    watched = {seq: one.judgement.watching(over.get(seq, ())) for seq, one in judged.items()}
    opened = {seq for seq, one in asking.items() if one.opened}
    yield from _record(now, request, runs, decisions, watched, opened)


def asks(decision: Decision) -> bool:
    """Whether a person decides. At admission every answer between allow and deny means that."""
    return decision.answer not in {"allow", "deny"}


def _waits(approvals: Sequence[Asked], version: str) -> bool:
    """Whether the run waits to begin, judged by another version. The approvals are locked: an open one means that the run is held."""
    return any(one.state == "open" and one.policy != version for one in approvals)


@dataclass(slots=True)
class _SortedOut:
    """The approvals of a run whose rules ask by now."""

    held: NewHeld
    kept: list[Asked] = field(default_factory=list)  # open, and asked on the same terms
    opened: list[tuple[str, Ask]] = field(default_factory=list)  # to be asked: the key of each approval


def _sorted_out(request: JudgeHeld, one: JudgedRun, decision: Decision, approvals: Sequence[Asked]) -> _SortedOut:
    run = one.held
    held = HeldAdmission(decision, one.owner, request.version)
    found = _SortedOut(NewHeld(request.app, run.agent, run.run, run.event, run.type, held))
    for ask in asks_about(held):
        mine = [each for each in approvals if each.rule == ask.rule]
        if any(
            each.state == "answered"
            and each.answer == YES
            and as_strict(ask, each.needed, each.approvers, each.kept_out)
            for each in mine
        ):
            continue
        same = next((each for each in mine if each.state == "open" and _is_same(ask, each)), None)
        if same is not None:
            found.kept.append(same)
        else:
            number = len(approvals) + len(
                found.opened
            )  # a new one each time: what people said to an earlier one stays there
            found.opened.append((f"{KEY} {ask.rule} {number}", ask))
    return found


def _is_same(ask: Ask, asked: Asked) -> bool:
    """Whether an open approval has the terms of its rule. An escalation may have happened already."""
    ends = ask.within or None
    if asked.needed != ask.of or ends != (None if asked.due_at is None else asked.due_at - asked.asked_at):
        return False
    if sorted(from_json(asked.kept_out or "[]")) != sorted(ask.kept_out):
        return False
    by, left = from_json(asked.approvers or "[]"), from_json(asked.escalations or "[]")
    steps = [[after, list(names)] for after, names in ask.escalate]
    for done in range(len(steps) + 1):
        wider = [*ask.by, *(name for _, names in ask.escalate[:done] for name in names)] if ask.by else []
        if list(dict.fromkeys(wider)) == by and steps[done:] == left:
            return True
    return False


def _withdraw(
    now: int | None,
    request: JudgeHeld,
    decisions: Mapping[int, Decision],
    approvals: Mapping[int, Sequence[Asked]],
    asking: Mapping[int, _SortedOut],
) -> Transaction[None]:
    """Withdraw the approvals that are not needed any more. Those of denied runs are withdrawn with the run."""
    gone: dict[str, list[Asked]] = {}
    for seq, decision in decisions.items():
        if decision.answer != "deny":
            kept = {each.id for each in asking[seq].kept} if seq in asking else set()
            over = [each for each in approvals[seq] if each.state == "open" and each.id not in kept]
            gone.setdefault(NOT_NEEDED if seq in asking else NOT_ASKED, []).extend(over)
    agents = {one.held.seq: one.held.agent for one in request.runs}
    for reason, some in sorted(gone.items()):
        if some:
            yield "withdraw_approval", sorted((now, one.id, reason) for one in some)
            yield from resolve_alarms(
                now, [ask_alarm(request.app, agents[one.run_seq], one.id) for one in some], reason
            )


def _ask(
    now: int | None, request: JudgeHeld, decisions: Mapping[int, Decision], asking: Mapping[int, _SortedOut]
) -> Transaction[list[int]]:
    """Ask what is to be asked anew. Returns the runs that wait for no answer: enough people have said yes."""
    if not asking:
        return []
    answered = yield from _answered(now, request, asking)
    yield "hold_anew", [(seq, reason_of(decisions[seq])) for seq in sorted(asking)]
    yield "note_judged_anew", [(seq, request.version) for seq in sorted(asking)]
    opened = [(seq, key, ask, one.held) for seq, one in sorted(asking.items()) for key, ask in one.opened]
    yield from open_run_approvals(now, opened)
    return [seq for seq, one in asking.items() if not one.opened and all(each.id in answered for each in one.kept)]


def _answered(now: int | None, request: JudgeHeld, asking: Mapping[int, _SortedOut]) -> Transaction[set[str]]:
    """The approvals that stay and to which enough people have said yes: the last vote came before this judgement."""
    kept = {each.id: (one.held.agent, each) for one in asking.values() for each in one.kept}
    votes: dict[str, list[Row]] = {}
    for row in (yield "votes_of", [(one,) for one in sorted(kept)]) if kept else ():
        votes.setdefault(row[-1], []).append(row)
    several = any(kept[one][1].needed > 1 for one in votes)
    people = people_from((yield "people_of_app", [(request.app,)])) if several else {}
    agreed = {one: _names(kept[one][1], said, people) for one, said in sorted(votes.items())}
    enough = {one: ", ".join(names) for one, names in agreed.items() if len(names) >= kept[one][1].needed}
    if enough:
        yield "answer_approval", [(now, one, YES, names, None) for one, names in enough.items()]
    for one, names in enough.items():
        yield from tell_answered(now, request.app, kept[one][0], one, names, YES)
    return set(enough)


def _names(asked: Asked, votes: Sequence[Row], people: Mapping[str, Person]) -> list[str]:
    return who_agreed(votes, asked.digest or "", asked.needed, from_json(asked.approvers or "[]"), people)


def _record(
    now: int | None,
    request: JudgeHeld,
    runs: Mapping[int, JudgedRun],
    decisions: Mapping[int, Decision],
    watched: Mapping[int, Sequence[Decision]],
    opened: Collection[int],
) -> Transaction[None]:
    """Store each decision that changed something, and those of rules that only watch; a rule that broke raises its alarm."""
    rows = []
    for seq, decision in sorted(decisions.items()):
        said = [*watched[seq], *([decision] if decision.answer == "deny" or seq in opened else [])]
        held = runs[seq].held
        rows += [
            (
                now,
                request.app,
                held.event_seq,
                seq,
                held.agent,
                one.answer,
                one.rule,
                one.version,
                one.reason,
                stored_mode(one),
            )
            for one in said
        ]
    if rows:
        yield "insert_decision", rows
    broken = {one.rule: about_broken_rule(request.app, one) for one in decisions.values() if one.broken}
    if broken:
        yield from open_alarms(now, [broken[rule] for rule in sorted(broken)])
