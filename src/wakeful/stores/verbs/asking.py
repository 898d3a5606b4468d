"""The alarm of an approval: it opens and resolves with the approval."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.alarm import ask_alarm
from wakeful.stores.transaction import Row, Transaction
from wakeful.stores.verbs.people import resolve_alarms

NOT_ANSWERED = "not answered in time"
SHOWN_OF_AN_ANSWER = 200
EDITED = '{"edit":'  # an answer that changes the arguments of an effect


def tell_answered(
    now: int | None, app: str, agent: str, approval: str, operator: str, answer: str
) -> Transaction[None]:
    """Resolve the alarm with the name of the person who answered, and the answer."""
    shown = answer if len(answer) <= SHOWN_OF_AN_ANSWER else f"{answer[:SHOWN_OF_AN_ANSWER]}…"
    if answer.startswith(EDITED):
        shown = "with edited arguments, which a worker checks"
    yield from resolve_alarms(now, [ask_alarm(app, agent, approval)], f"answered by {operator}: {shown}")


def expire_approval(now: int | None, run: int, key: str) -> Transaction[None]:
    """Expire an approval that was not answered in time, and resolve its alarm."""
    expired = yield "expire_approval", [(run, key)]
    if expired:
        yield from resolve_alarms(now, _keys(expired), NOT_ANSWERED)


def withdraw_approvals(now: int | None, runs: Sequence[tuple[int, str]]) -> Transaction[None]:
    """Withdraw the approvals of ended runs, given with the reason, and resolve their alarms."""
    withdrawn = yield "withdraw_approvals", [(now, run, reason) for run, reason in runs]
    if withdrawn:
        yield from resolve_alarms(now, _keys(withdrawn), f"no answer is needed any more: {runs[0][1]}")


def _keys(rows: Sequence[Row]) -> list[str]:
    return [ask_alarm(app, agent, approval) for approval, app, agent in rows]
