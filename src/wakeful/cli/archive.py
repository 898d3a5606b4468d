"""`wakeful archive`: write finished runs as lines of JSON. The file is complete or does not exist."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wakeful.clock import to_text
from wakeful.operations.archive import Plan, plan_archive, refuse_existing, remove_archived, write_archive
from wakeful.operations.redo import MANY
from wakeful.resources.desk import Reads, looking
from wakeful.resources.run_reading import whole_runs
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, add_json, add_store
from wakeful.shell.carrying import carry_out, number, refuse_many
from wakeful.shell.terminal import plain, print_json, say
from wakeful.stores.keeping import Keeper
from wakeful.triggers.past import read_past

if TYPE_CHECKING:
    from wakeful.operations.pace import Pace, Progress
    from wakeful.stores.store import DatabaseStore

INTERRUPTED = 130


def declare(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the file to create, like runs.jsonl, or runs.jsonl.gz to compress it"
    )
    parser.add_argument("--agent", metavar="NAME", help="only runs of this agent")
    parser.add_argument(
        "--before",
        metavar="TIME",
        help="only runs that finished before this time, like 30d or 2026-01-31 (default: now)",
    )
    parser.add_argument("--remove", action="store_true", help="delete the runs from the store once the file is on disk")
    parser.add_argument("--plan", action="store_true", help="print what would be written, and write nothing")
    parser.add_argument("--yes", action="store_true", help=f"with --remove: confirm more than {MANY:,} runs")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.shell.opening import chosen_store

    arguments.url, arguments.rate = chosen_store(arguments), None
    path = Path(arguments.file)
    refuse_existing(path)
    if not path.parent.is_dir():
        message = f"archive: there is no folder {plain(path.parent)}"
        raise UsageError(message)
    archiving = Archiving(arguments, path)
    _, stopped = carry_out(arguments, archiving.work)
    return archiving.report(stopped=stopped)


archive_command = Command(
    declare,
    execute,
    "Archives runs that are done, denied or cancelled, together with their child runs. Dead letters stay in the store.",
)


class Archiving:
    """The counts of one archive command: found, written and removed."""

    def __init__(self, arguments: argparse.Namespace, path: Path) -> None:
        self._arguments = arguments
        self._path = path
        self._plan = Plan()
        self._written: int | None = None
        self._removed = 0

    async def work(self, store: DatabaseStore, pace: Pace, progress: Progress) -> int:
        """Count, write, and remove exactly the runs that were written."""
        arguments, reads = self._arguments, Reads(store.database)
        keeper = Keeper(store)
        present = await keeper.time()
        try:
            before = present if arguments.before is None else read_past(arguments.before, now=present)
        except ValueError as error:
            raise UsageError(f"archive: --before: {error}") from None
        self._plan = await plan_archive(keeper, agent=arguments.agent, before=before)
        if arguments.plan or not self._plan.families:
            return 0
        if arguments.remove:
            refuse_many(arguments, self._plan.runs, "runs")
        if not arguments.json:
            say(f"{self._words()} finished before {to_text(before)}")
        written = await write_archive(
            self._path, partial(whole_runs, looking(reads)), self._plan.families, pace=pace, progress=progress
        )
        if written is None:
            return 0
        self._written = sum(len(family.runs) for family in written)
        if arguments.remove:
            by = actor_of(arguments)
            self._removed = await remove_archived(keeper, written, self._path, by, pace=pace, progress=progress)
        return self._written

    def report(self, *, stopped: bool) -> int:
        arguments, found = self._arguments, self._plan.runs
        if arguments.json:
            print_json(
                {
                    "file": str(self._path) if self._written is not None else None,
                    "found": found,
                    "agents": dict(self._plan.agents),
                    "written": self._written or 0,
                    "removed": self._removed,
                    "stopped": stopped,
                }
            )
        elif not found:
            print("nothing to archive: no run finished before that time")
        elif arguments.plan:
            print(f"would write {self._words()}")
        elif self._written is None:
            print("stopped; nothing was written")
        else:
            left = self._written - self._removed if arguments.remove else 0
            more = f", {self._removed:,} removed" if arguments.remove else ""
            kept = (
                f" ({left:,} kept: the newest run always stays, and so do runs that changed meanwhile)" if left else ""
            )
            print(f"{number(self._written, 'run')} in {plain(self._path)}{more}{kept}")
        return INTERRUPTED if stopped else 0

    def _words(self) -> str:
        agents = ", ".join(f"{plain(agent)} {count:,}" for agent, count in sorted(self._plan.agents.items()))
        return f"{number(self._plan.runs, 'run')} ({agents})"
