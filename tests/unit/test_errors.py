"""The error tree, and how other people's errors are sorted into classes."""

from __future__ import annotations

import errno
import json
import socket
import sqlite3
import sys
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime

import asyncpg
import httpx2
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import errors
from wakeful.clock import SECOND
from wakeful.errors import (
    ClaimLost,
    CommandFailed,
    ConfigError,
    Denied,
    Failure,
    InvalidData,
    InvalidEvent,
    LockLost,
    NotSent,
    Persistent,
    RateLimited,
    StepFailed,
    StepTimeout,
    StoreUnavailable,
    Stuck,
    Transient,
    WakefulError,
    did_you_mean,
)
from wakeful.failures import classify
from wakeful.stored_errors import describe, restore


def http_error(status: int, **headers: str) -> Exception:
    request = httpx2.Request("GET", "https://example.com/")
    try:
        httpx2.Response(status, request=request, headers=headers).raise_for_status()
    except httpx2.HTTPStatusError as error:
        return error
    raise AssertionError


def invalid() -> pydantic.ValidationError:
    try:
        pydantic.TypeAdapter(int).validate_python("a")
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


class AiohttpLike(Exception):
    """Some clients carry the status on the exception itself."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def urllib_error(status: int, **headers: str) -> urllib.error.HTTPError:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return urllib.error.HTTPError("https://example.com", status, "no", message, None)


TABLE = [
    (Transient("a"), "transient"),
    (NotSent("a"), "transient"),
    (StepTimeout("a"), "transient"),
    (RateLimited(), "rate_limited"),
    (Persistent("a"), "persistent"),
    (InvalidData("a"), "persistent"),
    (StepFailed("a"), "persistent"),
    (Denied("a"), "denied"),
    (TimeoutError(), "transient"),
    (TimeoutError(), "transient"),
    (ConnectionResetError(), "transient"),
    (ConnectionRefusedError(), "transient"),
    (BrokenPipeError(), "transient"),
    (socket.gaierror(-2, "name not known"), "transient"),
    (httpx2.ConnectTimeout("slow"), "transient"),
    (httpx2.ConnectError("gone"), "transient"),
    (httpx2.ReadTimeout("slow"), "transient"),
    (OSError("who knows"), "transient"),
    (RuntimeError("who knows"), "transient"),
    (KeyError("who knows"), "transient"),
    (asyncpg.exceptions.DeadlockDetectedError("deadlock"), "transient"),
    (StoreUnavailable("gone"), "transient"),
    (PermissionError("no"), "persistent"),
    (NotImplementedError("no"), "persistent"),
    (ConfigError("no"), "persistent"),
    (InvalidEvent("no"), "persistent"),
    (invalid(), "persistent"),
    (http_error(408), "transient"),
    (http_error(500), "transient"),
    (http_error(502), "transient"),
    (http_error(503), "transient"),
    (http_error(429), "transient"),
    (http_error(429, **{"Retry-After": "1"}), "rate_limited"),
    (http_error(400), "persistent"),
    (http_error(401), "persistent"),
    (http_error(403), "persistent"),
    (http_error(404), "persistent"),
    (http_error(409), "persistent"),
    (http_error(422), "persistent"),
    (AiohttpLike(503), "transient"),
    (AiohttpLike(404), "persistent"),
    (AiohttpLike(7), "transient"),
    (urllib_error(500), "transient"),
    (urllib_error(404), "persistent"),
    (ExceptionGroup("g", [Transient("a"), RuntimeError("b")]), "transient"),
    (ExceptionGroup("g", [Transient("a"), Persistent("b")]), "persistent"),
    (ExceptionGroup("g", [Persistent("a"), Denied("b")]), "denied"),
    (ExceptionGroup("g", [RateLimited(), Transient("b")]), "transient"),
    (ExceptionGroup("g", [RateLimited(), RateLimited()]), "rate_limited"),
    (ExceptionGroup("g", [ExceptionGroup("h", [Denied("deep")])]), "denied"),
]


@pytest.mark.parametrize(
    ("error", "failure"), TABLE, ids=[f"{type(error).__name__}: {error}"[:40] for error, _ in TABLE]
)
def test_classify(error, failure):
    assert classify(error).failure == failure


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("error", "wait"),
        [
            (Transient("a", retry_after="30s"), 30 * SECOND),
            (Transient("a", retry_after=timedelta(minutes=1)), 60 * SECOND),
            (Transient("a"), None),
            (RateLimited(), SECOND),
            (RateLimited("slow down", retry_after=5), 5 * SECOND),
            (http_error(429, **{"Retry-After": "120"}), 120 * SECOND),
            (http_error(429, **{"retry-after": "1.5"}), 1_500_000),
            (urllib_error(429, **{"Retry-After": "7"}), 7 * SECOND),
            (http_error(429, **{"Retry-After": "-5"}), 0),
            (http_error(429, **{"Retry-After": "soon"}), None),
            (http_error(429, **{"Retry-After": "nan"}), None),
            (http_error(429), None),
            (ExceptionGroup("g", [RateLimited(retry_after=5), RateLimited(retry_after=9)]), 9 * SECOND),
        ],
    )
    def test_how_long_the_other_side_asked_to_wait(self, error, wait):
        assert classify(error).retry_after == wait

    def test_it_may_be_a_date(self):
        when = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        wait = classify(http_error(429, **{"Retry-After": when})).retry_after
        assert wait is not None
        assert 3500 * SECOND < wait <= 3600 * SECOND
        past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
        assert classify(http_error(429, **{"Retry-After": past})).retry_after == 0

    @pytest.mark.parametrize("value", ["inf", "1e999", "1e300", "9" * 40])
    def test_a_wait_without_end_is_cut(self, value):
        wait = classify(http_error(429, **{"Retry-After": value})).retry_after
        assert wait is None or wait <= 31 * 86400 * SECOND

    @given(st.text())
    def test_no_header_can_break_it(self, value):
        error = AiohttpLike(429)
        error.headers = {"Retry-After": value}  # type: ignore[attr-defined]
        assert classify(error).failure in {"transient", "rate_limited"}


class Trouble(Exception):
    pass


class Demanding(Exception):
    def __init__(self, code: int, *, where: str) -> None:
        super().__init__(f"{code} at {where}")


class TestStored:
    def test_what_is_stored_of_an_error(self):
        try:
            raise Trouble("it broke")
        except Trouble as error:
            stored = describe(error)
        assert stored["type"] == "Trouble"
        assert stored["message"] == "it broke"
        assert stored["failure"] == "transient"
        assert 'raise Trouble("it broke")' in stored["traceback"]
        json.dumps(stored)

    @pytest.mark.parametrize("message", ["a\0b", "a\ud800b", "", "x" * 1_000_000])
    def test_its_words_can_always_be_stored(self, message):
        stored = describe(Trouble(message))
        assert "\0" not in stored["message"]
        stored["message"].encode()
        assert 0 < len(stored["message"]) < 10_000
        assert len(stored["traceback"]) < 10_000

    def test_words_that_fail_do_not_fail_it(self):
        class Unspeakable(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        assert describe(Unspeakable())["type"] == "Unspeakable"

    @pytest.mark.parametrize(
        "error", [Trouble("a"), Demanding(7, where="home"), ValueError("x"), Persistent("p"), OSError("o")]
    )
    def test_it_comes_back_as_its_own_class(self, error):
        again = restore(json.loads(json.dumps(describe(error))))
        assert type(again) is type(error)
        assert str(again) == str(error)

    @pytest.mark.parametrize(
        "error", [http_error(404), http_error(500), Denied("no"), RateLimited(), invalid(), Trouble("a")]
    )
    def test_it_keeps_its_class_of_failure(self, error):
        stored = describe(error)
        again = restore(stored)
        if not isinstance(again, StepFailed):
            assert classify(again).failure == stored["failure"]

    @pytest.mark.parametrize(
        "kind",
        [
            "no.such.module:Error",
            "builtins:NoSuchError",
            "builtins:int",
            "builtins:BaseException",
            "",
            ":",
            "os:system",
        ],
    )
    def test_a_class_that_cannot_be_found_is_a_step_failed(self, kind):
        again = restore({"type": "Gone", "kind": kind, "message": "words"})
        assert (type(again), str(again)) == (StepFailed, "Gone: words")

    def test_nothing_is_imported_for_it(self):
        assert "antigravity" not in sys.modules
        restore({"type": "X", "kind": "antigravity:X", "message": ""})
        assert "antigravity" not in sys.modules


class TestTree:
    def test_everything_is_a_wakeful_error(self):
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
        assert all(issubclass(kind, WakefulError) for kind in kinds)
        assert len(kinds) > 15

    def test_every_error_is_drawn(self):
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WakefulError)]
        assert errors.__doc__ is not None
        assert [kind.__name__ for kind in kinds if kind.__name__ not in errors.__doc__] == []

    def test_what_users_raise_is_a_failure(self):
        assert all(issubclass(kind, Failure) for kind in (Transient, Persistent, Denied, RateLimited, NotSent))
        assert issubclass(StepTimeout, TimeoutError)
        assert not issubclass(ClaimLost, Failure)


def test_did_you_mean():
    assert did_you_mean("atempts", ["attempts", "backoff"]) == ' Did you mean "attempts"?'
    assert did_you_mean("zzz", ["b", "a"]) == " Known: a, b."
    assert did_you_mean("zzz", []) == ""
    assert did_you_mean("zzz", [str(n) for n in range(20)]).endswith(", ….")


class DriverError(Exception):
    pass


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def named(name: str, base: type[Exception] = Exception, module: str = "client.errors") -> Exception:
    return type(name, (base,), {"__module__": module})("down")


class TestWhatIsKnownToBeAnOutage:
    @pytest.mark.parametrize(
        "error",
        [
            TimeoutError(),
            ConnectionRefusedError(),
            socket.gaierror(),
            Transient("not now"),
            NotSent("nobody there"),
            StoreUnavailable("no answer"),
            OSError(errno.EHOSTUNREACH, "no route"),
            urllib.error.URLError(ConnectionRefusedError()),
            httpx2.ConnectError("all connection attempts failed"),
            httpx2.ReadTimeout("slow"),
            httpx2.RemoteProtocolError("server disconnected"),
            caused(DriverError("no"), caused(RuntimeError("inner"), ConnectionResetError())),
            named("APIConnectionError"),
            named("Timeout"),
            named("ClientConnectorError"),
            named("ServerDisconnectedError"),
            named("ServiceUnavailable"),
            named("Deeper", type("ConnectTimeout", (Exception,), {})),
            named("OperationalError", module="psycopg.errors"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_lasts(self, error: Exception):
        verdict = classify(error)
        assert (verdict.failure, verdict.lasting) == ("transient", True)
        assert "lasting" not in describe(error)

    @pytest.mark.parametrize(
        "error",
        [
            KeyError("typo"),
            RuntimeError("?"),
            CommandFailed("exit 1"),
            Stuck("an hour"),
            LockLost("late"),
            OSError(errno.ENOENT, "no such file"),
            sqlite3.OperationalError("no such table"),
            named("ConnectionStringInvalid"),
            ExceptionGroup("both", [TimeoutError(), KeyError("typo")]),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_anything_else_is_bounded(self, error: Exception):
        verdict = classify(error)
        assert (verdict.failure, verdict.lasting) == ("transient", False)
        assert describe(error)["lasting"] is False

    def test_is_known_of_a_stored_error_too(self):
        assert classify(restore(describe(KeyError("typo")))).lasting is False
        assert classify(restore(describe(TimeoutError("slow")))).lasting is True

    def test_a_cause_that_is_its_own_cause_ends(self):
        one, other = RuntimeError("one"), RuntimeError("other")
        one.__cause__, other.__cause__ = other, one
        assert classify(one).lasting is False
