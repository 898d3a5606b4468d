"""`wakeful bench`: the table of what Wakeful promises about speed, each figure against its floor in the same run.

Machines are noisy, so ratios count: floor and engine take turns on the same machine, and the medians of the turns are
compared. PostgreSQL is started for the occasion, with fsync on.
"""

import argparse
import asyncio
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from bench import count as counting
from bench import engine_claim, engine_dispatch, engine_intake, floor_postgres, floor_sqlite, ledger
from bench.archive import Archives
from bench.changes import Changes
from bench.fleet import Fleet
from bench.flow import Flow
from bench.folder import Folder
from bench.hooks import Hooks
from bench.idle import Idle
from bench.judged import Judged
from bench.plan import FULL, SMOKE, Figure, Plan
from bench.starts import Starts
from bench.times import Times
from bench.workload import Keys
from wakeful.testing.postgres_server import PostgresServer

IN_FLIGHT = 64


class Bench(Flow, Fleet, Hooks, Folder, Changes, Times, Starts, Idle, Archives, Judged):
    """The measurements, by name."""

    # 3-step durable runs

    def runs_sqlite(self) -> Iterator[Figure]:
        def floor(keys: Keys) -> float:
            return floor_sqlite.measure(self.plan.seconds, IN_FLIGHT, self.folder, keys=keys)

        yield from self._runs("SQLite", self.sqlite, floor)

    def runs_postgres(self) -> Iterator[Figure]:
        def floor(keys: Keys) -> float:
            return asyncio.run(floor_postgres.measure(self.postgres(), self.plan.seconds, IN_FLIGHT, keys=keys))

        yield from self._runs("PostgreSQL", self.postgres, floor)

    def _runs(self, name: str, store: Callable[[], str], floor: Callable[[Any], float]) -> Iterator[Figure]:
        engine, spread, growing, digest = [], [], [], []
        for _ in range(self.plan.turns):
            growing.append(floor("growing"))
            engine.append(self._engine(store()))
            digest.append(floor("digest"))
            spread.append(self._engine(store(), "--spread"))
        mine, ceiling, same = statistics.median(engine), statistics.median(growing), statistics.median(digest)
        yield Figure(
            f"3-step runs, {name}", f"{mine:,.0f} runs/s", f"{same:,.0f} runs/s", mine / same, "25 %", "40 %",
            mine / same >= 0.25,
            f"{statistics.median(spread):,.0f} runs/s with all kinds in each commit; "
            f"{mine / ceiling:.0%} of a loop that knows no event again ({ceiling:,.0f} runs/s)",
        )  # fmt: skip

    # an effect and a delivery for each run

    def outgoing(self) -> Iterator[Figure]:
        def floor_of_sqlite() -> float:
            return floor_sqlite.measure(self.plan.seconds, IN_FLIGHT, self.folder, outgoing=True)

        def floor_of_postgres() -> float:
            return asyncio.run(floor_postgres.measure(self.postgres(), self.plan.seconds, IN_FLIGHT, outgoing=True))

        for name, store, floor in self._both(floor_of_sqlite, floor_of_postgres):
            engine, floors = [], []
            for _ in range(self.plan.turns):
                floors.append(floor())
                engine.append(self._engine(store(), "--outgoing"))
            mine, bare = statistics.median(engine), statistics.median(floors)
            yield Figure(
                f"3 steps, an effect, a delivery, {name}", f"{mine:,.0f} runs/s", f"{bare:,.0f} runs/s", mine / bare,
                "15 %", "", mine / bare >= 0.15, "the bare loop has the same number of writes",
            )  # fmt: skip

    def backlog(self) -> Iterator[Figure]:
        waiting = self.plan.sleeping
        for name, store, _ in self._both():
            empty, full = [], []
            for _ in range(self.plan.turns):
                empty.append(self._engine(store(), "--outgoing"))
                full.append(self._engine(store(), "--outgoing", "--waiting", str(waiting)))
            mine, free = statistics.median(full), statistics.median(empty)
            yield Figure(
                f"runs beside a full outbox, {name}", f"{mine:,.0f} runs/s", f"{free:,.0f} runs/s", mine / free,
                "90 %", "", mine / free >= 0.9, f"{waiting:,} deliveries wait for a channel in trouble",
            )  # fmt: skip

    def replay(self) -> Iterator[Figure]:
        letters = self.plan.letters
        for name, store, _ in self._both():
            turns = [
                self._measured("engine_replay", "--store", store(), "--letters", str(letters))
                for _ in range(min(3, self.plan.turns))
            ]
            new = statistics.median(turn["new_per_second"] for turn in turns)
            mine = statistics.median(turn["replayed_per_second"] for turn in turns)
            yield Figure(
                f"replay of dead letters, {name}", f"{mine:,.0f} runs/s", f"{new:,.0f} runs/s", mine / new, "80 %", "",
                mine / new >= 0.8, f"{letters:,} letters against as many new events",
            )  # fmt: skip

    def _engine(self, store: str, *options: str) -> float:
        seconds = str(self.plan.seconds)
        return self._measured("engine_runs", "--store", store, "--seconds", seconds, *options)["runs_per_second"]

    def runs_dbos(self) -> Iterator[Figure]:
        engine: list[float] = []
        rival: list[float] = []
        answer: dict[str, Any] = {}
        for _ in range(self.plan.turns):
            engine.append(self._engine(self.postgres()))
            command = [sys.executable, "-m", "bench.rival_dbos", "--dsn", self.postgres(), "--json"]
            command += ["--seconds", str(self.plan.seconds * 2), "--samples", str(min(50, self.plan.samples))]
            answer = json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()[-1]
            )
            if "missing" in answer:
                yield Figure(
                    "3-step runs against DBOS", f"{engine[0]:,.0f} runs/s", "–", None, "30 ×", "60 ×", None,
                    answer["missing"],
                )  # fmt: skip
                return
            rival.append(answer["workflows_per_second"])
        mine, theirs = statistics.median(engine), statistics.median(rival)
        yield Figure(
            "3-step runs against DBOS", f"{mine:,.0f} runs/s", f"{theirs:,.0f} runs/s", mine / theirs, "30 ×", "60 ×",
            mine / theirs >= 30, f"DBOS {answer['version']}; its idle dispatch: p50 {answer['dispatch_p50']:.1f} ms",
        )  # fmt: skip

    # idle dispatch

    def dispatch(self) -> Iterator[Figure]:
        samples = self.plan.samples
        yield self._dispatch(
            "SQLite, one process", asyncio.run(engine_dispatch.within_one_process(self.sqlite(), samples))
        )
        if self.server is not None:
            within = asyncio.run(engine_dispatch.within_one_process(self.postgres(), samples))
            yield self._dispatch("PostgreSQL, one process", within)
            between = asyncio.run(engine_dispatch.between_processes(self.postgres(), samples))
            yield self._dispatch("PostgreSQL, across processes", between)

    @staticmethod
    def _dispatch(name: str, latency: engine_dispatch.Latency) -> Figure:
        return Figure(
            f"idle dispatch, {name}", f"p50 {latency.accepted_p50:.2f} ms, p99 {latency.accepted_p99:.2f} ms", "–", None,
            "p50 ≤ 5 ms", "p50 ≤ 2 ms", latency.accepted_p50 <= 5,
            f"from sending: p50 {latency.sent_p50:.2f} ms, p99 {latency.sent_p99:.2f} ms",
        )  # fmt: skip

    # intake, claims

    def intake(self) -> Iterator[Figure]:
        stores = [("SQLite", self.sqlite)] + ([("PostgreSQL", self.postgres)] if self.server else [])
        for name, store in stores:
            floors, engines, slowest = [], [], 0.0
            for _ in range(self.plan.turns):
                floors.append(engine_intake.floor(self.plan.seconds))
                report = engine_intake.engine(store(), self.plan.seconds)
                engines.append(report.requests_per_second)
                slowest = max(slowest, report.p99)
            mine, floor = statistics.median(engines), statistics.median(floors)
            yield Figure(
                f"durable intake over HTTP, {name}", f"{mine:,.0f} events/s", f"{floor:,.0f} events/s", mine / floor,
                "35 %", "50 %", mine / floor >= 0.35, f"p99 {slowest:.1f} ms at 32 connections",
            )  # fmt: skip

    def claim(self) -> Iterator[Figure]:
        plan = self.plan
        stores = [("SQLite", self.sqlite)] + ([("PostgreSQL", self.postgres)] if self.server else [])
        for name, store in stores:
            empty, full = asyncio.run(
                engine_claim.measure(
                    store(), store(), finished=plan.finished, sleeping=plan.sleeping, samples=plan.samples
                )
            )
            yield Figure(
                f"claim of 10 with history, {name}", f"{full * 1000:.2f} ms", f"{empty * 1000:.2f} ms", full / empty,
                "≤ 120 %", "", full / empty <= 1.2, f"{plan.finished:,} done and {plan.sleeping:,} sleeping runs",
            )  # fmt: skip

    def count(self) -> Iterator[Figure]:
        recorded = ledger.recorded(ledger.read(), ledger.this_python())
        for work, answer in counting.count(self.plan.counted, pieces=self.plan.pieces).items():
            costs = answer["costs"]
            grown = [one for one in ledger.compare(recorded, {work: costs}) if one.growth > 0]
            yield Figure(
                f"cost of {ledger.said(work)}", f"{costs['calls']:,.0f} calls, {costs['statements']:g} statements", "–", None,
                "≤ 105 %", "", not grown, "; ".join(map(str, grown)) or "of what is recorded",
            )  # fmt: skip


