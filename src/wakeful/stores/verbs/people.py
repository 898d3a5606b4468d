"""Alarms for people, and the record of people's operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wakeful.stores.alarm import Alarm
from wakeful.stores.request import Audit, Bulk, ByPerson, Request, Way
from wakeful.stores.transaction import Transaction


@dataclass(slots=True)
class RaiseAlarm(Request[None]):
    """Open or refresh an alarm."""

    alarm: Alarm

    def alarming(self) -> bool:
        return True


@dataclass(slots=True)
class RecordOperation(Request[None]):
    """Record a person's operation."""

    operator: str
    verb: str
    app: str | None = None
    target: str | None = None
    detail: str | None = None
    way: Way | None = None
    proved: bool = False


def raise_alarms(now: int | None, requests: Sequence[RaiseAlarm]) -> Transaction[list[None]]:
    yield from open_alarms(now, [request.alarm for request in requests])
    return [None] * len(requests)


def open_alarms(now: int | None, alarms: Sequence[Alarm]) -> Transaction[None]:
    ordered = sorted(alarms, key=lambda alarm: alarm.key)
    yield (
        "raise_alarm",
        [
            (
                now,
                alarm.key,
                alarm.app,
                alarm.text,
                alarm.agent,
                alarm.owner,
                int(alarm.loud),
                alarm.addressee,
                alarm.remind_at,
                alarm.cause,
            )
            for alarm in ordered
        ],
    )


def resolve_alarms(now: int | None, keys: Sequence[str], ending: str | None = None) -> Transaction[None]:
    """`ending` says how they ended, if that is known: who did what."""
    yield "resolve_alarm", [(now, key, ending) for key in sorted(keys)]


def record_operations(now: int | None, requests: Sequence[RecordOperation]) -> Transaction[list[None]]:
    yield (
        "insert_operation",
        [(now, one.app, one.operator, one.way, int(one.proved), one.verb, one.target, one.detail) for one in requests],
    )
    return [None] * len(requests)


def write_audits(now: int | None, requests: Sequence[Request[Any]], results: Sequence[Any]) -> Transaction[None]:
    """Record who did what, from each request and its result. A refused request records nothing. The slices of one bulk operation share
    a row, which counts what was done so far.
    """
    acts: list[tuple[ByPerson[Any], Audit]] = []
    counts: dict[str, tuple[ByPerson[Any], Bulk, int]] = {}
    for request, result in zip(requests, results, strict=True):
        if not isinstance(request, ByPerson) or isinstance(result, Exception):
            continue
        if request.bulk is not None:
            _, _, before = counts.get(request.bulk.id, (None, None, 0))
            counts[request.bulk.id] = (request, request.bulk, before + request.counted(result))
        elif (row := request.audit(result)) is not None:
            acts.append((request, row))
    if acts:
        apps = yield from _apps_of([row for _, row in acts])
        yield (
            "insert_operation",
            [
                (
                    now,
                    row.app or apps.get(row.subject),
                    one.by.name,
                    one.by.way,
                    int(one.by.proved),
                    row.verb,
                    row.subject,
                    row.note,
                )
                for one, row in acts
            ],
        )
    for choice in sorted(counts):
        request, bulk, done = counts[choice]
        found = yield "find_choice", [(choice,)]
        done += found[0][0] if found else 0
        if bulk.of is None and bulk.tells is None and not done:
            continue  # was already done
        by, words = request.by, bulk.words(done, request.note)
        told = (bulk.app, by.name, by.way, int(by.proved), bulk.verb, bulk.subject, words)
        yield "count_operation", [(now, *told, choice, done)]


def _apps_of(acts: Sequence[Audit]) -> Transaction[dict[str | None, str]]:
    """The apps of runs, effects, approvals and deliveries that acts are about, by the subjects of those acts that name no app."""
    runs = {one.subject: one.subject.partition("-")[0] for one in acts if one.app is None and one.subject is not None}
    if not runs:
        return {}
    found = yield (
        "app_of_subject",
        [(one,) for one in sorted(set(runs.values()))],
    )  # a delivery's id begins with that of its run
    apps = {row[0]: row[1] for row in found}
    return {subject: apps[one] for subject, one in runs.items() if one in apps}
