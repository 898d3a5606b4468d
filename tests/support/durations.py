"""Writes down how long tests take: docs/test-durations.md for people, tests/support/slow.txt for the first tier of the tests.

    make test-all PYTEST_ADDOPTS=--junitxml=build/tests.xml
    python tests/support/durations.py build/tests.xml "on two cores, nothing else running" [--scale 0.5]

`--scale` is for a machine that was busy: every duration is multiplied by it.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/test-durations.md"
SLOW = ROOT / "tests/support/slow.txt"
SECONDS = 1.0  # a test that takes longer is slow
SHOWN = 40


@dataclass
class Function:
    """A test, with the durations of each of its cases."""

    file: str
    name: str
    seconds: list[float] = field(default_factory=list)

    @property
    def takes(self) -> float:
        return fmean(self.seconds)


def read(cases: Iterable[tuple[str, str, float]]) -> list[Function]:
    """Cases as JUnit has them: class, name, seconds."""
    found: dict[tuple[str, str], Function] = {}
    for dotted, name, seconds in cases:
        folder, classes = re.match(r"((?:\w+\.)*test_\w+)((?:\.\w+)*)$", dotted).groups()  # type: ignore[union-attr]
        file = folder.replace(".", "/") + ".py"
        whole = "::".join([*classes.split(".")[1:], name.partition("[")[0]])
        found.setdefault((file, whole), Function(file, whole)).seconds.append(seconds)
    return sorted(found.values(), key=lambda one: (one.file, one.name))


def junit(path: Path, scale: float) -> Iterator[tuple[str, str, float]]:
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 the file is our own
        yield case.attrib["classname"], case.attrib["name"], float(case.attrib["time"]) * scale


def slow(functions: Iterable[Function]) -> str:
    lines = [f"{one.file}::{one.name} {one.takes:.1f}" for one in functions if one.takes >= SECONDS]
    return "\n".join(
        [
            f"# Tests that take {SECONDS:g} s or longer, on average over their cases. Written by durations.py.",
            *lines,
            "",
        ]
    )


def page(functions: list[Function], measured: str) -> str:
    files: defaultdict[str, list[Function]] = defaultdict(list)
    suites: defaultdict[str, list[Function]] = defaultdict(list)
    for one in functions:
        files[one.file].append(one)
        suites[one.file.split("/")[1]].append(one)

    def row(name: str, some: list[Function]) -> str:
        return f"| {name} | {sum(len(one.seconds) for one in some)} | {sum(sum(one.seconds) for one in some):.1f} |"

    slowest = sorted(functions, key=lambda one: -one.takes)[:SHOWN]
    return "\n".join(
        [
            "# How long tests take",
            "",
            f"Seconds of one process, {measured}. [0041](decisions/0041-two-tiers-of-tests.md) uses them to divide the tests into tiers.",
            "",
            "To measure again, name the machine in MACHINE:",
            "",
            "```sh",
            "make test-all PYTEST_ADDOPTS=--junitxml=build/tests.xml",
            "python tests/support/durations.py build/tests.xml MACHINE",
            "```",
            "",
            "| suite | tests | seconds |",
            "|---|---|---|",
            *(row(f"`tests/{name}`", some) for name, some in sorted(suites.items())),
            row("all", functions),
            "",
            "## The slowest",
            "",
            "| test | cases | seconds each |",
            "|---|---|---|",
            *(f"| `{one.file}::{one.name}` | {len(one.seconds)} | {one.takes:.1f} |" for one in slowest),
            "",
            "## By file",
            "",
            "| file | tests | seconds |",
            "|---|---|---|",
            *(row(f"`{name}`", some) for name, some in sorted(files.items())),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="what --junitxml wrote")
    parser.add_argument("measured", help="words that say what the machine was")
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    functions = read(junit(given.results, given.scale))
    PAGE.write_text(page(functions, given.measured), encoding="utf-8")
    SLOW.write_text(slow(functions), encoding="utf-8")


if __name__ == "__main__":
    main()
