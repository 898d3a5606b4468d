"""Checks a handler's output: makes the request that ends its run, or commits it with everything that leaves with it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic_core import from_json

from wakeful.clock import to_datetime
from wakeful.errors import Persistent
from wakeful.execution.acting import object_to_changes
from wakeful.execution.actions import find_action
from wakeful.execution.attempt import Attempt
from wakeful.execution.business_key import arguments_by_name
from wakeful.execution.checkpoint import ERRORS_SHOWN
from wakeful.execution.endings import alarm_of_held
from wakeful.execution.handler import Handler
from wakeful.execution.judging import failed_check
from wakeful.execution.sending import put_out
from wakeful.model import VERIFIED, WENT_WELL, RunOutcome
from wakeful.output.checks import Checked, EffectToCheck, RunToCheck, check_output
from wakeful.stores.verbs.commit import CommitRun
from wakeful.stores.verbs.progress import FinishRun
from wakeful.values import to_text


async def verify(attempt: Attempt, agent: Handler, output: Any) -> FinishRun | CommitRun:
    """Nothing unchecked goes out: output that does not pass is held, with everything that would have left with it."""
    claim, around = attempt.claim, attempt.surroundings
    if attempt.record.unsaved:
        judged_later = attempt.facts is not None and attempt.outgoing.effects  # by policy, perhaps in another process
        await (attempt.record.save_facts() if judged_later else attempt.record.save_passed())
    options = agent.options
    verdict = await check_output(
        output, agent.returns, options.checks, lambda: run_to_check(attempt), expected=options.expects_output
    )
    text = _output_text(verdict, agent)
    outgoing = attempt.outgoing
    if agent.options.deliver is not None and output is not None:
        put_out(attempt, agent.options.deliver, from_json(text))
    for effect in outgoing.effects:
        action = outgoing.actions[effect.id]
        arguments, keywords = action.read(effect.arguments)
        if (objection := await failed_check(action, arguments, keywords)) is not None:
            outgoing.objections.append(f"{action.name}: {objection}")
    change = None if attempt.state is None else attempt.state.change(around.app)
    dropped = attempt.ledger.dropped() if claim.effects else []
    silent = agent.options.deliver is not None and output is None and not outgoing.deliveries
    if verdict.objection is None and not outgoing and change is None and not dropped:
        if silent:
            told = RunOutcome("ok", verdict.verification, "committed", silent_by_choice=True)
            return FinishRun(claim, "done", output=text, outcome=told)
        outcome = WENT_WELL if verdict.verification == "none" else VERIFIED
        return FinishRun(claim, "done", output=text, outcome=outcome)
    object_to_changes(attempt)
    objections = [*([] if verdict.objection is None else [verdict.objection]), *outgoing.objections]
    if objections:
        reason = "; ".join(objections)
        outcome = RunOutcome("ok", "failed", "held")
        return CommitRun(
            claim,
            around.app,
            text,
            outcome,
            "held",
            outgoing.deliveries,
            outgoing.effects,
            change,
            reason,
            alarm_of_held(around, claim, "output", reason),
            dropped,
        )
    then: Literal["done", "running"] = "running" if outgoing.effects else "done"
    return CommitRun(
        claim,
        around.app,
        text,
        RunOutcome("ok", verdict.verification, "committed", silent_by_choice=silent),
        then,
        outgoing.deliveries,
        outgoing.effects,
        change,
        alarm=outgoing.alarm,
        dropped=dropped,
        resolves=outgoing.resolves,
    )


def run_to_check(attempt: Attempt) -> RunToCheck:
    """What checks may know about a run: its effects are those of its ledger that it asked for, and those that it staged."""
    ledger, outgoing = attempt.ledger, attempt.outgoing
    used = {one.id: one for one in ledger.used()} | {one.id: one for one in outgoing.effects}
    effects = []
    for effect in sorted(used.values(), key=lambda one: one.position):
        action = outgoing.actions.get(effect.id) or find_action(effect.reference, attempt.app)
        arguments = {} if action is None else arguments_by_name(action, effect.called_with)
        result = None if effect.result is None else from_json(effect.result)
        effects.append(EffectToCheck(effect.action, arguments, effect.state, result))
    return RunToCheck(attempt.event, tuple(effects), to_datetime(attempt.clock.now()))


def _output_text(verdict: Checked, agent: Handler) -> str:
    """The output in stored form. Held output is shown to a person even if it cannot be stored as JSON."""
    try:
        return to_text(verdict.output, what=f"the output of agent {agent.name}")
    except Persistent:
        if verdict.objection is None:
            raise
        return to_text(repr(verdict.output)[:ERRORS_SHOWN], what=f"the output of agent {agent.name}")
