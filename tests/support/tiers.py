"""Two tiers of tests. `make test` runs the first, `make test-all` runs everything.

    pytest …                             every test that the command line names: never a sample
    pytest --tier first                  the first tier; crash tests and the like are sampled by the commit
    pytest --tier first --sample WORD    the sample of another commit, or of any word
    pytest --shuffle SEED                the same tests in another order: finds tests that leave something behind

RULES decides, the first rule that fits a test. A file that no rule names is in both tiers, so a new file needs no entry here.
durations.py writes slow.txt, and docs/test-durations.md, from a run of all tests.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# Integration tests that run on both stores in the first tier: PostgreSQL has SQL of its own for what they try, or the test shows
# what differs between processes on one server. All others run on SQLite, and a sample of them on PostgreSQL.
ON_BOTH_STORES = {
    "test_cancel.py": "postgres_cancel.sql",
    "test_circuits.py": "postgres_circuits.sql",
    "test_installed_triggers.py": "triggers in two languages",
    "test_limits.py": "postgres_limits.sql",
    "test_locks.py": "postgres_locks.sql",
    "test_lookout.py": "postgres_glance.sql",
    "test_order.py": "postgres_keys.sql",
    "test_own_writes.py": "triggers in two languages",
    "test_restore.py": "postgres_origins.sql",
    "test_retention.py": "postgres_keeping.sql",
    "test_sources.py": "postgres_sources.sql",
    "test_transaction.py": "the user's own transaction: a connection in a thread, or one that is awaited",
    "test_versions.py": "postgres_versions.sql",
    "test_waiting.py": "postgres_waits.sql",
    "test_waiting_races.py": "postgres_waits.sql",
}


@dataclass(frozen=True)
class Case:
    """A test, as the rules see it."""

    name: str  # "tests/crash/test_files.py::test_…[postgres]"
    suite: str  # the folder below tests/
    file: str
    store: str | None = None  # which one, if the test runs on each
    slow: bool = False  # marked so, or in slow.txt


@dataclass(frozen=True)
class Rule:
    """One of so many tests is in the first tier, chosen by the commit. 1: all of them."""

    why: str
    fits: Callable[[Case], bool]
    one_in: int


def is_ledger(case: Case) -> bool:
    return (case.suite, case.file) == ("house", "test_ledger.py")


RULES = (
    Rule("what both stores promise", lambda case: case.suite == "contract", 1),
    Rule("what a piece of work costs: a cost that grew is told before it lands", is_ledger, 1),
    Rule("kills processes", lambda case: case.suite == "crash", 20),
    Rule("kills workers on several machines", lambda case: case.suite == "fleet", 20),
    Rule("is slow", lambda case: case.slow, 20),
    Rule(
        "tries on PostgreSQL what SQLite shows as well",
        lambda case: case.suite == "integration" and case.store == "postgres" and case.file not in ON_BOTH_STORES,
        10,
    ),
    Rule("is quick", lambda case: True, 1),
)


def first_tier(cases: Iterable[Case], sample: str) -> set[str]:
    """The names of the tests that are in it. Of a rule's tests always the same number, whatever the sample."""
    groups: defaultdict[Rule, list[str]] = defaultdict(list)
    for case in cases:
        groups[next(rule for rule in RULES if rule.fits(case))].append(case.name)

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{sample} {name}".encode()).digest()

    return {
        name for rule, names in groups.items() for name in sorted(names, key=place)[: -(-len(names) // rule.one_in)]
    }


def read_slow() -> frozenset[str]:
    """Tests of slow.txt, without their parameters."""
    lines = (TESTS / "support/slow.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line.rpartition(" ")[0] for line in lines if not line.startswith("#"))


def this_commit() -> str:
    """Its hash; "none" where there is no repository."""
    git = shutil.which("git")
    if git is None:
        return "none"
    asked = subprocess.run(
        [git, "rev-parse", "--short=12", "HEAD"], cwd=TESTS, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "none"


def case_of(item: pytest.Item, slow: frozenset[str]) -> Case:
    path = item.path.relative_to(TESTS) if item.path.is_relative_to(TESTS) else Path("elsewhere", item.path.name)
    callspec = getattr(item, "callspec", None)
    store = None if callspec is None else callspec.params.get("dialect")
    is_slow = item.nodeid.partition("[")[0] in slow or item.get_closest_marker("slow") is not None
    return Case(item.nodeid, path.parts[0], path.name, store, is_slow)


# what pytest calls


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=["first", "all"], default="all", help="first: what `make test` runs")
    group.addoption(
        "--sample", metavar="WORD", help="what the first tier's samples are chosen by (default: the commit)"
    )
    group.addoption("--shuffle", metavar="SEED", help="run the tests in another order")


def pytest_configure(config: pytest.Config) -> None:
    # Here, and not where it is used: the processes that run the tests get the options of the one that starts them.
    if config.option.tier == "first" and not config.option.sample:
        config.option.sample = this_commit()


def said(config: pytest.Config) -> list[str]:
    """How to get the same tests in the same order again."""
    lines = []
    if config.option.tier == "first":
        lines.append(
            f"tier: first, sample {config.option.sample}; the same again: make test SAMPLE={config.option.sample}"
        )
    if config.option.shuffle:
        lines.append(f"shuffled: --shuffle {config.option.shuffle}")
    return lines


def pytest_report_header(config: pytest.Config) -> list[str]:
    return said(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in said(config):
        terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)  # before -k: the sample is the same with it and without it
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.tier == "first":
        slow = read_slow()
        chosen = first_tier((case_of(item, slow) for item in items), config.option.sample)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]
    if config.option.shuffle:
        random.Random(config.option.shuffle).shuffle(items)
