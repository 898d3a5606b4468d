"""What work costs is recorded, and stays so until a change means it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from docs.pages import ROOT


@pytest.fixture
def ledger(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import ledger

    return ledger


def test_no_cost_has_grown():
    done = subprocess.run(
        [sys.executable, "-m", "wakeful", "bench", "--count"], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_page_has_the_numbers_of_the_ledger(ledger):
    made = ledger.made_part(ledger.PAGE.read_text(encoding="utf-8"))
    assert made == ledger.tables(ledger.read()), "make the tables anew with `wakeful bench --count --write`"


def test_everything_is_recorded_for_both_stores(ledger):
    found = ledger.read()
    assert list(found["databases"]) == [f"{name}/{store}" for name in ledger.WORDS for store in ledger.STORES]
    for costs in found["databases"].values():
        assert list(costs) == list(ledger.DATABASE)
    for versions in found["python"].values():
        assert list(versions) == list(found["databases"])
        assert all("calls" in costs for costs in versions.values())


def test_a_number_that_grew_is_named_with_what_to_do(ledger):
    before = {"run/sqlite": {"statements": 26, "calls": 778}, "http/postgres": {"statements": 1}}
    now = {"run/sqlite": {"statements": 27, "calls": 830}, "http/postgres": {"statements": 2}}
    lines, grown = ledger.verdict(ledger.compare(before, now))
    assert grown
    assert lines[:2] == [
        "a run with three steps, SQLite: Python calls grew from 778 to 830 (+6.7%)",
        "an event over HTTP, PostgreSQL: statements grew from 1 to 2 (+100.0%)",
    ]
    assert "wakeful bench --count --detail --only run --only http" in lines[2]
    assert "wakeful bench --count --write" in lines[2]


def test_what_grew_from_nothing_has_grown(ledger):
    lines, grown = ledger.verdict(ledger.compare({"idle/sqlite": {"rows": 0}}, {"idle/sqlite": {"rows": 0.2}}))
    assert grown
    assert "rows written grew from 0 to 0.2" in lines[0]


def test_within_the_tolerance_nothing_is_told(ledger):
    assert ledger.compare({"run/sqlite": {"calls": 1000}}, {"run/sqlite": {"calls": 1050}}) == []


def test_what_became_cheaper_is_told_and_no_failure(ledger):
    lines, grown = ledger.verdict(ledger.compare({"run/sqlite": {"calls": 1000}}, {"run/sqlite": {"calls": 900}}))
    assert not grown
    assert lines[0] == "a run with three steps, SQLite: Python calls fell from 1,000 to 900 (-10.0%)"


def test_a_python_that_is_not_recorded_is_compared_by_what_databases_do(ledger):
    found = {"databases": {"run/sqlite": {"statements": 26}}, "python": {"3.11": {"run/sqlite": {"calls": 778}}}}
    assert ledger.recorded(found, "3.11") == {"run/sqlite": {"statements": 26, "calls": 778}}
    assert ledger.recorded(found, "3.99") == {"run/sqlite": {"statements": 26}}
