"""accept: normalise → dedupe → route → decide → record. When it returns, the events are on disk.

The door knows the agents and the policy; the store knows what was there before. Every decision made here is stored in
one transaction with the event itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wakeful.clock import Clock, from_datetime, to_text
from wakeful.errors import ConfigError, did_you_mean
from wakeful.intake.cloudevents import content_digest, to_envelope
from wakeful.intake.flow import FlowPlan
from wakeful.intake.matching import fits
from wakeful.intake.policies import UNRULED, Policies
from wakeful.intake.reserved import By, ReservedNames
from wakeful.intake.route import Router
from wakeful.model import (
    Admission,
    Arrival,
    Claim,
    Decision,
    Event,
    EventState,
    Loop,
    Receipt,
    Step,
    digest,
    event_key,
    run_id,
    trace_id,
)
from wakeful.policy.decide import AdmissionFacts
from wakeful.policy.judgement import Judgement
from wakeful.policy.loops import Chain, ChainLimits
from wakeful.stores.user_transaction import accept_within
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.held_admissions import as_held
from wakeful.stores.verbs.locks import HeldLock
from wakeful.stores.verbs.sending import SendEvent, SentBy

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

LONGEST_TRACE = 64
BUDGET_RULE = "budget of conditions"


class Door:
    """Takes events in for one app."""

    def __init__(
        self,
        app: str,
        router: Router,
        store: DatabaseStore,
        clock: Clock,
        *,
        owners: dict[str, str | None],
        flows: Mapping[str, FlowPlan] | None = None,
        policies: Policies | None = None,
        chains: ChainLimits | None = None,
        on_conflict: Callable[[Event], None] = lambda _: None,
        on_broken_rule: Callable[[Decision], None] = lambda _: None,
        reserved: ReservedNames | None = None,
        on_exhausted: Callable[[str, Event, str], None] = lambda *_: None,
    ) -> None:
        self._app = app
        self._router = router
        self._store = store
        self._clock = clock
        self._owners = owners
        self._flows = flows or {}
        self._policies = policies or Policies(app)
        self._chains = chains or ChainLimits()
        self._on_conflict = on_conflict
        self._on_broken_rule = on_broken_rule
        self._reserved = reserved or ReservedNames(app)
        self._on_exhausted = on_exhausted

    async def accept(
        self,
        events: list[Event],
        *,
        by: By = "outside",
        idempotency: tuple[str, str] | None = None,
        agent: str | None = None,
        within: Any = None,
        claim: Claim | None = None,
        step: Step | None = None,
        locks: tuple[HeldLock, ...] = (),
        adopts: Mapping[str, Any] | None = None,
        aliases: tuple[str, ...] = (),
        sent: SentBy | None = None,
    ) -> list[Receipt]:
        """Store events and their admissions; returns after the commit. Raises ReservedName, before anything is stored,
        if an event has a name that `by` may not use.

        `agent` addresses one agent instead of routing. `within` is a caller's own transaction (PostgreSQL). `claim` and
        `step` are a run's checkpoint, stored together with the events it emits and inside `locks`. With `adopts` the
        step waits for the end of the new run, and notes these facts. `aliases` are further identities of a single event:
        a known one makes it a duplicate. `sent` says who sent a single event, if a person did; it is stored with it.
        """
        if by != "source":
            if self._reserved.are_old:
                await self._reserved.learn_again()
            self._reserved.refuse(events, by)
        if self._policies.is_old:
            await self._policies.look_again()
        arrivals = [self.arrive(event, agent, aliases=aliases) for event in events]
        request = AcceptEvents(self._app, arrivals, idempotency, claim, step, adopts, fits, locks=locks)
        if within is not None:
            receipts = await accept_within(self._store, within, request)
        elif sent is not None:
            receipts = (await self._store.do(SendEvent(request, sent.verb, sent.words, by=sent.by))).receipts
        else:
            receipts = await self._store.do(request)
        for event, receipt in zip(events, receipts, strict=False):
            if receipt.conflict:
                self._on_conflict(event)
        return receipts

    def arrive(
        self, event: Event, agent: str | None = None, *, judged: bool = True, aliases: tuple[str, ...] = ()
    ) -> Arrival:
        """An event with its admissions: one for each agent it concerns, with the reason. Not `judged`: without asking
        the rules.
        """
        now = self._clock.now()
        key = event_key(self._app, event.source, event.id)
        trace = None
        if event.traceparent is not None:
            trace = (trace_id(event.traceparent) or "")[:LONGEST_TRACE] or None
        else:  # every event has a trace, so that every log line about it can be found
            event.traceparent = f"00-{key:0<32}-{key[:16]}-00"
        expires_at = None if event.expirytime is None else from_datetime(event.expirytime)
        admissions: list[Admission] = []
        decisions: list[tuple[str, Decision]] = []
        expired = expires_at is not None and expires_at <= now
        chain = self._chains.chain(event) if event.extensions else None
        for name, matched, reason, exhausted in self._concerned(event, agent):
            if exhausted and not expired:  # it is unknown whether the agent is meant: start no run, and raise an alarm
                admissions.append(Admission(name, "denied", reason=reason))
                decisions.append((name, Decision("deny", rule=BUDGET_RULE, reason=reason)))
                self._on_exhausted(name, event, reason)
            elif not matched:
                admissions.append(Admission(name, "skipped", reason=reason))
            elif expired:
                admissions.append(Admission(name, "expired", reason=f"expired at {to_text(expires_at)}"))
            else:
                facts = AdmissionFacts(self._app, name, self._owners.get(name), event, now, chain)
                admissions.append(self._admission(facts, chain if judged else None, decisions, judged=judged))
        state, why = self._state(expired=expired, admissions=admissions, event=event)
        return Arrival(
            key,
            event.source,
            event.id,
            event.type,
            event.subject,
            state,
            content_digest(event),
            to_envelope(event),
            why,
            expires_at,
            admissions,
            decisions,
            trace,
            tuple([digest(self._app, event.source, "alias", alias) for alias in aliases]) if aliases else (),
        )

    def _admission(
        self, facts: AdmissionFacts, chain: Chain | None, decisions: list[tuple[str, Decision]], *, judged: bool
    ) -> Admission:
        """What becomes of the event for one agent, by policy. Answers other than "allow" are added to `decisions`."""
        agent, event = facts.agent, facts.event
        loop = self._loop(facts, chain) if chain is not None else None
        judgement = self._policies.judge_admission(facts) if judged and loop is None else UNRULED
        decision = judgement.decision
        decisions += [(agent, one) for one in judgement.watched]
        if decision.broken:
            self._on_broken_rule(decision)
        if decision.answer == "deny" or (decision.answer != "allow" and not judgement.counted):
            decisions.append((agent, decision))  # with a rule that must be counted, the store adds it
        if decision.answer == "deny":
            return Admission(agent, "denied", reason=f"{decision.rule}: {decision.reason}")
        plan = self._flows.get(agent)
        flow = None if plan is None else plan.flow(event)
        admission = Admission(
            agent,
            "started",
            run_id=run_id(self._app, agent, event.source, event.id),
            reason=None if flow is None else flow.note,
            flow=flow,
            loop=loop,
            judgement=judgement if judgement.counted else None,
            owner=facts.owner,
        )
        return admission if decision.answer == "allow" else as_held(admission, decision, judgement.version)

    def facts(self, agent: str, event: Event) -> AdmissionFacts:
        """The facts about a stored event that is for this agent, as of now."""
        chain = self._chains.chain(event) if event.extensions else None
        return AdmissionFacts(self._app, agent, self._owners.get(agent), event, self._clock.now(), chain)

    def judge_again(self, facts: AdmissionFacts, rounds: int) -> Judgement:
        """Judge an event whose run waits to begin. Its chain has come back to the agent `rounds` times by now, perhaps with later events too: they
        do not take it over the limit that it was within. A chain that is no longer counted counts as if it were at the limit.
        """
        loop = None if facts.chain is None else self._loop(facts, facts.chain)
        if loop is None:
            return self._policies.judge_admission(facts)
        most = rounds if self._chains.rate is None else self._chains.rate.most
        judgement: Judgement = loop.judge(min(rounds or most, most))
        return judgement

    def _loop(self, facts: AdmissionFacts, chain: Chain) -> Loop | None:
        """The chain that must be counted before it can be decided: one that comes back to this agent, or one that is
        too long and needs one alarm.
        """
        limits = self._chains
        too_deep = limits.deepest is not None and chain.depth > limits.deepest
        if not too_deep and (limits.rate is None or not chain.closes(self._app, facts.agent)):
            return None
        within = 0 if limits.rate is None else limits.rate.within
        return Loop(chain.root, within, self._policies.judge_rounds(facts), facts.owner)

    def _concerned(self, event: Event, agent: str | None) -> list[tuple[str, bool, str, bool]]:
        if agent is None:
            return [(one.agent, one.matched, one.reason, one.exhausted) for one in self._router.route(event)]
        if agent not in self._owners:
            message = f'app {self._app} has no agent "{agent}".{did_you_mean(agent, self._owners)}'
            raise ConfigError(message)
        return [(agent, True, "addressed to it", False)]

    @staticmethod
    def _state(*, expired: bool, admissions: list[Admission], event: Event) -> tuple[EventState, str | None]:
        if expired:
            return "expired", "its expirytime had passed when it arrived"
        if any(admission.state != "skipped" for admission in admissions):
            return "accepted", None
        if admissions:
            return "unmatched", "every agent for this type has a condition that was not met"
        return "unmatched", f"no agent takes type {event.type}"
