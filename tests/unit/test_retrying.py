"""What is told of work that is tried again for long: one alarm for each place, with the oldest failure."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from wakeful.clock import SECOND
from wakeful.errors import EncryptionKeyMissing, StoreUnavailable
from wakeful.execution.why_waiting import why_retrying
from wakeful.model import Effect, Step
from wakeful.watch.retrying import Retried, alarms_of, read, retried

NIGHT = 1_767_576_600 * SECOND
MINUTE = 60 * SECOND
DOWN = {"type": "ConnectionError", "message": "host 10.0.0.7 refused", "failure": "transient"}


def stored(since: int = NIGHT, **more: object) -> str:
    return to_json({**DOWN, "since": since, "failing": since, "until": since + 1440 * MINUTE, **more}).decode()


def found(name: str = "charge", since: int = NIGHT, **more: object) -> Retried:
    one = read("pay", name, stored(since, **more), "payments")
    assert one is not None
    return one


def test_one_alarm_for_each_place_with_the_oldest_failure():
    steps = [found(since=NIGHT + MINUTE), found("charge#2"), found("look", NIGHT + 2 * MINUTE)]
    charge, look = alarms_of("shop", steps, NIGHT + 10 * MINUTE)
    assert (charge.key, look.key) == ("retrying/shop/pay/charge", "retrying/shop/pay/look")
    assert (charge.agent, charge.owner) == ("pay", "payments")
    assert charge.text == (
        "agent pay: charge has been failing since 2026-01-05T01:30:00Z (ConnectionError: host ….….….… refused). It is retried every "
        "few minutes until 2026-01-06T01:30:00Z, and then given up; its runs continue by themselves when it works again"
    )


def test_the_text_stays_as_long_as_the_oldest_run_waits():
    early = alarms_of("shop", [found()], NIGHT + 5 * MINUTE)
    late = alarms_of("shop", [found(), found(since=NIGHT + 60 * MINUTE)], NIGHT + 90 * MINUTE)
    assert [one.text for one in early] == [one.text for one in late]


def test_a_failure_is_told_after_minutes_and_a_rate_limit_after_an_hour():
    assert alarms_of("shop", [found()], NIGHT + 4 * MINUTE) == []
    assert len(alarms_of("shop", [found()], NIGHT + 5 * MINUTE)) == 1
    limited = found(type="RateLimited", message="wait", failure="rate_limited")
    assert alarms_of("shop", [limited], NIGHT + 59 * MINUTE) == []
    (alarm,) = alarms_of("shop", [limited], NIGHT + 60 * MINUTE)
    assert alarm.key == "limited/shop/pay/charge"
    assert "has been rate limited since 2026-01-05T01:30:00Z (RateLimited: wait)" in alarm.text


def test_what_an_older_version_stored_is_left_alone():
    assert read("pay", "charge", to_json(DOWN).decode(), None) is None
    assert read("pay", "charge", None, None) is None


def test_why_a_run_waits():
    step = Step("charge:1", "charge", "retrying", error=stored())
    effect = Effect("e1", "refund", "shop:refund", "idempotent", "unknown", "[]", error=stored(until=0))
    assert why_retrying([], [step]) == (
        "step charge fails since 2026-01-05T01:30:00Z (ConnectionError: host 10.0.0.7 refused); "
        "tried until 2026-01-06T01:30:00Z"
    )
    assert why_retrying([effect], [step]).startswith("step charge (and 1 more) fails since")
    assert why_retrying([effect], []) == (
        "effect refund fails since 2026-01-05T01:30:00Z (ConnectionError: host 10.0.0.7 refused)"
    )
    assert why_retrying([Effect("e1", "refund", "r", "idempotent", "unknown", "[]")], []) == (
        "effect refund waits to be tried again"
    )


@pytest.mark.parametrize("error", [StoreUnavailable("gone for a moment"), EncryptionKeyMissing("no key")])
async def test_only_errors_that_cannot_be_read_are_left_out(error: Exception):
    """A look that the store did not answer is no look: without what fails, alarms that are open would count as over."""

    class Database:
        async def fetch(self, name: str, *parameters: Any) -> list[Any]:
            raise error

        def read_clock(self) -> None:
            return None

    if isinstance(error, StoreUnavailable):
        with pytest.raises(StoreUnavailable):
            await retried(Database(), "desk", 0)
    else:
        assert await retried(Database(), "desk", 0) == []
