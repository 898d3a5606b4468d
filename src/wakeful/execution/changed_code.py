"""A run whose code changed since it began: whether it may go on, with which records, and which records were not used."""

from __future__ import annotations

from wakeful.execution.attempt import Attempt
from wakeful.execution.deadline import is_about_approval
from wakeful.execution.endings import alarm_of_held
from wakeful.execution.handler import Handler
from wakeful.execution.remarks import is_remark
from wakeful.execution.surroundings import RunSurroundings
from wakeful.execution.versions import NewCode, is_note, not_asked_for
from wakeful.model import Claim
from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Doer
from wakeful.stores.verbs.change import NoteChange
from wakeful.stores.verbs.progress import LeaveRun
from wakeful.telemetry.logger import logger_of


class ChangedCode:
    """Handles runs whose agent's code changed."""

    def __init__(self, store: Doer, surroundings: RunSurroundings) -> None:
        self._store = store
        self._around = surroundings
        self._log = logger_of(part="executor")

    async def met(self, claim: Claim, agent: Handler, change: NewCode) -> bool:
        """Whether a run may go on with changed code. Drops its recorded steps where the agent restarts on a change."""
        claim.steps = [step for step in claim.steps if not is_note(step)]
        if change.noted:
            return True
        now = self._around.clock.now()
        way = "continue" if change.agreed else agent.options.on_change
        reason = None if change.agreed else change.why_held(way, now)
        if reason is not None:
            self._log.warning("held for a person: its code changed", run=claim.id, was=change.was, now=change.now)
            held = alarm_of_held(self._around, claim, "version", reason)
            await self._store.do(LeaveRun(claim, "held", "held", reason=reason, alarm=held, by_itself=True))
            return False
        restart = way == "restart"
        alarm = self._again_alarm(claim, change) if restart and change.before else None
        fact = change.fact(now, restarted=restart)
        await self._store.do(NoteChange(claim, fact, change.now, restart, alarm))
        if restart:
            self._log.warning(
                "its code changed: it restarts from the top", run=claim.id, was=change.was, now=change.now
            )
            claim.steps = [step for step in claim.steps if is_remark(step) or is_about_approval(step.key)]
        return True

    async def report(self, attempt: Attempt, change: NewCode) -> None:
        """Record and report recorded steps that the new code never asked for: their results were not used."""
        claim = attempt.claim
        steps = [step for step in claim.steps if not is_about_approval(step.key)]
        names = not_asked_for(steps, attempt.record.asked or ())
        if not names:
            return
        shown = ", ".join(names)
        text = (
            f"agent {claim.agent}: run {claim.id} finished without using these recorded steps: {shown}. "
            f"Its code changed meanwhile, from version {change.was} to {change.now}"
        )
        self._log.warning("its code changed: some recorded steps were not used", steps=shown, was=change.was)
        key = f"change/{self._around.app}/{claim.agent}"
        alarm = Alarm(self._around.app, key, text, claim.agent, self._around.owners.get(claim.agent))
        fact = change.unasked(names, self._around.clock.now())
        await self._store.do(NoteChange(claim, fact, alarm=alarm))

    def _again_alarm(self, claim: Claim, change: NewCode) -> Alarm:
        """An alarm for a repeated restart. One restart is intended; several of the same run may be two versions taking
        turns.
        """
        key = f"change/{self._around.app}/{claim.agent}"
        text = f"agent {claim.agent}: run {claim.id} {change.again()}; `wakeful why {claim.id}` shows each change"
        return Alarm(self._around.app, key, text, claim.agent, self._around.owners.get(claim.agent))
