"""Policies: the texts that an app was ever given, and the one that is in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds
from wakeful.stores.request import Audit, ByPerson
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.waits import wake

Texts = Sequence[tuple[str, str]]  # name and text of each file


@dataclass(frozen=True, slots=True)
class PolicyApplied:
    """The result. `before` was in force until now; `seen`: the store had seen this text before."""

    version: str
    before: str | None
    seen: bool
    changed: bool


@dataclass(frozen=True, slots=True)
class EffectToJudge:
    """A stored effect, as far as policy needs it."""

    seq: int
    id: str
    root: str
    app: str
    agent: str
    action: str
    reference: str
    arguments: str
    attempt: int
    state: str
    opened_at: Microseconds
    rule: str | None  # the rule that allowed it, and the version of the policy
    policy: str | None
    run: str
    data: str | None  # the edited data of its run
    event: str
    envelope: str  # '' once its payload was removed


@dataclass(frozen=True, slots=True)
class AdmissionToJudge:
    """A stored event and one of the agents that it was for."""

    seq: int
    event: str
    app: str
    agent: str
    state: str
    run: str | None
    accepted_at: Microseconds
    envelope: str


@dataclass(slots=True)
class ApplyPolicy(ByPerson[PolicyApplied]):
    """Put a policy in force. After the commit no effect begins that was judged by another version.

    `only_unseen`: a process read the text from its file. A text that was in force before does not come back with a restarted
    process, but only by a person.
    """

    app: str
    version: str
    texts: Texts
    only_unseen: bool = False

    def shuts(self) -> str | None:
        return self.app

    def audit(self, result: PolicyApplied) -> Audit | None:
        return Audit("policy apply", self.app, self.version, self.note) if result.changed else None


def apply_policies(now: int | None, requests: Sequence[ApplyPolicy]) -> Transaction[list[PolicyApplied]]:
    """On PostgreSQL the gate of the app is shut at this point: no effect is being opened, and later ones see the new version."""
    results = []
    for one in requests:
        found = yield "policy_in_force", [(one.app,)]
        before = found[0][1] if found else None
        seen = bool((yield "policy_text", [(one.app, one.version)]))
        changed = before != one.version and not (seen and one.only_unseen)
        if changed:
            yield "end_policy", [(one.app, one.version)]
            yield "apply_policy", [(now, one.app, one.version, to_json(one.texts).decode(), one.by.name)]
            for (run,) in (yield "runs_that_wait_for_approval", [(one.app,)]):
                yield from wake(now, run, "the policy has changed: what it waits for is judged anew")
        results.append(PolicyApplied(one.version, before, seen, changed))
    return results


async def policy_in_force(database: Fetcher, app: str) -> str | None:
    """The version of the policy in force; None if the app has none."""
    rows = await database.fetch("policy_in_force", app)
    return rows[0][1] if rows else None


async def policy_texts(database: Fetcher, app: str, version: str) -> list[tuple[str, str]]:
    """The files of one version; empty if the store does not know it."""
    rows = await database.fetch("policy_text", app, version)
    return [(name, text) for name, text in from_json(rows[0][0])] if rows else []
