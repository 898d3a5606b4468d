"""What to do after a failure: a decision, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import Operation, action
from wakeful.clock import SECOND, duration
from wakeful.errors import ConfigError, Denied, Persistent, RateLimited, Transient
from wakeful.execution.aftermath import CallFacts
from wakeful.execution.aftermath import after as after_a_call
from wakeful.functions.options import AgentOptions, Backoff, StepOptions, as_backoff, options_of, read_options, step
from wakeful.functions.retry import SINCE, FailureStreak, GiveUp, Retry, decide, signature, streak_of

BACKOFF = Backoff(first="1s", factor=2, cap="10s")


def after(error: Exception, failures: int = 1, attempts: int = 3, backoff: Backoff = BACKOFF) -> Retry | GiveUp:
    return decide(error, failures=failures, attempts=attempts, backoff=backoff, chance=random.Random(1))


def test_the_table():
    assert after(Denied("no")) == GiveUp("denied", denied=True)
    assert after(Persistent("no")) == GiveUp("will fail the same way again")
    assert after(RateLimited(retry_after="7s")) == Retry(7 * SECOND, counts=False, reason="rate limited")
    assert after(RateLimited(retry_after="7s"), failures=99, attempts=1) == Retry(
        7 * SECOND, counts=False, reason="rate limited"
    )
    told = after(Transient("busy", retry_after="7s"))
    assert told == Retry(7 * SECOND, counts=True, reason="failed 1 of 3, told when to retry")
    assert after(Transient("busy"), failures=3) == GiveUp("failed 3 times, 3 allowed")
    assert after(Transient("busy"), failures=1, attempts=1) == GiveUp("failed, one attempt allowed")
    again = after(RuntimeError("who knows"), failures=2)
    assert isinstance(again, Retry)
    assert (again.counts, again.reason) == (True, "failed 2 of 3")


class Busy(Exception):
    """As an HTTP client would raise it."""

    def __init__(self, status: int, retry_after: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code, self.headers = status, {"Retry-After": retry_after}


AT_ONCE = [Transient("busy", retry_after=0), Transient("busy", retry_after="1ms"), Busy(503, "0"), Busy(503, "-5")]


@pytest.mark.parametrize("error", AT_ONCE, ids=str)
def test_a_server_that_says_at_once_is_not_called_as_fast_as_it_answers_for_a_day(error: Exception):
    chance = random.Random(1)
    waits = [
        decide(error, failures=failures, attempts=None, backoff=BACKOFF, chance=chance).delay  # type: ignore[union-attr]
        for failures in range(1, 100)
    ]
    assert sum(waits) > 99 * 2 * SECOND
    assert max(waits) <= duration(BACKOFF.cap)
    bounded = after(error)
    assert isinstance(bounded, Retry)
    assert bounded.delay <= 1_000

    @action(safety="idempotent", backoff=BACKOFF)
    async def post(op: Operation) -> None: ...

    waits = [
        after_a_call(post, error, CallFacts(tries=tries, age=0, since_call=0), chance=chance.uniform).delay  # type: ignore[union-attr]
        for tries in range(1, 100)
    ]
    assert sum(waits) > 99 * 2 * SECOND


def test_a_rate_limit_of_no_time_is_a_second():
    @action(safety="idempotent", backoff=BACKOFF)
    async def post(op: Operation) -> None: ...

    for error in (RateLimited(retry_after=0), Busy(429, "0")):
        assert after(error) == Retry(SECOND, counts=False, reason="rate limited")
        step = after_a_call(post, error, CallFacts(tries=1, age=0, since_call=0), chance=random.Random(1).uniform)
        assert step.delay == SECOND  # type: ignore[union-attr]


NIGHT = 1_767_576_600 * SECOND
DAY = duration("24h")


def row_of(*errors: Exception, every: int = 60 * SECOND) -> tuple[Retry | GiveUp, FailureStreak]:
    """The decision after these failures, one a minute, without `attempts=`."""
    trouble, decision = FailureStreak(), GiveUp("nothing happened")
    for number, error in enumerate(errors):
        now = NIGHT + number * every
        trouble = trouble.more(error, now)
        decision = decide(  # type: ignore[assignment]
            error,
            failures=number + 1,
            attempts=None,
            backoff=BACKOFF,
            chance=random.Random(1),
            unknown_attempts=3,
            trouble=trouble,
            now=now,
        )
    return decision, trouble


class TestWithoutAttempts:
    def test_an_outage_is_put_up_with_for_a_day(self):
        minutes = DAY // (60 * SECOND)
        decision, trouble = row_of(*[ConnectionError("refused")] * minutes)
        assert isinstance(decision, Retry)
        assert decision.reason == "failing since 2026-01-05T01:30:00Z, tried until 2026-01-06T01:30:00Z"
        assert trouble == FailureStreak(NIGHT, NIGHT, minutes, 0)
        decision, _ = row_of(*[ConnectionError("refused")] * (minutes + 1))
        assert decision == GiveUp("failing for 1 d 0 h, since 2026-01-05T01:30:00Z")

    def test_an_unknown_kind_has_bounded_attempts(self):
        assert isinstance(row_of(*[KeyError("typo")] * 2)[0], Retry)
        assert row_of(*[KeyError("typo")] * 3)[0] == GiveUp("failed 3 times, 3 allowed")

    def test_only_the_unknown_ones_are_counted(self):
        night = [TimeoutError()] * 300
        assert isinstance(row_of(*night, KeyError("typo"), KeyError("typo"), *night)[0], Retry)
        assert isinstance(row_of(*night, *[KeyError("typo")] * 3)[0], GiveUp)

    def test_a_rate_limit_shows_that_the_other_side_is_there(self):
        minutes = DAY // (60 * SECOND)
        decision, trouble = row_of(
            *[ConnectionError()] * minutes, RateLimited(retry_after="1s"), *[ConnectionError()] * 5
        )
        assert isinstance(decision, Retry)
        assert trouble.since == NIGHT  # what people are told
        assert trouble.failing == NIGHT + (minutes + 1) * 60 * SECOND  # what is counted

    def test_an_error_that_was_failing_before_it_came_here_keeps_its_time(self):
        error = ConnectionError("refused")
        setattr(error, SINCE, NIGHT - DAY)
        assert isinstance(row_of(error)[0], GiveUp)

    def test_what_is_stored_is_read_again(self):
        _, trouble = row_of(ConnectionError(), KeyError())
        assert streak_of(trouble.as_json(), trouble.failures) == trouble
        assert streak_of({}, 2) == FailureStreak(failures=2)  # by a version that stored nothing


@given(failures=st.integers(1, 200), seed=st.integers())
def test_the_wait_is_between_nothing_and_the_ceiling(failures, seed):
    decision = decide(Transient("x"), failures=failures, attempts=1_000, backoff=BACKOFF, chance=random.Random(seed))
    assert isinstance(decision, Retry)
    assert 0 <= decision.delay <= min(10, 2 ** (failures - 1)) * SECOND


def test_the_wait_is_spread_over_the_whole_range():
    chance = random.Random(7)
    delays = [
        decision.delay
        for _ in range(1000)
        if isinstance(decision := decide(Transient("x"), failures=4, attempts=9, backoff=BACKOFF, chance=chance), Retry)
    ]
    assert min(delays) < 0.5 * SECOND
    assert max(delays) > 7.5 * SECOND
    assert 3.5 * SECOND < sum(delays) / len(delays) < 4.5 * SECOND


class TestBackoff:
    @pytest.mark.parametrize(("tries", "ceiling"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10), (5_000, 10)])
    def test_the_ceiling_doubles_up_to_the_cap(self, tries, ceiling):
        assert BACKOFF.ceiling(tries) == ceiling * SECOND

    def test_a_factor_beyond_all_measure_stays_under_the_cap(self):
        assert Backoff(factor=1e30, cap="1m").ceiling(100) == 60 * SECOND

    def test_a_duration_stands_for_one_that_begins_there(self):
        assert as_backoff("5s", where="here") == Backoff(first="5s")
        assert as_backoff(BACKOFF, where="here") is BACKOFF

    @pytest.mark.parametrize(
        "value", ["soon", None, Backoff(first="x"), Backoff(cap="x"), [], -1, Backoff(factor=-2), Backoff(cap=-1)]
    )
    def test_what_is_none_is_refused_with_its_place(self, value):
        with pytest.raises(ConfigError, match="here: backoff"):
            as_backoff(value, where="here")


class TestOptions:
    def test_defaults(self):
        assert AgentOptions() == AgentOptions(None, None, Backoff(), None, None, 5)
        assert (StepOptions().attempts, StepOptions().timeout) == (None, None)
        assert StepOptions().backoff == Backoff(first="500ms", cap="5m")

    def test_durations_are_read(self):
        assert read_options(AgentOptions, {"deadline": "10m"}, where="x").deadline == duration("10m")
        assert read_options(StepOptions, {"timeout": 1.5}, where="x").timeout == 1_500_000

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"atempts": 3}, 'unknown option "atempts". Did you mean "attempts"?'),
            ({"attempts": 0}, "attempts must be a whole number from 1 up, not 0"),
            ({"attempts": True}, "attempts must be a whole number"),
            ({"attempts": "3"}, "attempts must be a whole number"),
            ({"concurrency": -1}, "concurrency must be"),
            ({"max_crashes": 0}, "max_crashes must be"),
            ({"deadline": "soon"}, "deadline: 'soon' is not a duration"),
            ({"deadline": 0}, "deadline must be at least 1ms"),
            ({"owner": ""}, "owner must be a non-empty text"),
            ({"backoff": "soon"}, "backoff"),
        ],
    )
    def test_mistakes_are_refused_in_one_line(self, options, words):
        with pytest.raises(ConfigError) as caught:
            read_options(AgentOptions, options, where="agent x (app.py:3)")
        assert str(caught.value).startswith("agent x (app.py:3): ")
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_step_keeps_its_function_and_carries_its_settings(self):
        @step(timeout="30s", attempts=7)
        def fetch(number: int) -> int:
            return number

        assert fetch(3) == 3
        assert (options_of(fetch).timeout, options_of(fetch).attempts) == (30 * SECOND, 7)
        assert options_of(len) == StepOptions()

    def test_a_step_without_brackets(self):
        @step
        def fetch() -> int:
            return 1

        assert fetch() == 1
        assert options_of(fetch) == StepOptions()

    @pytest.mark.parametrize("options", [{"key": 7}, {"name": ""}, {"timeout": "0s"}, {"retries": 3}])
    def test_mistakes_on_a_step_name_it(self, options):
        with pytest.raises(ConfigError, match="@step on fetch"):

            @step(**options)
            def fetch() -> None: ...


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("order 17 failed", "order 99 failed", True),
        ("user 'ann' unknown", "user 'bob' unknown", True),
        ("object at 0x7f1a2b3c", "object at 0x55aa", True),
        ("run 3f2a9c0d1e is gone", "run 9b8a7c6d5e is gone", True),
        ("first line\nsecond", "first line\nother", True),
        ("no address", "paid twice", False),
    ],
)
def test_a_signature_leaves_out_what_differs_from_case_to_case(one, other, same):
    assert (signature("Error", one) == signature("Error", other)) is same
    assert signature("Error", one) != signature("Other", one)
    assert len(signature("Error", "x" * 10_000)) < 200
