"""Effects that people must approve: what is asked, how the run waits for it, and what follows from the answer.

    waiting ─┬─ yes ────────────► judged once more where it is opened
             ├─ no, or too late ► abandoned; the handler gets Denied
             └─ edited ─────────► checked here: it is asked anew, or reopened with a note

The run waits as it does for `run.ask`: on a step of its own, which the answer ends. Other branches go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, readable
from wakeful.errors import Denied, Persistent
from wakeful.execution.actions import Action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import arguments_by_name, key_of
from wakeful.execution.checkpoint import placed
from wakeful.execution.deadline import ASKED
from wakeful.execution.judging import facts_of, failed_check
from wakeful.model import Effect, Step, digest
from wakeful.policy.approvers import is_kept_out
from wakeful.policy.asking import Ask, asks_of, digest_of_what
from wakeful.policy.judgement import Judgement
from wakeful.stored_errors import describe, words_of
from wakeful.stores.alarm import Alarm, ask_alarm
from wakeful.stores.notes import note
from wakeful.stores.verbs.consent import AbandonEffect, EffectQuestion, SettleEdit
from wakeful.stores.verbs.waits import EndWait
from wakeful.values import plain, to_text

ARGUMENTS_IN_QUESTION = 1000


def questions_of(
    attempt: Attempt, action: Action[..., Any], effect: Effect, judgement: Judgement
) -> Mapping[str, EffectQuestion]:
    """The approvals that may be needed, by rule. Empty if no rule asks. An undo, and an effect of which an earlier call may have been
    done, is held instead; of the latter the terms are known, for a yes that was given before.
    """
    if effect.undoes is not None or judgement.decision.answer == "deny":
        return {}
    policies = attempt.surroundings.policies
    asks = asks_of(judgement, facts_of(attempt, action, effect, named=True), policies.policy)
    return {rule: _question(attempt, action, effect, ask) for rule, ask in asks.items()}


def _question(attempt: Attempt, action: Action[..., Any], effect: Effect, ask: Ask) -> EffectQuestion:
    earlier = attempt.record.steps_named(f"{ASKED}{effect.id}:{ask.rule}:")
    # A replay clears the steps: the token makes the key of the next approval another one.
    key = f"{ASKED}{effect.id}:{ask.rule}:{attempt.claim.token}.{len(earlier)}"
    identifier = digest(attempt.id, key)
    shown = shown_arguments(attempt, action, effect.called_with)
    words = in_words(attempt, action, shown, ask.reason)
    now = attempt.clock.now()
    until = now + ask.within
    step = attempt.record.new_step(key, f"{ASKED}{action.name}", "waiting")
    step.tries = 0
    to = ", ".join(ask.by) or None
    told = {"question": words, "to": to, "approval": identifier, "until": until, "limited": False}
    step.result = note(to_json(told).decode())
    alarm = alarm_about(attempt, identifier, words, ask.by, now, until)
    bound_to = digest_of_what(action.name, effect.called_with, ask.rule)
    return EffectQuestion(ask, identifier, step, words, bound_to, to_json(shown).decode(), alarm, held=effect.doubtful)


def shown_arguments(attempt: Attempt, action: Action[..., Any], text: str) -> dict[str, Any]:
    """The arguments by parameter, without the values that `redact:` of the policy hides."""
    named = arguments_by_name(action, text)
    policy = attempt.surroundings.policies.policy
    return named if policy is None else policy.redacted(named)


def in_words(attempt: Attempt, action: Action[..., Any], shown: Mapping[str, Any], reason: str) -> str:
    words = listed(shown)
    if len(words) > ARGUMENTS_IN_QUESTION:
        words = f"{words[:ARGUMENTS_IN_QUESTION]}…"
    return plain(f"May agent {attempt.agent} do {action.name}({words})? {reason}")


def listed(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={to_json(value).decode()}" for name, value in arguments.items())


def alarm_about(
    attempt: Attempt, approval: str, words: str, by: tuple[str, ...], now: Microseconds, until: Microseconds
) -> Alarm:
    """The alarm that brings the approval to the channels named as its groups, and again when three quarters of its time are over."""
    return Alarm(
        attempt.app,
        ask_alarm(attempt.app, attempt.agent, approval),
        f"{words} (run {attempt.id}, which waits {readable(until - now)} at most)",
        attempt.agent,
        attempt.surroundings.owners.get(attempt.agent),
        addressee=", ".join(by) or None,
        remind_at=now + (until - now) * 3 // 4,
    )


def asked(attempt: Attempt, effect: Effect, question: EffectQuestion) -> None:
    """The effect is stored as waiting for this approval."""
    attempt.claim.steps = [*attempt.claim.steps, question.step]  # withdrawn with the run, however this attempt ends
    attempt.record.enter(question.step)
    effect.approval = question.id


def answered(attempt: Attempt, step: Step) -> None:
    """The step is stored like this now. The deadline of the run reads the steps of its claim."""
    attempt.claim.steps = [step if one.key == step.key else one for one in attempt.claim.steps]
    attempt.record.enter(step)


def withdrawn(attempt: Attempt, effect: str, *, kept: str | None = None) -> None:
    """The transaction that stored an effect withdrew what was asked about it, except for the approval that it waits for."""
    for step in attempt.record.steps_named(f"{ASKED}{effect}:"):
        if step.state == "waiting" and digest(attempt.id, step.key) != kept:
            answered(attempt, replace(step, state="failed", finished_at=attempt.clock.now()))


def step_of(attempt: Attempt, effect: Effect) -> Step | None:
    """The step of this run that waits, or waited last, for the approval of an effect."""
    if effect.approval is None:
        return None
    found = attempt.record.steps_named(f"{ASKED}{effect.id}:")
    return next((step for step in found if digest(attempt.id, step.key) == effect.approval), None)


def was_refused(attempt: Attempt, effect: Effect) -> bool:
    """Whether people of this run refused the effect: its handler gets the same answer again. Another run of the family asks anew."""
    return effect.state == "abandoned" and effect.approval is not None and step_of(attempt, effect) is not None


async def no_longer_wanted(attempt: Attempt, effect: Effect, reason: str) -> None:
    """Abandon an effect that waits for an approval and that its handler does not ask for any more."""
    await attempt.surroundings.store.do(AbandonEffect(attempt.claim, effect, reason, "its run"))
    withdrawn(attempt, effect.id)
    effect.state, effect.reason, effect.settled_by = "abandoned", reason, "its run"


class RefusedInDoubt(Exception):
    """People refused an effect that may have been done already: a person must find out."""


class Awaiting:
    """Waits for the approval of one effect, and carries out the answer. `in_doubt`: whether it may have been done already."""

    def __init__(
        self, attempt: Attempt, action: Action[..., Any], effect: Effect, *, in_doubt: Callable[[], Awaitable[bool]]
    ) -> None:
        self._attempt = attempt
        self._action = action
        self._effect = effect
        self._in_doubt = in_doubt

    async def answer(self) -> bool:
        """Return when the effect may be judged again: True if people said yes, False if the policy may have changed. Raises Denied if they
        said no, or no answer came in time.
        """
        attempt, effect = self._attempt, self._effect
        while True:
            step = step_of(attempt, effect)
            if step is None or (step.state == "waiting" and not self._is_judged()):
                return False  # a policy that changed since may answer otherwise
            if step.state == "waiting":
                step = await self._wait(step)
            if step.state == "failed":
                error = from_json(step.error or "{}")
                await self._refuse(step, "no answer in time", str(error.get("message", "")))
            said = from_json(step.result or "null")
            if said is True:
                return True
            if isinstance(said, dict) and "edit" in said:
                await self._look_at_edit(step, said["edit"])
                continue
            await self._refuse(step, "a person", "a person said no")

    def _is_judged(self) -> bool:
        """Whether this attempt has judged the effect by the policy in force."""
        judged, version = self._attempt.ledger.judged_by, self._attempt.surroundings.policies.version
        return self._effect.id in judged and judged[self._effect.id] == version

    async def _wait(self, step: Step) -> Step:
        attempt, effect = self._attempt, self._effect
        told = from_json(step.result or "{}")
        until = int(told["until"])
        await attempt.rest(step, until)
        late = Denied(f"action {effect.action}: no approval within {readable(until - step.started_at)}")
        await attempt.record.save_facts()
        around = attempt.surroundings
        error = to_json(describe(late)).decode()
        ended = await around.store.do(EndWait(attempt.claim, step, error, None, around.matches))
        answered(attempt, ended)
        return ended

    async def _refuse(self, step: Step, by: str, words: str) -> None:
        """Abandon the effect. Its handler gets Denied, now and whenever this run resumes. Raises RefusedInDoubt if it may have been done."""
        attempt, effect = self._attempt, self._effect
        who = await answerer(attempt, effect) or by
        reason = f"{effect.rule}: " + (f"{who} said no" if step.state == "done" else words)
        if await self._in_doubt():
            raise RefusedInDoubt(reason)
        error = Denied(f"action {effect.action}: {reason}")
        error.stored = True  # the decision that asked is stored
        described = to_json(describe(error)).decode()
        await attempt.surroundings.store.do(AbandonEffect(attempt.claim, effect, reason, who, described))
        effect.state, effect.reason, effect.settled_by, effect.error = "abandoned", reason, who, described
        raise placed(error, effect.action)

    async def _look_at_edit(self, step: Step, edit: Mapping[str, Any]) -> None:
        """Edited arguments are checked, judged and digested as those of the handler were."""
        attempt, action, effect = self._attempt, self._action, self._effect
        terms = await terms_of(attempt, effect)
        text, problem = await self._edited(edit["arguments"])
        ask: Ask | None = None  # what its rule wants for the new arguments; None: it does not ask any more
        if problem is None:
            changed = replace(effect, executed=text)
            facts = facts_of(attempt, action, changed, named=True)
            judgement = attempt.surroundings.policies.judge(facts)
            if judgement.decision.answer == "deny":
                problem = f"policy denies it: {judgement.decision.rule}: {judgement.decision.reason}"
            ask = asks_of(judgement, facts, attempt.surroundings.policies.policy).get(effect.rule or "")
            if (
                problem is None
                and ask is not None
                and (ask.unknown is not None or is_kept_out(edit["by"], ask.kept_out))
            ):
                who = f"{edit['by']} may not approve that: the rule keeps its author out (not_by)"
                problem = who if ask.unknown is None else f"who may not approve that is unknown: {ask.unknown}"
        now = attempt.clock.now()
        told = {
            "question": terms.question,
            "to": terms.to,
            "approval": effect.approval,
            "until": max(now, terms.due_at or now),
            "limited": False,
        }
        said = step.result
        step.state, step.result = "waiting", note(to_json(told).decode())
        request = SettleEdit(
            attempt.claim,
            effect,
            step,
            effect.approval or "",
            str(edit["by"]),
            bool(edit.get("proved")),
            said,
            note=problem,
        )
        if problem is None:
            shown = shown_arguments(attempt, action, text)
            rule = effect.rule or ""
            request.executed = text
            request.arguments = to_json(shown).decode()
            request.digest = digest_of_what(action.name, text, rule)
            request.question = in_words(
                attempt, action, shown, f"{terms.rule}; edited by {edit['by']}" if ask is None else ask.reason
            )
            request.kept_out = None if ask is None or not ask.kept_out else to_json(ask.kept_out).decode()
            request.enough = terms.needed <= 1
        else:
            request.note = f"{edit['by']} edited the arguments, but {problem}"
        if not request.enough:
            words = request.question or terms.question
            told_why = words if request.note is None else f"{words} ({request.note})"
            by = tuple(from_json(terms.approvers)) if terms.approvers else ()
            until = max(now, terms.due_at or now)
            request.alarm = alarm_about(attempt, effect.approval or "", told_why, by, terms.asked_at, until)
        settled = await attempt.surroundings.store.do(request)
        if problem is None:
            effect.executed = text
        answered(attempt, settled)

    async def _edited(self, given: Any) -> tuple[str, str | None]:
        """The whole arguments with the edited ones in their stored form; and what does not fit, in words, or None."""
        action, effect = self._action, self._effect
        if not isinstance(given, dict):
            return "", "the arguments must be an object, by parameter"
        named = arguments_by_name(action, effect.called_with)
        unknown = sorted(set(given) - set(action.signature.parameters))
        if unknown:
            return "", f"{action.name} has no parameter {unknown[0]}"
        policy = self._attempt.surroundings.policies.policy
        if policy is not None and (hidden := policy.placeholder_in(given)) is not None:
            return (
                "",
                f"the value of {hidden} is hidden, and what is shown in its place is no value: leave it out, or give another one",
            )
        try:
            changed = {name: action.as_called(name, value) for name, value in given.items()}
            text = to_text([{"**": {**named, **changed}}], what=f"the arguments of {action.name}", passed=True)
            arguments, keywords = action.read(text)
            action.signature.bind(None, *arguments, **keywords)
            if key_of(action, text) != effect.once:
                return "", "they change the key under which the action is done once"
        except (Persistent, TypeError, ValueError) as error:
            return "", words_of(error)
        return text, await failed_check(action, arguments, keywords)


async def answerer(attempt: Attempt, effect: Effect) -> str | None:
    """Who answered the approval of an effect."""
    rows = await attempt.surroundings.store.database.fetch("answer_about_effect", effect.approval)
    return rows[0][0] if rows else None


class AskedAbout(NamedTuple):
    """An approval, as far as an edit needs it: a row of `answer_about_effect`."""

    answered_by: str | None
    question: str
    to: str | None
    due_at: Microseconds | None
    needed: int
    rule: str | None
    approvers: str | None
    asked_at: Microseconds


async def terms_of(attempt: Attempt, effect: Effect) -> AskedAbout:
    rows = await attempt.surroundings.store.database.fetch("answer_about_effect", effect.approval)
    return AskedAbout(*rows[0])
