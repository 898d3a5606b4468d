"""Runs that are held at admission, and the policy in force: once another version is in force, their events are judged anew.

another version ──► the runs that were judged by an older one, a page at a time ──► judged by the text and the code of this process
                ──► stored, if that version is still in force; otherwise judged once more
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from wakeful.errors import PolicyMoved
from wakeful.intake.accept import Door
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.policies import Policies
from wakeful.stores.request import Doer
from wakeful.stores.tampered import Tampered
from wakeful.stores.transaction import Fetcher
from wakeful.stores.verbs.held_anew import HeldRun, JudgedRun, JudgeHeld

PAGE = 50


class HeldRuns:
    """Judges the held runs of an app anew. Several processes may do this at once: the first one counts."""

    def __init__(
        self,
        app: str,
        database: Fetcher,
        store: Doer,
        door: Door,
        policies: Policies,
        *,
        agents: Collection[str],
        process: Callable[[], str],
    ) -> None:
        """`agents`: those whose code this process has. It leaves runs of others to other processes."""
        self._app = app
        self._database = database
        self._store = store
        self._door = door
        self._policies = policies
        self._agents = agents
        self._process = process

    async def judge(self) -> None:
        """Judge those that were judged by another version than the one in force. A run whose event cannot be read stays as it is."""
        after = 0
        while (version := self._policies.readable) is not None:
            rows = await self._database.fetch("held_runs_to_judge", self._app, version, after, PAGE)
            page = [HeldRun(*row) for row in rows]
            judged = [
                await self._judged(one)
                for one in page
                if one.agent in self._agents and one.envelope and not isinstance(one.envelope, Tampered)
            ]
            if judged:
                try:
                    await self._store.do(JudgeHeld(self._app, self._process(), version, judged))
                except PolicyMoved:
                    await self._policies.look()
                    after = 0
                    continue
            if len(page) < PAGE:
                return
            after = page[-1].seq

    async def _judged(self, one: HeldRun) -> JudgedRun:
        event = from_envelope(one.envelope)
        facts = self._door.facts(one.agent, event)
        rounds = 0
        if facts.chain is not None:
            counted = await self._database.fetch("rounds_of_chain", self._app, facts.chain.root, one.agent)
            rounds = counted[0][0] if counted else 0
        return JudgedRun(one, facts.owner, self._door.judge_again(facts, rounds))
