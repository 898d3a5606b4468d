"""Compares the result of a run that was killed at each boundary with the result of one that was not killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic_core import to_json

from wakeful.testing.boundaries import Boundary
from wakeful.testing.deeds import Deed

SHOWN = 100

Kind = Literal["twice", "never", "otherwise"]


@dataclass(slots=True)
class CaseResult:
    """The result of a case: its runs, deeds of actions, deliveries, events, and the state of the outside world."""

    runs: dict[str, dict[str, Any]]
    deeds: list[Deed]
    outside: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def untaken(self) -> dict[str, str]:
        """The types of events without a run, by key; events with a run are compared by their runs."""
        taken = {(run["event"]["source"], run["event"]["id"]) for run in self.runs.values()}
        return {one["key"]: one["type"] for one in self.events if (one["source"], one["id"]) not in taken}

    @property
    def held(self) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if run["state"] == "held"]

    @property
    def unknown(self) -> list[dict[str, Any]]:
        return [one for one in self.deliveries if one["state"] == "unknown"]

    @property
    def deliveries(self) -> list[dict[str, Any]]:
        return [one for run in self.runs.values() for one in run["deliveries"]]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a crash changed: it happened twice, or never, or ended otherwise."""

    kind: Kind
    what: str
    boundary: Boundary

    def __str__(self) -> str:
        return f"{self.what}, when the process died at boundary {self.boundary}"


@dataclass(frozen=True, slots=True)
class Crash:
    """One boundary at which the process died, and the result."""

    boundary: Boundary
    states: dict[str, str]
    held: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True)
class CrashReport:
    """One line per boundary. `check()` raises AssertionError if anything happened twice, never or otherwise."""

    baseline: CaseResult
    crashes: list[Crash] = field(default_factory=list)

    @property
    def problems(self) -> list[Problem]:
        return [problem for crash in self.crashes for problem in crash.problems]

    @property
    def held(self) -> list[Crash]:
        """The crashes after which a run or a delivery waits for a person, as its action or channel declared. Not a problem."""
        return [crash for crash in self.crashes if crash.held]

    @property
    def keys(self) -> list[str]:
        """The keys of the boundaries at which a process has died."""
        return [crash.boundary.key for crash in self.crashes]

    def add(self, boundary: Boundary, seen: CaseResult, *, outputs: bool = True) -> None:
        """Compare a case with the case without a crash."""
        boundary = replace(boundary, number=len(self.crashes) + 1)
        found = [Problem(kind, what, boundary) for kind, what in compare(self.baseline, seen, outputs=outputs)]
        states: dict[str, str] = {}
        for run in seen.runs.values():
            before = states.get(run["agent"], "").split(" and ")
            states[run["agent"]] = " and ".join(sorted({*before, run["state"]} - {""}))
        held = [f"{run['agent']}: {run['reason']}" for run in seen.held]
        held += [f"delivery to {one['channel']}: {one['reason']}" for one in seen.unknown]
        self.crashes.append(Crash(boundary, states, tuple(held), tuple(found)))

    def check(self) -> None:
        """Raise AssertionError, with the whole table, if a crash at any boundary changed anything."""
        if self.problems:
            kinds = Counter(problem.kind for problem in self.problems)
            counted = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
            raise AssertionError(f"a crash at {self._bad} of {len(self.crashes)} boundaries shows: {counted}\n{self}")

    @property
    def _bad(self) -> int:
        return sum(bool(crash.problems) for crash in self.crashes)

    def __str__(self) -> str:
        lines = [f"{len(self.crashes)} boundaries, {self._bad} with problems, {len(self.held)} held for a person"]
        for crash in self.crashes:
            ended = ", ".join(f"{agent} {state}" for agent, state in crash.states.items()) or "no run"
            number, where = crash.boundary.number, f"{crash.boundary.point} {crash.boundary.about}"
            lines.append(f"{number:>4}  {where:<40}  {ended}")
            lines += [f"      ! {problem.what}" for problem in crash.problems]
            lines += [f"      ? held: {reason}" for reason in crash.held]
        return "\n".join(lines)


def compare(baseline: CaseResult, seen: CaseResult, *, outputs: bool = True) -> list[tuple[Kind, str]]:
    """The differences from the case without a crash. Effects held for a person may still happen, so they are not
    "never".
    """
    held = bool(seen.held) and not baseline.held
    found = [
        *compare_deeds(baseline.deeds, seen.deeds),
        *compare_outside(baseline.outside, seen.outside, held=held),
        *compare_deliveries(baseline.deliveries, seen.deliveries),
        *compare_runs(baseline.runs, seen.runs, outputs=outputs),
        *compare_events(baseline.untaken, seen.untaken),
    ]
    return [(kind, what) for kind, what in found if not (held and kind == "never")]


def compare_deeds(baseline: Iterable[Deed], seen: Iterable[Deed]) -> list[tuple[Kind, str]]:
    """An idempotent action may be called again, but only with the same id; other actions may not be called again."""
    before, after = by_call(baseline), by_call(seen)
    found: list[tuple[Kind, str]] = []
    for call in dict.fromkeys([*before, *after]):
        first, then = before.get(call, []), after.get(call, [])
        example = (first or then)[0]
        if example.safety == "idempotent":
            wanted, done = {one.operation for one in first}, {one.operation for one in then}
            added, missing = len(done - wanted), len(wanted - done)
            how = f" under {len(done)} operation ids instead of {len(wanted)}"
        else:
            added, missing = max(0, len(then) - len(first)), max(0, len(first) - len(then))
            how = f" {len(then)} times instead of {len(first)} ({example.safety})"
        if added and not first:
            found.append(
                ("otherwise", f"{example} was done, but not in the case without a crash: do its arguments change?")
            )
        elif added:
            found.append(("twice", f"{example} was done{how}"))
        elif missing:
            words = f"{len(then)} times instead of {len(first)}" if then else "never done"
            found.append(("never", f"{example} was {words}"))
    return found