COUNTED = counting.WORK
NAMES = (
    "runs_sqlite",
    "runs_postgres",
    "runs_dbos",
    "outgoing",
    "backlog",
    "replay",
    "dispatch",
    "intake",
    "webhooks",
    "claim",
    "recovery",
    "workers",
    "drain",
    "keys",
    "sleepers",
    "waits",
    "rules",
    "approvals",
    "schedules",
    "files",
    "changes",
    "idle",
    "archive",
    "looks",
    "starts",
    "soak",
    "count",
)


def run(only: list[str], plan: Plan, *, say: Callable[[str], None]) -> list[Figure]:
    """Measure what was asked for, saying what is going on."""
    figures: list[Figure] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeful-bench-")))
        server = stack.enter_context(PostgresServer(fsync=True))
        bench = Bench(plan, folder, server)
        for name in only:
            say(f"measuring {name} …")
            began = time.perf_counter()
            figures += getattr(bench, name)()
            say(f"measured {name} in {time.perf_counter() - began:.0f} s")
    return figures


def show(figures: list[Figure]) -> None:
    """The table for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Wakeful, measured in one run", title_justify="left", expand=False)
    for heading in ("what", "measured", "floor", "ratio", "bar", "aim", "", "note"):
        table.add_column(heading)
    for one in figures:
        ratio = "–" if one.ratio is None else (f"{one.ratio:.1f} ×" if "×" in one.bar else f"{one.ratio:.0%}")
        mark = "" if one.met is None else "[green]✓[/]" if one.met else "[red]✗[/]"
        table.add_row(one.name, one.measured, one.floor, ratio, one.bar, one.aim, mark, one.note)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def main(arguments: list[str] | None = None) -> int:
    """Parse, measure, print. A missed bar is told, and is no error: the table is a measurement, not a test."""
    parser = argparse.ArgumentParser(
        prog="wakeful bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a very short run of everything, to see that it works")
    parser.add_argument(
        "--only", action="append", choices=[*NAMES, *COUNTED], help="measure only this; may be repeated"
    )
    parser.add_argument("--count", action="store_true", help="count what work costs, instead of measuring speed")
    parser.add_argument("--write", action="store_true", help="record what was counted")
    parser.add_argument("--detail", action="store_true", help="show the functions that are entered most")
    parser.add_argument(
        "--seconds", type=float, help="how long each turn of a throughput measurement, and a soak, takes"
    )
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another checkout, to measure what knows a before beside this one"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if options.count:
        return counting.main(options)
    plan = SMOKE if options.smoke else FULL
    if options.seconds:
        plan.seconds = plan.soak = options.seconds
    plan.before = options.before
    figures = run(options.only or list(NAMES), plan, say=lambda text: print(text, file=sys.stderr, flush=True))
    if options.json:
        print(json.dumps([asdict(figure) for figure in figures], ensure_ascii=False, indent=2))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
