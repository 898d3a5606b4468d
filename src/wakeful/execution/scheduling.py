"""`run.schedule` and `run.unschedule`: schedules that agents make, each together with its checkpoint, if policy allows it.

the call ──► recorded? ──► its result, or its error again
              │ no
              ▼
the current schedule ──► the change ──► one transaction: policy's decision, the change, the checkpoint
              ▲                                        │
              └──────── another process was first ─────┘
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic_core import from_json, to_json

from wakeful.clock import to_datetime
from wakeful.errors import CancelAsked, ConfigError, Denied, Persistent, StoreUnavailable, did_you_mean
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import marked, shown_arguments
from wakeful.execution.facts import known_facts
from wakeful.execution.locks import locks_held
from wakeful.model import Decision, Step
from wakeful.policy.decide import ScheduleFacts
from wakeful.policy.judgement import Judgement
from wakeful.stored_errors import describe, restore
from wakeful.stores.timing import StoredSchedule
from wakeful.stores.verbs.schedules import ChangeSchedule
from wakeful.stores.verbs.scheduling import ScheduleByRun
from wakeful.triggers.schedule import Schedule, as_stored
from wakeful.triggers.schedules import MOST_TRIES, Schedules, refuse_name
from wakeful.values import digest_of_arguments, to_text

Verb = Literal["add", "edit", "remove"]
# Agents can never change these, regardless of the rules.
BELONGS = {
    "code": "it is declared in code",
    "heartbeat": "it comes from a heartbeat's file",
    "reminder": "it is a reminder",
}


@dataclass(slots=True)
class WantedChange:
    """The change that a run wants, given the schedule as it is now."""

    verb: Verb
    before: StoredSchedule | None
    change: ChangeSchedule | None
    target: str
    rule: str
    done: str | None = None  # the result of the step; None: when the schedule is due next


async def schedule(attempt: Attempt, name: str, wanted: Schedule, *, agent: Any, data: Any) -> datetime | None:
    """Make or change a schedule, unless it already is as wanted. Returns its next occurrence."""
    async with _changing(attempt, "run.schedule"):
        return await _schedule(attempt, name, wanted, agent, data)


async def unschedule(attempt: Attempt, name: str) -> bool:
    """Remove the schedule of that name. Returns whether it existed."""
    async with _changing(attempt, "run.unschedule"):
        return await _unschedule(attempt, name)


@contextlib.asynccontextmanager
async def _changing(attempt: Attempt, call: str) -> AsyncIterator[None]:
    """A call that changes a schedule is in flight. If the run is cancelled, the store may say so here too."""
    attempt.refuse_inside(call)
    if attempt.to_stop is not None:
        await attempt.begin_nothing_more()
    try:
        with attempt.at_work():
            yield
    except CancelAsked as asked:
        attempt.stop(asked)
        raise asyncio.CancelledError from None


async def _schedule(attempt: Attempt, name: str, wanted: Schedule, agent: Any, data: Any) -> datetime | None:
    what = f"agent {attempt.agent}: run.schedule({name!r})"
    target = _checked(attempt, name, wanted, agent, what)
    text = to_text(data, what=f"{what}: data", passed=True)
    digested, arguments = digest_of_arguments(
        (name, wanted.definition(), target, from_json(text)), {}, of="run.schedule"
    )
    schedules = _schedules(attempt, what)

    async def wish() -> WantedChange:
        owner = attempt.surroundings.owners.get(target)
        before, change = await schedules.plan(
            name, wanted, target, data=from_json(text), owner=owner, operator=_operator(attempt)
        )
        verb: Verb = "edit" if before is not None and before.state in {"live", "paused"} else "add"
        return WantedChange(verb, before, change, target, wanted.describe())

    step = await _reach(attempt, "schedule", name, (digested, arguments), wish)
    moment = from_json(step.result or "{}").get("next_at")
    return None if moment is None else to_datetime(moment)


async def _unschedule(attempt: Attempt, name: str) -> bool:
    what = f"agent {attempt.agent}: run.unschedule({name!r})"
    schedules = _schedules(attempt, what)

    async def wish() -> WantedChange:
        before, change = await schedules.plan_removal(name, operator=_operator(attempt))
        there = before is not None and change is not None
        result = to_json({"removed": there}).decode()
        if before is None or not there:
            return WantedChange("remove", before, None, attempt.agent, "", result)
        rule = as_stored(before.definition).describe()
        return WantedChange("remove", before, change, before.agent, rule, result)

    identity = digest_of_arguments((name,), {}, of="run.unschedule")
    step = await _reach(attempt, "unschedule", name, identity, wish)
    return bool(from_json(step.result or "{}").get("removed"))


async def _reach(
    attempt: Attempt, call: str, name: str, identity: tuple[str, str], wish: Callable[[], Awaitable[WantedChange]]
) -> Step:
    """The step of this call: recorded before, or stored now."""
    digested, arguments = identity
    key, shown = attempt.record.next_key(f"{call} {name}", digested)
    step = attempt.record.find(key)
    for _ in range(MOST_TRIES):
        if step is not None and step.state == "failed":
            raise marked(restore(from_json(step.error or "{}")), key, call)
        if step is not None:
            return step
        wanted = await wish()
        new = attempt.record.new_step(key, shown, "done", arguments=shown_arguments(arguments))
        judgement = _judge(attempt, name, wanted)
        decision = judgement.decision
        step = await _store_change(
            attempt,
            ScheduleByRun(
                attempt.claim,
                new,
                attempt.app,
                name,
                wanted.before,
                wanted.change,
                decision,
                wanted.done,
                to_json(describe(_denied(name, decision))).decode(),
                locks_held(attempt.claim),
                judgement.watched,
            ),
        )
    message = f"schedule {name} keeps being changed by other processes: try again"
    raise StoreUnavailable(message)


async def _store_change(attempt: Attempt, request: ScheduleByRun) -> Step | None:
    """Store a change of a schedule together with its step. None: another process was first."""
    around = attempt.surroundings
    await attempt.record.save_facts()
    stored = await around.store.do(request)
    if stored is not None and around.schedules is not None:
        around.schedules.tell_changed()
    return stored


def _judge(attempt: Attempt, name: str, wanted: WantedChange) -> Judgement:
    """Policy's judgement. A schedule declared in code is never changed, and removing one that does not exist is allowed."""
    around, before = attempt.surroundings, wanted.before
    there = before is not None and before.state != "removed"
    if wanted.verb == "remove" and wanted.change is None:
        return Judgement(Decision("allow", rule="nothing to do", reason="there is no such schedule"))
    if before is not None and there and before.origin in BELONGS:
        reason = f"agents cannot change schedule {name}: {BELONGS[before.origin]}"
        return Judgement(Decision("deny", rule="schedules_of_others", reason=reason))
    facts = ScheduleFacts(
        around.app,
        attempt.agent,
        around.owners.get(attempt.agent),
        attempt.event,
        around.clock.now(),
        schedule=name,
        target=wanted.target,
        was=before.agent if before is not None and there else None,
        rule=wanted.rule,
        verb=wanted.verb,
        facts=known_facts(attempt),
        run={"id": attempt.id, "attempt": attempt.number, "agent": attempt.agent},
    )
    judgement = around.policies.judge(facts)
    if judgement.decision.broken:
        around.on_broken_rule(judgement.decision)
    return judgement


