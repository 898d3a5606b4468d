"""Archive finished runs to a file: select them, write the file, and only then remove them from the store."""

from __future__ import annotations

import fcntl
import gzip
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from wakeful.archive import line_of, sync_folder
from wakeful.clock import Microseconds
from wakeful.errors import ConfigError
from wakeful.operations.pace import Pace, Progress, unseen
from wakeful.private_files import FILE
from wakeful.stores.keeping import Keeper
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.verbs.keeping import Family

WINDOW = 2_000
READ_AT_A_TIME = 500
FAMILIES_AT_A_TIME = 100


WholeRuns = Callable[[Sequence[str]], Awaitable[Sequence[Mapping[str, Any] | None]]]  # reads many runs by their ids


@dataclass
class Plan:
    """What would be archived: families of finished runs, and the number of runs by agent."""

    families: list[Family] = field(default_factory=list)
    agents: Counter[str] = field(default_factory=Counter)

    @property
    def runs(self) -> int:
        return sum(len(family.runs) for family in self.families)


async def plan_archive(keeper: Keeper, *, agent: str | None, before: Microseconds) -> Plan:
    """All families whose runs were all over before that time, oldest first."""
    plan = Plan()
    seen: set[str] = set()
    first, last = await keeper.span("runs")
    for after in range(first - 1, last, WINDOW):
        for name, family in await keeper.old_families(
            None,
            after,
            after + WINDOW,
            before,
            wanted=lambda name, _: before if agent in {None, name} else None,
            newest=True,
        ):
            if family.root not in seen:
                seen.add(family.root)
                plan.families.append(family)
                plan.agents[name] += len(family.runs)
    return plan


async def write_archive(
    path: Path, whole_runs: WholeRuns, families: Sequence[Family], *, pace: Pace, progress: Progress = unseen
) -> list[Family] | None:
    """Write the families to a new file, which gets its name only once it is completely on disk. Returns the families that the
    file contains in full; None if it was stopped, and then there is no file.
    """
    partial = path.with_name(path.name + ".partial")
    written: list[Family] = []
    done, total = 0, sum(len(family.runs) for family in families)
    handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
    try:
        _take(handle, partial)
        os.ftruncate(handle, 0)
        with os.fdopen(os.dup(handle), "wb") as raw:
            out = _compressed(raw, path)
            for start in range(0, len(families), READ_AT_A_TIME):
                if not await pace.turn(done):
                    partial.unlink()
                    return None
                some = families[start : start + READ_AT_A_TIME]
                for family, runs in zip(some, await shown(whole_runs, some), strict=True):
                    out.write(b"".join(map(line_of, runs)))
                    if len(runs) == len(family.runs):
                        written.append(family)
                    done += len(family.runs)
                progress(done, total)
            if out is not raw:
                out.close()
        os.fsync(handle)
        refuse_existing(path)
        partial.rename(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise
    finally:
        os.close(handle)
    return written


async def shown(whole_runs: WholeRuns, families: Sequence[Family]) -> list[list[Mapping[str, Any]]]:
    """The runs of each family that still exist."""
    named = [[run for run, _ in sorted(family.runs)] for family in families]
    found = iter(await whole_runs([run for runs in named for run in runs]))
    return [[run for _ in runs if (run := next(found)) is not None] for runs in named]


async def remove_archived(
    keeper: Keeper, families: Sequence[Family], path: Path, by: Actor, *, pace: Pace, progress: Progress = unseen
) -> int:
    """Remove the archived runs from the store. Runs that were changed since stay. Returns how many were removed."""
    gone, bulk = 0, Bulk("archive", None, str(path), tells="runs removed")
    for start in range(0, len(families), FAMILIES_AT_A_TIME):
        if not await pace.turn(start):
            break
        part = list(families[start : start + FAMILIES_AT_A_TIME])
        gone += len(await keeper.remove_archived(part, str(path), by=by, bulk=bulk))
        progress(min(start + FAMILIES_AT_A_TIME, len(families)), len(families))
    return gone


def refuse_existing(path: Path) -> None:
    if path.exists():
        message = f"{path} exists, and an archive is never overwritten: choose another file"
        raise ConfigError(message)


def _take(handle: int, partial: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"{partial} is being written by another process: wait for it, or choose another file"
        raise ConfigError(message) from None


def _compressed(raw: IO[bytes], path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
