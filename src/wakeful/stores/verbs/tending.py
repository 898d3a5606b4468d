"""Open approvals as time passes: more people may answer after an escalation, and a run that was not approved in time is denied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json, to_json

from wakeful.stores.alarm import Alarm, ask_alarm
from wakeful.stores.request import ANYTHING, Ready, Request
from wakeful.stores.transaction import Fetcher, Transaction
from wakeful.stores.verbs.asking import NOT_ANSWERED
from wakeful.stores.verbs.held_admissions import deny_run
from wakeful.stores.verbs.people import open_alarms, resolve_alarms
from wakeful.stores.verbs.votes import widened


@dataclass(slots=True)
class TendApprovals(Request[int]):
    """Widen the approvals of an app whose escalation is due, and end those about runs whose time is over. Returns how many there were.
    Any process may do this: each approval is locked and read again.
    """

    app: str
    woken: list[tuple[str, str]] = field(default_factory=list)

    def alarming(self) -> bool:
        return True

    def readies(self) -> Ready | None:
        return ANYTHING


def tend_approvals(now: int | None, requests: Sequence[TendApprovals]) -> Transaction[list[int]]:
    results = []
    for request in requests:
        rows = yield "approvals_to_tend", [(now, request.app)]
        for row in rows:
            yield from _tend(now, request, row)
        results.append(len(rows))
    return results


def _tend(now: int | None, request: TendApprovals, row: Sequence[object]) -> Transaction[None]:
    identifier, agent, seq, kind, question, approvers, escalations, asked_at, due_at, over, rule, owner = row
    if over and kind == "run":
        if (yield "expire_run_approval", [(identifier,)]):
            request.woken += yield from deny_run(now, seq, f"{rule}: not approved in time")  # type: ignore[arg-type]
            yield from resolve_alarms(now, [ask_alarm(request.app, str(agent), str(identifier))], NOT_ANSWERED)
        return
    left = from_json(str(escalations)) if escalations else []
    by = from_json(str(approvers)) if approvers else []
    more: list[str] = []
    if left:
        (_, more), *left = left
    ends = due_at if kind == "run" else None  # an effect's own run ends its approval
    times = [int(asked_at) + int(left[0][0])] if left else []  # type: ignore[call-overload]
    times += [] if ends is None else [int(ends)]  # type: ignore[call-overload]
    wider = to_json(widened(by, more)).decode() if by else None  # anybody stays anybody
    yield "widen_approval", [(identifier, wider, to_json(left).decode() if left else None, min(times, default=None))]
    if more:
        text = f"{question} (no answer so far: {', '.join(more)} may answer too)"
        key = ask_alarm(request.app, str(agent), str(identifier))
        everybody = ", ".join(widened(by, more))
        remind_at = None if due_at is None else int(asked_at) + (int(due_at) - int(asked_at)) * 3 // 4  # type: ignore[call-overload]
        told = Alarm(request.app, key, text, str(agent), owner, addressee=everybody, remind_at=remind_at)  # type: ignore[arg-type]
        yield from open_alarms(now, [told])
        yield "tell_alarm_again", [(now, key)]


async def first_to_tend(database: Fetcher, app: str) -> int | None:
    """How long until an approval is to be looked at; None if there is none."""
    rows = await database.fetch("first_to_tend", database.read_clock(), app)
    return rows[0][0] if rows else None
