"""The sources of a process in /readyz."""

from __future__ import annotations

from support.fake_api import Api


def test_a_failing_source_is_shown_and_makes_nobody_unready():
    api = Api(sources=lambda: {"reading": 2, "failing": 1})
    answer = api.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["parts"]["sources"] == {"ok": False, "reading": 2, "failing": 1}
