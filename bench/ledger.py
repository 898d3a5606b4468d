"""The ledger: what each piece of work costs, as it was counted last and committed. A cost that grows must be meant.

`bench/ledger.json` has what a database is asked to do, which is the same everywhere, and what Python does, which differs from
one version of Python to the next and stands there for each. The tables in docs/performance.md are made from it.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Costs = Mapping[str, Mapping[str, float]]  # by "run/sqlite", then by name

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "bench" / "ledger.json"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- made by `wakeful bench --count --write` -->", "<!-- end of what is made -->"

DATABASE = {"statements": "statements", "rows": "rows written", "commits": "commits", "bytes": "bytes to the log"}
PYTHON = {"calls": "Python calls", "memory": "bytes in use at most"}
WORDS = {
    "run": "a run with three steps",
    "outgoing": "the same with an effect and a delivery",
    "http": "an event over HTTP",
    "claim": "a claim of ten runs",
    "idle": "a second of a worker without work",
}
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
MOST_GROWTH = 0.05
# In real time: a busy machine makes fewer looks in as many seconds, so what is recorded on one is too low.
MOST_GROWTH_OF_IDLE = 0.15


@dataclass(frozen=True, slots=True)
class Change:
    """A number that is another one now."""

    work: str
    what: str
    before: float
    now: float

    @property
    def counts(self) -> bool:
        most = MOST_GROWTH_OF_IDLE if self.work.startswith("idle/") else MOST_GROWTH
        return round(abs(self.growth), 6) > most

    @property
    def growth(self) -> float:
        return self.now / self.before - 1 if self.before else math.inf

    def __str__(self) -> str:
        verb = "grew" if self.now > self.before else "fell"
        return (
            f"{said(self.work)}: {(DATABASE | PYTHON)[self.what]} {verb} from {number(self.before)} to {number(self.now)} "
            f"({self.growth:+.1%})"
        )


def this_python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def said(work: str) -> str:
    name, _, store = work.partition("/")
    return f"{WORDS[name]}, {STORES[store]}"


def number(value: float) -> str:
    """Whole where it is large enough."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}".rstrip("0")


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(LEDGER.read_text(encoding="utf-8"))
    return found


def recorded(ledger: Mapping[str, Any], python: str) -> Costs:
    """What is known of each piece of work, for one version of Python. Of a version that is not in the ledger: what the databases do."""
    of_python = ledger["python"].get(python, {})
    return {work: {**costs, **of_python.get(work, {})} for work, costs in ledger["databases"].items()}


def compare(before: Costs, now: Costs) -> list[Change]:
    """What changed by more than is allowed, in either direction. Work, or a number, that only one side has is left out."""
    changes = [
        Change(work, what, before[work][what], value)
        for work, costs in now.items()
        for what, value in costs.items()
        if what in before.get(work, {})
    ]
    return [one for one in changes if one.counts and one.now != one.before]


def verdict(changes: Iterable[Change]) -> tuple[list[str], bool]:
    """What to tell, and whether anything grew."""
    changes = list(changes)
    grown = [one for one in changes if one.now > one.before]
    lines = [str(one) for one in changes]
    if grown:
        names = " ".join(dict.fromkeys(f"--only {one.work.partition('/')[0]}" for one in grown))
        lines.append(
            f"{len(grown)} number(s) grew by more than is allowed. Where the calls come from: `wakeful bench --count --detail "
            f"{names}`. If the cost is meant, record it with `wakeful bench --count --write` and say in the commit why"
        )
    elif changes:
        lines.append("Record what is cheaper now with `wakeful bench --count --write`, so that it stays so")
    return lines, bool(grown)


def write(now: Costs) -> None:
    """Record what was counted: of the databases, and of this version of Python. What was not counted stays."""
    ledger = read() if LEDGER.exists() else {"databases": {}, "python": {}}
    of_python = ledger["python"].setdefault(this_python(), {})
    for work, costs in now.items():
        ledger["databases"][work] = {what: tidy(costs[what]) for what in DATABASE if what in costs}
        of_python[work] = {what: tidy(costs[what]) for what in PYTHON if what in costs}
    ledger["python"] = dict(sorted(ledger["python"].items()))
    LEDGER.write_text(json.dumps(ledger, indent=2) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(made_part(text), tables(ledger)), encoding="utf-8")


def tidy(value: float) -> float:
    value = round(value, 2)
    return int(value) if value == int(value) else value


def made_part(text: str) -> str:
    """The part of the page that is made from the ledger, with its marks."""
    begin, end = text.index(BEGIN), text.index(END)
    return text[begin : end + len(END)]


def tables(ledger: Mapping[str, Any]) -> str:
    """For the page: what the databases do, and what Python does."""
    databases, python = ledger["databases"], ledger["python"]
    first = [["for one", "store", *DATABASE.values()]]
    second = [["for one", "store", *(f"{what}, Python {version}" for what in PYTHON.values() for version in python)]]
    for work, costs in databases.items():
        name, store = WORDS[work.partition("/")[0]], STORES[work.partition("/")[2]]
        first.append([name, store, *(number(costs[what]) for what in DATABASE)])
        cells = [python[version].get(work, {}).get(what) for what in PYTHON for version in python]
        second.append([name, store, *("–" if cell is None else number(cell) for cell in cells)])
    return "\n\n".join([BEGIN, markdown(first), markdown(second), END])


def markdown(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    rule = "|---|---|" + "---:|" * (len(rows[0]) - 2)
    return "\n".join([lines[0], rule, *lines[1:]])
