"""Approvals of effects: an effect that a rule asks about waits for people, who approve exactly one call.

    judged: ask ──► effect waiting + approval open ─┬─ enough people say yes ──► judged once more ──► intent
                    + a step that waits             ├─ one says no, or no answer in time ───────► abandoned
                                                    └─ edited ──► a worker checks it ──► asked anew, or reopened with a note

A yes is a row: of one effect, one rule and one digest. It serves until its effect ends or its time is over; each rule that asks wants a
yes of its own. A person who repeats an effect that a rule holds gives such a yes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.errors import ClaimLost
from wakeful.model import Decision, Effect, Step, digest
from wakeful.policy.approvers import Person, is_kept_out, members
from wakeful.policy.asking import USUAL, Ask, digest_of_what
from wakeful.stores.alarm import Alarm, ask_alarm
from wakeful.stores.request import Actor, OfRun
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.followers import tell_followers
from wakeful.stores.verbs.people import open_alarms, resolve_alarms
from wakeful.stores.verbs.persons import people_from
from wakeful.stores.verbs.refusal import lost
from wakeful.stores.verbs.standing import Judged
from wakeful.stores.verbs.votes import Terms, as_strict, may_not_vote
from wakeful.stores.verbs.waits import step_row

if TYPE_CHECKING:
    from wakeful.stores.verbs.effects import OpenEffect, SaveEffect

MOST_ASKS = 5  # of one run: an agent that asks more often needs another rule
YES_OR_NO = '{"type":"boolean"}'  # the JSON schema of the answer
YES, NO = "true", "false"
ASKS = frozenset({"ask", "hold"})
Votes = Mapping[str, Sequence[Row]]  # by approval
WITHDRAWN = "Withdrawn"  # the error of a step whose approval was withdrawn


@dataclass(slots=True)
class EffectQuestion:
    """The approval of an effect, in case its rule asks: made before the transaction."""

    ask: Ask
    id: str
    step: Step  # waits for the answer
    question: str
    digest: str
    arguments: str  # JSON, by parameter, as people see them
    alarm: Alarm
    held: bool = False  # an earlier call may have been done: the effect is held, and nothing is asked


@dataclass(frozen=True, slots=True)
class AwaitsApproval:
    """The effect is stored as waiting for this approval; `key` is the step that waits for the answer."""

    decision: Decision
    approval: str
    key: str


@dataclass(slots=True)
class AbandonEffect(OfRun[None]):
    """An effect that waits for an approval is not done: a person said no, no answer came in time, or the handler no longer asks for
    it. Its open approvals are withdrawn.
    """

    effect: Effect
    reason: str
    by: str  # the person, or what ended it
    error: str | None = None  # what the handler gets

    def alarming(self) -> bool:
        return True


@dataclass(slots=True)
class SettleEdit(OfRun[Step]):
    """A worker has looked at edited arguments. If they fit, the effect is called with them, earlier votes are void, and the editor's yes
    counts for them; otherwise the approval is open again, with a note. The result is the step that waits, as it is stored.

    A repeated request changes nothing: later answers of people stand.
    """

    effect: Effect
    step: Step
    approval: str
    editor: str
    proved: bool = False
    said: str | None = None  # the answer with the edited arguments, as it was read
    note: str | None = None  # why they do not fit
    executed: str | None = None
    arguments: str | None = None  # as people see them
    digest: str | None = None
    question: str | None = None
    kept_out: str | None = None  # JSON: people who may not answer about the new arguments
    enough: bool = False  # the editor's yes is all that is needed
    alarm: Alarm | None = None

    def alarming(self) -> bool:
        return True


def consented(
    now: int | None,
    requests: Mapping[int, OpenEffect | SaveEffect],
    judged: Mapping[int, Judged],
    decisions: Mapping[int, object],
    over: Mapping[int, Sequence[str]],
) -> Transaction[dict[int, Decision]]:
    """The decisions of effects that a rule asks about or holds, with the answers of people that say yes."""
    asked = {
        number: one
        for number, one in decisions.items()
        if isinstance(one, Decision) and one.answer in ASKS and number in requests
    }
    if not asked:
        return {}
    yeses = yield from _yeses(now, [requests[number] for number in sorted(asked)])
    counts = dict((yield "count_asks", [(seq,) for seq in sorted({requests[one].claim.seq for one in asked})]))
    decided = {
        number: _covered(
            requests[number], judged[number], one, over.get(number, ()), yeses.get(requests[number].effect.id, {})
        )
        for number, one in asked.items()
    }
    beyond = []
    for number, found in decided.items():
        request = requests[number]
        if found.answer == "ask" and asks_people(request, found.rule):
            seq = request.claim.seq
            if counts.get(seq, 0) >= MOST_ASKS:
                beyond.append(number)
            counts[seq] = counts.get(seq, 0) + 1
    kept = yield from still_asked({number: (requests[number], decided[number]) for number in beyond})
    for number in beyond:
        if number not in kept:  # an approval that is open already is not asked once more
            reason = (
                f"{decided[number].reason}; the run has asked {MOST_ASKS} times, which is the most that a run may ask"
            )
            decided[number] = replace(decided[number], answer="deny", reason=reason)
    return decided


def asks_people(request: OpenEffect | SaveEffect, rule: str) -> bool:
    """Whether an approval is opened if this rule asks. Otherwise the effect is held."""
    question = request.questions.get(rule)
    return question is not None and not question.held


class _Yes(NamedTuple):
    """A yes of people: a row of `yeses_for_effect`."""

    effect: str
    rule: str
    bound_to: str
    by: str
    answer: str
    needed: int
    approvers: str | None
    kept_out: str | None
    approval: str
    repeated: int  # 1: given by repeating the effect
    present: Microseconds


def _yeses(now: int | None, requests: Sequence[OpenEffect | SaveEffect]) -> Transaction[dict[str, dict[str, str]]]:
    """By effect and rule: who said yes to exactly what would happen, on terms as strict as those of the policy in force."""
    by_id = {one.effect.id: one for one in requests}
    rows = yield "yeses_for_effect", [(now, one.effect.id) for one in requests]
    given = [one for one in (_Yes(*row) for row in rows) if one.answer == YES and _is_bound_to(one, by_id[one.effect])]
    votes = yield from _votes(sorted({one.approval for one in given if one.repeated or one.needed > 1}))
    people: dict[str, Mapping[str, Person]] = {}
    for app in sorted({by_id[one.effect].claim.app for one in given if one.repeated and _is_proved(one, votes)}):
        people[app] = people_from((yield "people_of_app", [(app,)]))
    found: dict[str, dict[str, str]] = {}
    for one in given:
        request = by_id[one.effect]
        question = request.questions.get(one.rule)
        if question is not None and one.repeated:
            if not _may_repeat(question.ask, one, votes, people.get(request.claim.app, {})):
                continue
        elif question is not None and not as_strict(question.ask, one.needed, one.approvers, one.kept_out):
            continue
        if one.needed == 1 or _agreed(one, votes) >= one.needed:
            found.setdefault(one.effect, {})[one.rule] = one.by
    return found


def _is_bound_to(yes: _Yes, request: OpenEffect | SaveEffect) -> bool:
    return yes.bound_to == digest_of_what(request.effect.action, request.effect.called_with, yes.rule)


def _votes(approvals: Sequence[str]) -> Transaction[Votes]:
    """The votes on each of these approvals."""
    votes: dict[str, list[Row]] = {}
    if approvals:
        for row in (yield "votes_of", [(one,) for one in approvals]):
            votes.setdefault(row[-1], []).append(row)
    return votes


def _is_proved(yes: _Yes, votes: Votes) -> bool:
    return any(proved for _, _, proved, *_ in votes.get(yes.approval, ()))


def _may_repeat(ask: Ask, yes: _Yes, votes: Votes, people: Mapping[str, Person]) -> bool:
    """Whether the yes of a person who repeated the effect is enough. They were not asked, so the terms are those of the rule by now."""
    if ask.of > 1 or is_kept_out(yes.by, ask.kept_out):
        return False
    return not ask.by or not _is_proved(yes, votes) or yes.by in members(ask.by, people, yes.present)


def _agreed(yes: _Yes, votes: Votes) -> int:
    """How many people have said yes with a token of their own. A command of a version without votes stores the answer of one person."""
    mine = votes.get(yes.approval, ())
    return sum(1 for _, said, proved, seen, *_ in mine if said == YES and proved and seen == yes.bound_to)


def _covered(
    request: OpenEffect | SaveEffect, judged: Judged, decision: Decision, over: Sequence[str], yeses: Mapping[str, str]
) -> Decision:
    """The rule to ask next: the first without a yes; rules that hold come first."""
    holding, asking = judged.judgement.holding(over), judged.judgement.asking(over)
    for rule in sorted({*holding, *([decision.rule] if decision.answer == "hold" else [])}):
        if rule not in yeses:
            return decision if rule == decision.rule else replace(decision, rule=rule, reason=f"rule {rule} holds it")
    for rule in sorted({*asking, *([decision.rule] if decision.answer == "ask" else [])}):
        if rule not in yeses:
            question = request.questions.get(rule)
            reason = f"rule {rule} asks" if question is None else question.ask.reason
            if question is not None and question.ask.unknown is not None:
                reason = f"{reason}; who may not approve is unknown: {question.ask.unknown}"
                return replace(decision, answer="deny", rule=rule, reason=reason)
            return decision if rule == decision.rule else replace(decision, answer="ask", rule=rule, reason=reason)
    names = ", ".join(dict.fromkeys(yeses.values()))
    return replace(decision, answer="allow", reason=f"approved by {names}")


def waiting_for(effect: Effect, decision: Decision, question: EffectQuestion) -> Effect:
    """The effect as it waits. A copy, because the transaction may be retried."""
    reason = f"{decision.rule}: {decision.reason}"
    return replace(
        effect,
        state="waiting",
        reason=reason,
        rule=decision.rule,
        policy=decision.version,
        approval=question.id,
        due_at=0,
    )


def open_questions(
    now: int | None, asked: Sequence[tuple[OpenEffect | SaveEffect, EffectQuestion]]
) -> Transaction[None]:
    """Open the approvals of effects that this transaction has stored as waiting, each with the step that waits for it."""
    if not asked:
        return
    ordered = sorted(asked, key=lambda one: one[1].id)
    reason = "another approval is needed now"
    others = sorted((now, request.effect.id, question.id, reason) for request, question in ordered)
    yield from _end(now, (yield "withdraw_approvals_of_effect", others), reason)
    yield "register_step", [step_row(request.claim, question.step) for request, question in ordered]
    yield "open_effect_approval", [_row(now, request, question) for request, question in ordered]
    yield "set_effect_approval", sorted((request.effect.id, question.id) for request, question in ordered)
    yield from open_alarms(now, [question.alarm for _, question in ordered])


def _row(now: int | None, request: OpenEffect | SaveEffect, question: EffectQuestion) -> tuple[object, ...]:
    claim, ask, effect = request.claim, question.ask, request.effect
    escalations = to_json(ask.escalate).decode() if ask.escalate else None
    return (
        now,
        question.id,
        claim.seq,
        question.step.key,
        claim.app,
        claim.agent,
        question.question,
        ", ".join(ask.by) or None,
        YES_OR_NO,
        ask.within,
        ask.rule,
        effect.id,
        effect.action,
        question.arguments,
        question.digest,
        ask.of,
        to_json(ask.by).decode() if ask.by else None,
        to_json(ask.kept_out).decode() if ask.kept_out else None,
        int(ask.edit),
        ask.valid,
        escalations,
        ask.escalate[0][0] if ask.escalate else None,
    )


def still_asked(
    asked: Mapping[int, tuple[OpenEffect | SaveEffect, Decision]],
) -> Transaction[dict[int, AwaitsApproval]]:
    """The open approvals of effects that wait already, of those that are still needed. They are judged anew when the policy changes."""
    if not asked:
        return {}
    opened: dict[str, list[Row]] = {}
    for row in (
        yield "open_approval_of_effect", [(one,) for one in sorted({one.effect.id for one, _ in asked.values()})]
    ):
        opened.setdefault(row[0], []).append(row)
    found: dict[int, AwaitsApproval] = {}
    for number, (request, decision) in asked.items():
        effect = request.effect
        wanted = digest_of_what(effect.action, effect.called_with, decision.rule)
        for _, approval, rule, bound_to, key, seq, *terms, edit in opened.get(effect.id, ()):
            same = seq == request.claim.seq and rule == decision.rule and bound_to == wanted
            question = request.questions.get(rule)
            if same and (question is None or ((question.ask.edit or not edit) and as_strict(question.ask, *terms))):
                found.setdefault(number, AwaitsApproval(decision, approval, key))
    return found


def said_no(requests: Mapping[int, SaveEffect]) -> Transaction[dict[int, AwaitsApproval]]:
    """The effects to which a person said no, of those that waited for an approval. They wait until their run has read the answer.
    A no stands, even if the policy would not ask by now. Open approvals are locked: a no that comes later finds them withdrawn.
    """
    waited = {number: one for number, one in requests.items() if one.effect.approval is not None}
    if not waited:
        return {}
    answers: dict[str, list[Row]] = {}
    for row in (
        yield "lock_answers_about_effect", [(one,) for one in sorted({one.effect.id for one in waited.values()})]
    ):
        answers.setdefault(row[0], []).append(row)
    found: dict[int, AwaitsApproval] = {}
    for number, one in waited.items():
        for _, approval, key, rule, seq, state, answer in answers.get(one.effect.id, ()):
            if state == "answered" and answer == NO and seq == one.claim.seq:
                no = Decision("ask", rule, "a person said no", one.effect.policy or "")
                found[number] = AwaitsApproval(no, approval, key)
    return found


def no_longer_asked(now: int | None, effects: Sequence[str]) -> Transaction[None]:
    """Withdraw the open approvals of effects that begin or end."""
    reason = "no answer is needed any more"
    rows = [(now, effect, "", reason) for effect in sorted(effects)]
    yield from _end(now, (yield "withdraw_approvals_of_effect", rows), reason)


def abandon_effects(now: int | None, requests: Sequence[AbandonEffect]) -> Transaction[list[ClaimLost | None]]:
    """Idempotent. A run that is no longer owned changes nothing."""
    ordered = sorted(requests, key=lambda one: one.effect.id)
    keyed = set()
    for one in ordered:
        if one.effect.once is not None and (yield "lock_keys_of_effect", [(one.effect.id,)]):
            keyed.add(one.effect.id)
    rows = [
        (now, one.effect.id, one.claim.seq, one.claim.token, one.reason, one.error, one.by, None) for one in ordered
    ]
    abandoned = sorted({row[0] for row in (yield "abandon_waiting", rows)})
    if abandoned:
        yield from no_longer_asked(now, abandoned)
        yield "use_up_approvals", [(now, effect) for effect in abandoned]
    for effect in abandoned:
        if effect in keyed:
            yield from tell_followers(now, effect)
    results: list[ClaimLost | None] = []
    for one in requests:
        owned: Sequence[Row] = ()
        if one.effect.id not in abandoned:
            owned = yield "token_of_run", [(one.claim.seq,)]
        mine = owned and owned[0][1] == one.claim.token and owned[0][2] == "running"
        results.append(None if mine or one.effect.id in abandoned else lost(one.claim))
    return results


def settle_edits(now: int | None, requests: Sequence[SettleEdit]) -> Transaction[list[Step | ClaimLost]]:
    """The approval is locked first, as by an answer."""
    results: list[Step | ClaimLost] = []
    for one in requests:
        claim = one.claim
        owned = yield "token_of_run", [(claim.seq,)]
        if not owned or owned[0][1] != claim.token or owned[0][2] != "running":
            results.append(lost(claim))
            continue
        if [row[1:] for row in (yield "lock_answer", [(one.approval,)])] == [("answered", one.said)]:
            yield from _settle_edit(now, one)
        found = yield "step_of_run", [(claim.seq, one.step.key)]
        results.append(Step(*found[0][1:]))
    return results


def _settle_edit(now: int | None, one: SettleEdit) -> Transaction[None]:
    claim = one.claim
    yield "void_votes", [(one.approval,)]
    asked = (one.arguments, one.digest, one.question, one.kept_out, one.note)
    yield "ask_step_again", [(claim.seq, one.step.key, one.step.result)]
    if one.enough:
        yield "change_what_is_asked", [(now, one.approval, *asked, "answered", YES, one.editor)]
    else:
        yield "change_what_is_asked", [(now, one.approval, *asked, "open", None, None)]
        if one.alarm is not None:
            yield from open_alarms(now, [one.alarm])
    if one.executed is not None:
        yield "set_executed", [(one.effect.id, one.executed)]
        yield "cast_vote", [(now, claim.app, one.approval, one.editor, YES, int(one.proved), one.digest, None)]
    if one.enough:
        yield "answer_step", [(now, claim.seq, one.step.key, "done", YES, None)]


def yes_to_repeat(now: int | None, effect: Effect, run: str, by: Actor, note: str | None) -> Transaction[None]:
    """A person repeats an effect: a yes to the rule that holds it, on the same terms as an approval. If the rule wants more than the yes of
    this person, it asks anew before the call.
    """
    if effect.rule is None:
        return
    for row in (yield "approval_terms", [(now, effect.approval)]) if effect.approval is not None else ():
        terms = Terms(*row)
        if terms.rule == effect.rule and (terms.needed > 1 or (yield from may_not_vote(terms, by)) is not None):
            return
    key = f"repeat {effect.id} {effect.rule}"
    approval = digest(run, key)
    question = f"Repeat {effect.action}, which {effect.rule} holds?"
    bound_to = digest_of_what(effect.action, effect.called_with, effect.rule)
    row = (now, approval, key, question, YES_OR_NO, YES, by.name, note, effect.id, bound_to, USUAL.valid)
    yield "say_yes_to_repeat", [row]
    yield "vote_for_repeat", [(now, approval, by.name, YES, int(by.proved), bound_to, note, effect.id)]
    yield "set_effect_approval", [(effect.id, approval)]


def ask_anew(now: int | None, runs: Sequence[tuple[str, int]]) -> Transaction[None]:
    """Runs that are replayed, as (root, seq): people are asked anew about their effects, also where they have answered."""
    reason = "its run was replayed"
    yield from _end(now, (yield "withdraw_approvals_about_effects", [(now, seq, reason) for _, seq in runs]), reason)
    yield "clear_approvals", [(seq,) for _, seq in runs]
    yield "use_up_approvals_of_run", [(now, seq) for _, seq in runs]
    yield "revive_refused", list(runs)


def ask_anew_in_family(now: int | None, roots: Collection[str]) -> Transaction[None]:
    """Families that get a further run: what people said yes to in an earlier one serves it no more."""
    yield "use_up_approvals_of_family", [(now, root) for root in sorted(roots)]


def _end(now: int | None, withdrawn: Sequence[Row], ending: str) -> Transaction[None]:
    """Approvals were withdrawn: nothing waits for them any more."""
    if not withdrawn:
        return
    error = to_json({"type": WITHDRAWN, "message": ending}).decode()
    yield "answer_step", [(now, seq, key, "failed", None, error) for *_, seq, key in withdrawn]
    yield from resolve_alarms(now, [ask_alarm(app, agent, approval) for approval, app, agent, *_ in withdrawn], ending)
