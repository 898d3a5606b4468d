"""Wrong tokens by address."""

from __future__ import annotations

import ipaddress

from structlog.testing import capture_logs

from wakeful.http.tries import ADDRESSES, LINES, MOST, WITHIN, WrongTries, group_of


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_ten_a_minute_then_a_wait_that_gets_shorter():
    clock = Clock()
    tries = WrongTries(clock)
    for _ in range(MOST):
        assert tries.add("203.0.113.5") == 0
        clock.now += 1
    assert tries.add("203.0.113.5") == WITHIN - MOST
    clock.now += 40
    assert tries.add("203.0.113.5") == WITHIN - MOST - 40
    clock.now = 1000 + WITHIN
    assert tries.add("203.0.113.5") == 0  # the first is a minute old: there is room for one
    assert tries.add("203.0.113.5") == 1
    assert (tries.wrong, tries.slowed) == (MOST + 4, 3)


def test_addresses_are_counted_apart_and_networks_of_ipv6_together():
    tries = WrongTries(Clock())
    for number in range(MOST):
        assert tries.add(f"2001:db8::{number}") == 0
    assert tries.add("2001:db8::ffff:1") > 0
    assert tries.add("2001:db8:0:1::1") == 0
    assert tries.add("203.0.113.5") == 0
    assert group_of("::ffff:203.0.113.5") == group_of("203.0.113.5") == "203.0.113.5"
    assert group_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64"
    assert group_of(None) == group_of("no address") == "unknown"


def test_addresses_without_end_do_not_fill_the_memory_or_the_log():
    tries = WrongTries(Clock())
    with capture_logs() as lines:
        for number in range(ADDRESSES + 500):
            tries.add(str(ipaddress.IPv4Address(number)))
    assert len(tries._windows) == ADDRESSES
    assert len(lines) == LINES
    assert tries.wrong == ADDRESSES + 500


def test_each_is_logged_and_the_limit_once():
    clock = Clock()
    tries = WrongTries(clock)
    with capture_logs() as lines:
        for _ in range(MOST + 5):
            tries.add("203.0.113.5")
    assert len(lines) == MOST + 1
    assert {(line["address"], line["log_level"]) for line in lines} == {("203.0.113.5", "warning")}
