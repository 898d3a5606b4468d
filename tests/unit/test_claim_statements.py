"""What a claim asks of the database: each statement is a round trip, so they do not grow with the agents."""

from __future__ import annotations

from typing import Any

import pytest

from wakeful.rate import Rate
from wakeful.stores.verbs.claim import ClaimRuns, Share, Wanted, claim_runs
from wakeful.stores.verbs.limits import Limit

PLAIN = ["claim_facts", "claim_runs", "next_due"]


def statements(
    agents: int, *, due: int = 0, limits: Limit | None = None, shares: Share | None = None, room: int | None = None
) -> list[str]:
    """The names of the statements of a claim that finds nothing to take, in their order."""
    names = [f"agent{number}" for number in range(agents)]
    wanted = Wanted([(name, 4) for name in names], True, {} if shares is None else dict.fromkeys(names, shares), room)
    request = ClaimRuns("app", "process", lambda: wanted, wanted)
    request.limits = {} if limits is None else dict.fromkeys(names, limits)
    counts = {"count_due": due, "count_running": 1, "next_due": None}
    asked: list[str] = []
    transaction = claim_runs(None, [request])
    reply: Any = None
    try:
        while True:
            name, rows = transaction.send(reply)  # type: ignore[misc]  # a claim only names queries
            asked.append(name)
            reply = [(counts[name],) for _ in rows] if name in counts else []
    except StopIteration:
        return asked


@pytest.mark.parametrize("agents", [1, 30])
def test_without_limits_and_other_processes_it_is_three(agents: int):
    assert statements(agents) == PLAIN


@pytest.mark.parametrize("agents", [1, 30])
def test_where_nothing_is_due_one_question_more_shows_that(agents: int):
    assert statements(agents, shares=Share(3, 0)) == ["claim_facts", "count_due", "next_due"]
    assert statements(agents, limits=Limit(5, Rate.read("10/s"))) == ["claim_facts", "count_due", "next_due"]


@pytest.mark.parametrize("agents", [2, 30])
def test_the_shares_of_all_agents_are_counted_together(agents: int):
    assert statements(agents, due=2, shares=Share(3, 0)) == [
        "claim_facts",
        "count_due",
        "count_running",
        "claim_runs",
        "next_due",
    ]


def test_who_has_none_takes_the_only_one_without_counting_what_runs():
    assert statements(1, due=1, shares=Share(3, 0)) == ["claim_facts", "count_due", "claim_runs", "next_due"]
    assert "count_running" in statements(1, due=1, shares=Share(3, 1))


@pytest.mark.parametrize("agents", [2, 30])
def test_the_urgent_ones_of_all_agents_are_looked_at_together(agents: int):
    assert statements(agents, room=10) == ["claim_facts", "peek_due", "next_due"]