def _denied(name: str, decision: Decision) -> Denied:
    error = Denied(f"schedule {name}: {decision.rule}: {decision.reason}")
    error.stored = True
    return error


def _operator(attempt: Attempt) -> str:
    return f"agent {attempt.agent} (run {attempt.id})"


def _schedules(attempt: Attempt, what: str) -> Schedules:
    schedules = attempt.surroundings.schedules
    if schedules is None:
        message = f"{what}: this runtime keeps no schedules"
        raise ConfigError(message)
    return schedules


def _checked(attempt: Attempt, name: Any, wanted: Any, agent: Any, what: str) -> str:
    """The name of the agent to wake. Raises Persistent for arguments that cannot work."""
    if not isinstance(wanted, Schedule):
        message = (
            f'{what}: {wanted!r} is not a schedule: write cron("0 8 * * *"), every("30m") or at("2026-12-24T18:00")'
        )
        raise Persistent(message)
    try:
        refuse_name(name)
    except ConfigError as error:
        message = f"{what}: {error}"
        raise Persistent(message) from None
    if wanted.name is not None and wanted.name != name:
        message = f'{what}: the rule has a name of its own, "{wanted.name}": leave it out'
        raise Persistent(message)
    target = attempt.agent if agent is None else attempt.name_of_agent(agent)
    if target is None:
        shown = agent if isinstance(agent, str) else getattr(agent, "__name__", repr(agent))
        message = f'{what}: app {attempt.app} has no agent "{shown}".{did_you_mean(shown, attempt.surroundings.agents)}'
        raise Persistent(message)
    if wanted.rule.next(attempt.clock.now()) is None:
        message = f"{what}: {wanted.describe()} is in the past: it would never fire"
        raise Persistent(message)
    return target
