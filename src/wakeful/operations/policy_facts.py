"""Facts about stored events and effects, rebuilt from the store and, if it is there, the app's code.

The store has the event, the run, the action and its arguments by position. Only the code has the names of the parameters, the
risk of an action, the owner of an agent and the rules of `App(rules=…)`. Of the facts of a run (`run.facts`)
only the last ones are stored, and not those at the time of an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from wakeful.errors import NotFound
from wakeful.execution.business_key import arguments_as_called
from wakeful.intake.cloudevents import from_envelope
from wakeful.model import Event
from wakeful.policy.decide import DEFAULT_RULES, AdmissionFacts, EffectFacts, Rule
from wakeful.policy.loops import ChainLimits
from wakeful.policy.text import Policy, read_policy
from wakeful.stores.transaction import Fetcher
from wakeful.stores.verbs.policies import AdmissionToJudge, EffectToJudge, policy_in_force, policy_texts

if TYPE_CHECKING:
    from wakeful.operations.declared import Declared
    from wakeful.policy.rule import FileRule

PAYLOAD_REMOVED = "the payload of the event was removed"
UNNAMED = "arguments by position have no names without the app's code"
RISK = "the risk of the action is not known without the app's code"
RUN_FACTS = "facts of the run at that time are not stored"
DENIED = "the effect was denied, and the arguments of denied effects are not stored"
COUNTED = "a rule with over: depends on what was counted then"
UNKNOWN_RISK = "low"  # of an action whose code is not there; RISK says so


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The facts, and those that could not be rebuilt. `facts` is None if nothing can be judged."""

    facts: AdmissionFacts | EffectFacts | None
    lacks: tuple[str, ...] = ()


def rules_of(code: Declared | None) -> Sequence[Rule]:
    """The rules in Python: without the app's code only Wakeful's own."""
    return DEFAULT_RULES if code is None else code.rules


def admission_facts(one: AdmissionToJudge, code: Declared | None) -> Rebuilt:
    """The facts when the event was about to become a run of the agent."""
    if not one.envelope:
        return Rebuilt(None, (PAYLOAD_REMOVED,))
    event = from_envelope(one.envelope)
    chains = ChainLimits() if code is None else code.chains
    owner = None if code is None else code.owner(one.agent)
    return Rebuilt(AdmissionFacts(one.app, one.agent, owner, event, one.accepted_at, chains.chain(event)))


def effect_facts(one: EffectToJudge, code: Declared | None) -> Rebuilt:
    """The facts when the effect was opened."""
    if not one.envelope:
        return Rebuilt(None, (PAYLOAD_REMOVED,))
    action = None if code is None else code.action(one.reference)
    given, keywords = arguments_as_stored(one.arguments)
    lacks = [RUN_FACTS]
    if action is None:
        lacks += [RISK, *([UNNAMED] if given else [])]
    facts = EffectFacts(
        one.app,
        one.agent,
        None if code is None else code.owner(one.agent),
        _event_of(one),
        one.opened_at,
        one.action,
        UNKNOWN_RISK if action is None else action.options.risk,
        one.arguments,
        keywords if action is None else arguments_as_called(action, one.arguments),
        run={"id": one.run, "attempt": one.attempt, "agent": one.agent},
    )
    return Rebuilt(facts, tuple(lacks))


def _event_of(one: EffectToJudge) -> Event:
    event = from_envelope(one.envelope)
    return event if one.data is None else replace(event, data=from_json(one.data))


def arguments_as_stored(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments by position, and those by keyword."""
    stored = from_json(text)
    keywords = stored.pop()["**"] if stored and isinstance(stored[-1], dict) and "**" in stored[-1] else {}
    return stored, keywords


def reads(rule: FileRule, root: str) -> bool:
    """Whether a condition of the rule, or its `per:`, reads this value: arguments, facts, …"""
    return any(root in one.fields for one in (rule.when, rule.unless, rule.per) if one is not None)


async def policy_of(database: Fetcher, app: str, version: str | None = None) -> Policy | None:
    """The policy of this version, or the one in force; None if the app has none. NotFound for an unknown version, PolicyError for
    a text that this version of Wakeful cannot read.
    """
    meant = await policy_in_force(database, app) if version is None else version
    if meant is None:
        return None
    texts = await policy_texts(database, app, meant)
    if not texts:
        message = f"app {app} has no policy of version {meant}"
        raise NotFound(message)
    return read_policy(texts)
