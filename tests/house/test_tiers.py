"""Which tests `make test` runs: `support/tiers.py` decides."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support import durations
from support.tiers import ON_BOTH_STORES, RULES, Case, first_tier, read_slow

ROOT = Path(__file__).parents[2]
FLEET = ROOT.glob("tests/fleet/test_*.py")


def cases(suite: str, count: int, **more: object) -> list[Case]:
    return [
        Case(f"tests/{suite}/test_it.py::test_{number}", suite, "test_it.py", **more)  # type: ignore[arg-type]
        for number in range(count)
    ]


def names(given: list[Case]) -> set[str]:
    return {case.name for case in given}


@pytest.mark.parametrize("suite", ["contract", "unit", "integration", "a_new_one"])
def test_a_suite_that_no_rule_names_runs_whole(suite: str):
    given = cases(suite, 50)
    assert first_tier(given, "any") == names(given)


def test_the_contract_runs_whole_on_both_stores_however_long_it_takes():
    given = cases("contract", 20, store="postgres", slow=True)
    assert first_tier(given, "any") == names(given)


def test_a_cost_that_grew_is_told_by_each_make_test():
    given = [replace(case, file="test_ledger.py") for case in cases("house", 20, slow=True)]
    assert first_tier(given, "any") == names(given)


@pytest.mark.parametrize("suite", ["crash", "fleet"])
def test_suites_that_kill_processes_are_sampled_by_the_commit(suite: str):
    given = cases(suite, 80)
    one, other = first_tier(given, "1f3a"), first_tier(given, "9bc2")
    assert one == first_tier(reversed(given), "1f3a"), "the same commit, the same tests"
    assert one != other
    assert len(one) == len(other) < 40
    tried = set[str]().union(*(first_tier(given, str(commit)) for commit in range(200)))
    assert tried == names(given), "each test has its turn"


def test_of_a_sampled_suite_at_least_one_test_runs():
    assert len(first_tier(cases("fleet", 1), "any")) == 1


def test_integration_tests_run_on_sqlite_and_a_sample_on_postgresql():
    sqlite, postgres = cases("integration", 40, store="sqlite"), cases("integration", 40, store="postgres")
    assert first_tier(sqlite, "any") == names(sqlite)
    assert 1 <= len(first_tier(postgres, "any")) < 20


def test_integration_tests_whose_sql_differs_run_on_both():
    given = [Case(f"{file}::test", "integration", file, "postgres") for file in ON_BOTH_STORES]
    assert first_tier(given, "any") == names(given)


def test_slow_tests_are_sampled_wherever_they_are():
    given = cases("unit", 100, slow=True)
    assert 1 <= len(first_tier(given, "any")) < 30


def test_slow_tests_are_known_by_what_was_measured():
    measured = [
        ("tests.cli.test_dev", "test_code[a]", 0.5),
        ("tests.cli.test_dev", "test_code[b-c]", 2.5),
        ("tests.integration.test_limits.TestShares", "test_two", 1.2),
        ("tests.unit.test_cron", "test_quick", 0.1),
    ]
    functions = durations.read(measured)
    _, *lines = durations.slow(functions).splitlines()
    assert lines == [
        "tests/cli/test_dev.py::test_code 1.5",
        "tests/integration/test_limits.py::TestShares::test_two 1.2",
    ]
    page = durations.page(functions, "here")
    assert "| `tests/cli` | 2 | 3.0 |" in page
    assert "| `tests/unit/test_cron.py` | 1 | 0.1 |" in page
    assert all(name.startswith("tests/") and "::test_" in name.replace("::Test", "") for name in read_slow())


def test_files_that_are_named_exist():
    missing = [file for file in ON_BOTH_STORES if not (ROOT / "tests/integration" / file).exists()]
    assert missing == [], "renamed? Then name it anew in support/tiers.py"


def test_every_test_has_a_rule():
    assert RULES[-1].fits(Case("x", "y", "z"))


def collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "--collect-only", "-p", "no:cacheprovider", *options]
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # they may say more
    said = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=True).stdout
    return [line for line in said.splitlines() if "::" in line or line.startswith(("tier:", "shuffled:"))]


def test_by_hand_every_test_runs_and_make_says_how_to_repeat_its_choice():
    *whole, said = collected("tests/fleet", "--shuffle", "7")
    assert said == "shuffled: --shuffle 7"
    assert {name.partition("::")[0] for name in whole} == {f"tests/fleet/{path.name}" for path in FLEET}
    assert whole != sorted(whole)
    *chosen, said = collected("tests/fleet", "--tier", "first", "--sample", "1f3a")
    assert said.endswith("make test SAMPLE=1f3a")
    assert set(chosen) < set(whole)


def test_make_test_is_the_first_tier_and_ci_runs_everything():
    verbs = (ROOT / "Makefile").read_text().split("\n\n")
    (first,) = (verb for verb in verbs if verb.startswith("test:"))
    (whole,) = (verb for verb in verbs if verb.startswith("test-all:"))
    assert "--tier first" in first
    assert "--tier" not in whole
    assert "make test-all" in (ROOT / ".ci/run").read_text().splitlines()