def by_call(deeds: Iterable[Deed]) -> dict[tuple[str, str], list[Deed]]:
    found: dict[tuple[str, str], list[Deed]] = {}
    for deed in deeds:
        found.setdefault((deed.action, deed.arguments), []).append(deed)
    return found


def compare_outside(baseline: Any, seen: Any, *, held: bool) -> list[tuple[Kind, str]]:
    """Compare how often each thing exists in the outside world. Uncountable state is only equal or not."""
    before, after = counted(baseline), counted(seen)
    if before is None or after is None:
        if baseline == seen or held:
            return []
        return [("otherwise", f"outside is {shown(seen)} instead of {shown(baseline)}")]
    found: list[tuple[Kind, str]] = []
    for thing in dict.fromkeys([*before, *after]):
        if after[thing] > before[thing]:
            kind: Kind = "twice" if before[thing] else "otherwise"
            found.append((kind, f"outside has {thing} {after[thing]} times instead of {before[thing]}"))
        elif after[thing] < before[thing]:
            found.append(("never", f"outside has {thing} {after[thing]} times instead of {before[thing]}"))
    return found


def counted(outside: Any) -> Counter[str] | None:
    """The number of each thing in a list, a Counter, or a mapping of names to numbers or lists."""
    if outside is None:
        return Counter()
    if isinstance(outside, Mapping):
        total: Counter[str] = Counter()
        for name, value in outside.items():
            if isinstance(value, int) and not isinstance(value, bool):
                total[shown(name)] += value
            elif isinstance(value, list | tuple):
                total.update(f"{shown(name)}: {shown(one)}" for one in value)
            else:
                total[f"{shown(name)}: {shown(value)}"] += 1
        return total
    if isinstance(outside, list | tuple | set | frozenset):
        return Counter(shown(one) for one in outside)
    return None


def total(outside: Any) -> int | None:
    """The number of things; None if it cannot be counted."""
    if isinstance(outside, int) and not isinstance(outside, bool):
        return outside
    things = counted(outside)
    return None if things is None else things.total()


def compare_deliveries(
    baseline: Iterable[Mapping[str, Any]], seen: Iterable[Mapping[str, Any]]
) -> list[tuple[Kind, str]]:
    """A delivery may be sent again, but only with the same id. An unknown one waits for a person, as its channel declares."""
    listed = list(seen)
    before, after, unknown = in_state("delivered", baseline), in_state("delivered", listed), in_state("unknown", listed)
    return [
        *(("twice", f"a delivery to {after[one]} was sent with a new id ({one})") for one in after.keys() - before),
        *(
            ("never", f"a delivery to {before[one]} was never sent ({one})")
            for one in before.keys() - after - unknown.keys()
        ),
    ]


def in_state(state: str, deliveries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(one["id"]): str(one.get("channel")) for one in deliveries if one.get("state") == state}


def compare_runs(
    baseline: Mapping[str, Mapping[str, Any]], seen: Mapping[str, Mapping[str, Any]], *, outputs: bool
) -> list[tuple[Kind, str]]:
    found: list[tuple[Kind, str]] = []
    for identifier, run in seen.items():
        before = baseline.get(identifier)
        if before is None:
            found.append(
                ("otherwise", f"agent {run['agent']} handled an event that does not exist in the case without a crash")
            )
        elif run["state"] == "held":
            continue
        elif run["state"] != before["state"]:
            why = (run["error"] or {}).get("message") or run["reason"] or "no reason"
            found.append(
                ("otherwise", f"agent {run['agent']} ended {run['state']} instead of {before['state']} ({why})")
            )
        elif outputs and run["output"] != before["output"]:
            words = f"agent {run['agent']} returned {shown(run['output'])} instead of {shown(before['output'])}"
            found.append(("otherwise", words))
    return [
        *found,
        *(("never", f"agent {run['agent']} did not run") for one, run in baseline.items() if one not in seen),
    ]


def compare_events(baseline: Mapping[str, str], seen: Mapping[str, str]) -> list[tuple[Kind, str]]:
    """Compare events that no agent took. The id of an emitted event is derived from its content, so equal ids mean the
    same event.
    """
    before, after = Counter(baseline.values()), Counter(seen.values())
    found: list[tuple[Kind, str]] = []
    for kind in dict.fromkeys([*before, *after]):
        added = [key for key, one in seen.items() if one == kind and key not in baseline]
        if after[kind] > before[kind] > 0:
            found.append(("twice", f"an event {kind} was emitted {after[kind]} times instead of {before[kind]}"))
        elif after[kind] < before[kind]:
            words = f"{after[kind]} times instead of {before[kind]}" if after[kind] else "never"
            found.append(("never", f"an event {kind} was {words} emitted"))
        elif added:
            found.append(
                (
                    "otherwise",
                    f"an event {kind} was emitted, but not in the case without a crash: does its data change?",
                )
            )
    return found


def shown(value: Any) -> str:
    text = value if isinstance(value, str) else to_json(value, fallback=repr).decode()
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
