"""The transitions of a circuit: facts in, what becomes of it out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import App, Circuit
from wakeful.clock import SECOND
from wakeful.errors import ConfigError, Denied, NotSent, Persistent, RateLimited, Transient
from wakeful.execution.circuits import (
    LONGEST_REST,
    asked,
    channel_failed,
    channel_worked,
    failed,
    lets_through,
    ticked,
    verdict,
    why_parked,
    worked,
)
from wakeful.stores.verbs.circuits import CircuitChange, StoredCircuit, recovers

SETTINGS = Circuit(failures=3, rest="30s", interval="10s")
NOON = 1_000_000 * SECOND


def circuit(state: Any = "closed", **changes: Any) -> StoredCircuit:
    fresh = StoredCircuit("stripe", state, 0, None, 30 * SECOND, None, 0, None, NOON - SECOND, NOON)
    return replace(fresh, **changes)


def fail(one: StoredCircuit, run: int = 7) -> CircuitChange:
    return failed(one, SETTINGS, run=run, error="ConnectionError: refused")


class TestClosed:
    def test_opens_after_so_many_failures_in_a_row(self):
        one = circuit()
        for count in (1, 2):
            one = fail(one).circuit
            assert (one.state, one.failures) == ("closed", count)
        change = fail(one)
        assert (change.circuit.state, change.circuit.next_at) == ("open", NOON + 30 * SECOND)
        assert "open after 3 failures in a row, the last: ConnectionError: refused" in str(change.alarm)

    def test_a_success_in_between_counts_from_the_start(self):
        one = worked(fail(fail(circuit()).circuit).circuit, run=7).circuit
        assert (one.state, one.failures) == ("closed", 0)
        assert fail(one).circuit.state == "closed"

    def test_lets_everybody_through(self):
        assert lets_through(circuit(failures=2), 7)

    def test_nobody_stays_parked(self):
        assert ticked(circuit(parked=True), SETTINGS).circuit.state == "recovering"
        assert ticked(circuit(), SETTINGS).circuit == circuit()


class TestOpen:
    OPEN = circuit("open", failures=3, error="ConnectionError: refused", next_at=NOON + SECOND)

    def test_lets_nobody_through_and_says_why(self):
        assert asked(self.OPEN, run=7).circuit == self.OPEN
        assert not lets_through(self.OPEN, 7)
        assert why_parked(self.OPEN) == "circuit stripe is open: ConnectionError: refused"

    def test_what_began_before_tells_nothing_new(self):
        assert fail(self.OPEN).circuit == self.OPEN
        assert worked(self.OPEN, run=7).circuit == self.OPEN

    def test_rests_until_it_is_time(self):
        assert ticked(replace(self.OPEN, parked=True), SETTINGS).circuit.state == "open"

    def test_then_the_oldest_parked_run_probes(self):
        change = ticked(replace(self.OPEN, parked=True, next_at=NOON), SETTINGS)
        assert (change.circuit.state, change.come_back, change.probes) == ("probing", 1, True)

    def test_or_the_next_that_comes_if_nobody_is_parked(self):
        due = replace(self.OPEN, next_at=NOON)
        assert asked(due, run=7).circuit.probe_seq == 7
        assert lets_through(asked(due, run=7).circuit, 7)
        assert asked(replace(due, parked=True), run=7).circuit.state == "open"


class TestProbing:
    PROBING = circuit(
        "probing", failures=3, error="E", probe_seq=7, probe_state="running", next_at=NOON + SECOND, parked=True
    )

    def test_only_the_probe_goes_through(self):
        assert lets_through(self.PROBING, 7)
        assert not lets_through(asked(self.PROBING, run=8).circuit, 8)

    def test_only_its_word_counts(self):
        assert fail(self.PROBING, run=8).circuit == self.PROBING
        assert worked(self.PROBING, run=8).circuit == self.PROBING
        assert worked(self.PROBING, run=7).circuit.state == "recovering"

    def test_a_failure_opens_it_for_twice_as_long(self):
        again = fail(self.PROBING).circuit
        assert (again.state, again.rest, again.next_at) == ("open", 60 * SECOND, NOON + 60 * SECOND)

    def test_but_not_for_ever(self):
        one = self.PROBING
        for _ in range(30):
            one = replace(fail(one).circuit, state="probing", probe_seq=7)
        assert one.rest == LONGEST_REST == 300 * SECOND

    def test_but_for_as_long_as_it_may(self):
        patient = Circuit(rest="30s", most="100s")
        rests = []
        one = self.PROBING
        for _ in range(4):
            one = failed(replace(one, state="probing", probe_seq=7), patient, run=7, error="E").circuit
            rests.append(one.rest // SECOND)
        assert rests == [60, 100, 100, 100]

    def test_it_is_known_since_when_it_is_down(self):
        opened = fail(circuit(failures=2)).circuit
        assert opened.opened_at == NOON
        later = replace(opened, state="probing", probe_seq=7, now=NOON + 3600 * SECOND)
        change = fail(later)
        assert change.circuit.opened_at == NOON
        assert "It has been down since 1970-01-12T13:46:40Z" in str(change.alarm)
        assert "at least every 5 m 0 s" in str(change.alarm)
        assert worked(later, run=7).circuit.opened_at is None

    @pytest.mark.parametrize("ended", ["done", "dead", "cancelled", "held", "parked", None])
    def test_one_that_ends_without_a_word_is_followed_by_another(self, ended: Any):
        change = ticked(replace(self.PROBING, probe_state=ended), SETTINGS)
        assert (change.circuit.state, change.come_back, change.probes) == ("probing", 1, True)

    @pytest.mark.parametrize("under_way", ["ready", "running", "waiting"])
    def test_one_that_is_on_its_way_is_waited_for_but_not_too_long(self, under_way: Any):
        waiting = replace(self.PROBING, probe_state=under_way)
        assert ticked(waiting, SETTINGS).circuit == waiting
        assert ticked(replace(waiting, next_at=NOON), SETTINGS).come_back == 1

    def test_with_nobody_parked_the_next_that_comes_tries(self):
        alone = replace(self.PROBING, probe_state="dead", parked=False)
        after = ticked(alone, SETTINGS).circuit
        assert after.state == "open"
        assert asked(after, run=9).circuit.probe_seq == 9

    def test_that_worked_with_nobody_parked_closes_it(self):
        assert worked(replace(self.PROBING, parked=False), run=7).circuit.state == "closed"


class TestRecovering:
    def test_they_come_back_twice_as_many_every_interval(self):
        one, numbers, moment = recovers(circuit("probing", probe_seq=7, parked=True)).circuit, [], NOON
        for _ in range(5):
            change = ticked(one, SETTINGS)
            numbers.append(change.come_back)
            assert ticked(change.circuit, SETTINGS).come_back == 0
            moment += 10 * SECOND
            one = replace(change.circuit, now=moment)
        assert numbers == [1, 2, 4, 8, 16]

    def test_everybody_goes_through(self):
        assert lets_through(circuit("recovering", parked=True), 99)

    def test_a_failure_opens_it_again(self):
        again = fail(circuit("recovering", parked=True, rest=60 * SECOND, next_at=NOON)).circuit
        assert (again.state, again.rest) == ("open", 120 * SECOND)

    def test_it_closes_when_nobody_is_parked_any_more(self):
        after = ticked(circuit("recovering", failures=3, next_at=NOON + SECOND), SETTINGS).circuit
        assert (after.state, after.failures, after.next_at) == ("closed", 0, None)


class Answer(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status_code = status


class TestWhatCounts:
    @pytest.mark.parametrize("error", [TimeoutError(), ConnectionError(), Answer(503), Transient("x"), NotSent("x")])
    def test_that_it_is_down(self, error: Exception):
        assert verdict(error) == "failed"

    @pytest.mark.parametrize("error", [RateLimited(), Answer(404), Answer(422)])
    def test_that_it_is_there(self, error: Exception):
        assert verdict(error) == "worked"

    @pytest.mark.parametrize("error", [Persistent("x"), Denied("x"), PermissionError()])
    def test_nothing(self, error: Exception):
        assert verdict(error) is None


class TestSettings:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"failure": 3}, 'unknown option "failure". Did you mean "failures"?'),
            ({"failures": 0}, "failures must be a whole number from 1 up"),
            ({"rest": "soon"}, "rest: 'soon' is not a duration"),
            ({"interval": "0s"}, "interval must be at least 1ms"),
        ],
    )
    def test_wrong_ones_are_refused(self, given: dict[str, Any], said: str):
        with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
            Circuit(**given)

    @pytest.mark.parametrize("given", [["stripe"], {"stripe": 5}, {7: Circuit()}, {"": Circuit()}])
    def test_so_are_wrong_names(self, given: Any):
        with pytest.raises(ConfigError, match="circuits"):
            App("shop", circuits=given)


@given(st.lists(st.sampled_from(["fail", "work", "other fails", "ask", "tick", "park", "probe ends"]), max_size=60))
def test_whatever_happens_it_is_in_a_state_that_leads_on(words: list[str]):
    """Never two probes, never one without a rest, and from anywhere it closes once calls work and time passes."""
    one = circuit()

    def go(change: CircuitChange) -> StoredCircuit:
        after = change.circuit
        if change.probes:
            after = replace(after, probe_seq=7, probe_state="ready", parked=False) if one.parked else one
        elif change.come_back:
            after = replace(after, parked=False)
        return replace(after, now=one.now + 5 * SECOND)

    for word in [*words, *["ask", "work", "tick", "work", "tick", "tick"] * 200]:
        match word:
            case "fail":
                one = go(fail(one))
            case "work":
                one = go(worked(one, run=7))
            case "other fails":
                one = go(fail(one, run=8))
            case "ask":
                one = go(asked(one, run=7))
            case "tick":
                one = go(ticked(one, SETTINGS))
            case "park" if one.state in {"open", "probing"}:
                one = replace(one, parked=True)
            case "probe ends" if one.state == "probing":
                one = replace(one, probe_state="dead")
        assert (one.probe_seq is None) == (one.state != "probing")
        assert one.state in {"closed", "recovering"} or one.next_at is not None
        assert one.rest <= LONGEST_REST
    assert one.state == "closed"


class TestOfAChannel:
    """One process has a channel at a time, so its first message is the probe."""

    def fail(self, one: StoredCircuit) -> CircuitChange:
        return channel_failed(one, SETTINGS, error="ConnectionError: refused")

    def test_opens_after_so_many_failures_and_tells_once(self):
        one = circuit(name="channel:ops")
        changes = []
        for _ in range(6):
            changes.append(self.fail(one))
            one = changes[-1].circuit
        assert [change.circuit.state for change in changes] == ["closed"] * 2 + ["open"] * 4
        assert [change.circuit.rest // SECOND for change in changes[2:]] == [30, 60, 120, 240]
        assert [change.alarm is not None for change in changes] == [False, False, True, False, False, False]
        assert "channel ops has accepted no deliveries since 1970-01-12T13:46:40Z: 3 failures in a row" in str(
            changes[2].alarm
        )
        assert one.opened_at == NOON

    def test_the_first_message_that_goes_out_closes_it(self):
        one = circuit("open", name="channel:ops", failures=9, error="E", opened_at=NOON, next_at=NOON)
        over = channel_worked(one).circuit
        assert (over.state, over.failures, over.error, over.opened_at) == ("closed", 0, None, None)
        assert channel_worked(over).circuit == over

    def test_time_alone_changes_nothing(self):
        one = circuit("open", name="channel:ops", failures=9, opened_at=NOON, next_at=NOON + SECOND)
        assert ticked(one, SETTINGS).circuit == one


def test_a_longest_rest_that_is_shorter_than_the_first_is_refused():
    with pytest.raises(ConfigError, match=r"most='10s' is shorter than rest='30s'"):
        Circuit(most="10s")
    assert Circuit(rest="10m").most == 600 * SECOND
    assert repr(Circuit(rest="10m")) == "Circuit(failures=5, rest='10m', interval='10s', most='10m')"
    assert repr(Circuit()) == "Circuit(failures=5, rest='30s', interval='10s', most='5m')"
