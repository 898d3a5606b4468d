"""The failure class of an exception: transient, rate limited, persistent or denied; and whether it is an outage."""

from __future__ import annotations

import asyncio
import errno
import math
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

from wakeful.clock import SECOND, Microseconds, duration
from wakeful.errors import (
    ConfigError,
    Denied,
    Failure,
    FailureClass,
    IdempotencyConflict,
    InvalidEvent,
    InvalidTime,
    NotFound,
    PayloadTampered,
    Persistent,
    RateLimited,
    SchemaMismatch,
    StoreUnavailable,
    TooLate,
    Transient,
)


@dataclass(frozen=True, slots=True)
class Classified:
    """The failure class of an exception, and the wait that the other side asked for. `lasting`: the failure is a known
    outage, and outages last; an exception of an unknown kind is more often a mistake in the code.
    """

    failure: FailureClass
    retry_after: Microseconds | None = None
    lasting: bool = True


# Clients have their own outage classes, under these names (httpx, requests, aiohttp, redis, asyncpg, boto, the SDKs of
# models). The name only decides whether it is an outage: the failure class is transient either way.
OUTAGES = re.compile(
    r"(Time(d)?out(Error|Exception)?|TimedOut|Connect(ion|or)?(Error|Exception|Failure)|ConnectionClosed\w*"
    r"|(Server)?Disconnected(Error)?|NetworkError|RemoteProtocolError|ProxyError|CannotConnectNowError"
    r"|TooManyConnectionsError|(Service|Temporarily|Currently)?Unavailable(Error)?)$"
)


# Drivers whose OperationalError means that the database is unreachable. For sqlite3 it can also be a mistake in the
# SQL.
DRIVERS = frozenset({"psycopg", "psycopg2", "pymysql", "MySQLdb", "mysql", "oracledb"})


NETWORK = frozenset(
    getattr(errno, name)
    for name in (
        "ENETDOWN",
        "ENETUNREACH",
        "EHOSTDOWN",
        "EHOSTUNREACH",
        "ECONNREFUSED",
        "ECONNRESET",
        "ETIMEDOUT",
        "EPIPE",
    )
    if hasattr(errno, name)
)


CAUSES_FOLLOWED = 8
TOO_MANY_REQUESTS = 429
REQUEST_TIMEOUT = 408
KNOWN_FAILURE = "__wakeful_failure__"
KNOWN_LASTING = "__wakeful_lasting__"


# The first row whose exceptions match decides. HTTP errors are classified by their status before this table. An
# exception that no row lists counts as transient, with bounded attempts: giving up too early loses work.
CLASSES: tuple[tuple[tuple[type[BaseException], ...], FailureClass], ...] = (
    ((Denied,), "denied"),
    ((RateLimited,), "rate_limited"),
    ((Persistent,), "persistent"),
    ((Transient,), "transient"),
    ((TimeoutError, asyncio.TimeoutError, ConnectionError, socket.gaierror, InterruptedError), "transient"),
    ((StoreUnavailable,), "transient"),
    ((PermissionError, NotImplementedError), "persistent"),
    ((ConfigError, InvalidEvent, InvalidTime, IdempotencyConflict, TooLate, NotFound, SchemaMismatch), "persistent"),
    ((PayloadTampered,), "persistent"),
)
LONGEST_RETRY_AFTER: Microseconds = 7 * 86400 * SECOND


def classify(error: BaseException) -> Classified:
    """The failure class of an exception: see CLASSES. HTTP errors of any client are classified by their status."""
    if (
        known := getattr(error, KNOWN_FAILURE, None)
    ) is not None:  # read back from storage, where its real class is lost
        return Classified(known, getattr(error, "retry_after", None), getattr(error, KNOWN_LASTING, True))
    if isinstance(error, Failure):
        retry_after = getattr(error, "retry_after", None)
        for kinds, failure in CLASSES:
            if isinstance(error, kinds):
                return Classified(failure, retry_after, getattr(error, "lasting", True))
    status = http_status(error)
    if status is not None:
        return _classify_status(status, error)
    for kinds, failure in CLASSES:
        if isinstance(error, kinds):
            return Classified(failure)
    if isinstance(error, BaseExceptionGroup):
        return _classify_group(error)
    if type(error).__name__ == "ValidationError":  # pydantic's and similar ones: the same data fails again
        return Classified("persistent")
    return Classified("transient", lasting=is_outage(error))


def is_outage(error: BaseException) -> bool:
    """Whether an exception of an unknown class comes from an outage: by the names of its classes, its errno, or its
    cause.
    """
    seen: BaseException | None = error
    for _ in range(CAUSES_FOLLOWED):
        if seen is None:
            return False
        if isinstance(seen, TimeoutError | ConnectionError | socket.gaierror) or _is_named_outage(type(seen)):
            return True
        if isinstance(seen, OSError) and seen.errno in NETWORK:
            return True
        reason = getattr(seen, "reason", None)  # of urllib's URLError
        seen = reason if isinstance(reason, BaseException) else seen.__cause__
    return False


def _is_named_outage(kind: type[BaseException]) -> bool:
    for one in kind.__mro__:
        if OUTAGES.search(one.__name__):
            return True
        if one.__name__ == "OperationalError" and one.__module__.partition(".")[0] in DRIVERS:
            return True
    return False


def _classify_group(group: BaseExceptionGroup[BaseException]) -> Classified:
    """A TaskGroup's errors count as the worst of them: denied, then persistent, then the longest wait."""
    verdicts = [classify(inner) for inner in group.exceptions]
    order: tuple[FailureClass, ...] = ("denied", "persistent", "transient", "rate_limited")
    worst = min(verdicts, key=lambda verdict: order.index(verdict.failure))
    waits = [verdict.retry_after for verdict in verdicts if verdict.retry_after is not None]
    lasting = all(verdict.lasting for verdict in verdicts if verdict.failure == worst.failure)
    return Classified(worst.failure, max(waits) if waits else None, lasting)


def http_status(error: BaseException) -> int | None:
    """The HTTP status of an exception from any client (httpx, requests, aiohttp, urllib, SDKs), or None."""
    response = getattr(error, "response", None)
    for holder, name in ((response, "status_code"), (error, "status_code"), (error, "status"), (error, "code")):
        status = getattr(holder, name, None)
        if isinstance(status, int) and 400 <= status <= 599:
            return int(status)
    return None


def _classify_status(status: int, error: BaseException) -> Classified:
    wait = _retry_after(error)
    if status == TOO_MANY_REQUESTS and wait is not None:
        return Classified("rate_limited", wait)
    if status in {REQUEST_TIMEOUT, TOO_MANY_REQUESTS} or status >= 500:
        return Classified("transient", wait)
    return Classified("persistent")


def _retry_after(error: BaseException) -> Microseconds | None:
    """The Retry-After header of an HTTP error: seconds, or a date."""
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    try:
        text = cast("Mapping[str, str]", headers).get("Retry-After") or cast("Mapping[str, str]", headers).get(
            "retry-after"
        )
    except (AttributeError, TypeError):
        return None
    if not text:
        return None
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    if math.isnan(wait):
        return None
    return duration(min(max(0.0, wait), LONGEST_RETRY_AFTER / SECOND))
