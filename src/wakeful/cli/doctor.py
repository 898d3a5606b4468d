"""doctor: check an installation and a store. ✓ good, ! needs a look, ✗ broken, each with its remedy."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from rich.text import Text

from wakeful.cli.check import missing
from wakeful.cli.copies import copied
from wakeful.cli.doctor_rows import clock, guarded, outbox, people, processes, schedules, sources
from wakeful.cli.finding import Finding, Verdict
from wakeful.cli.privacy import exposed
from wakeful.clock import SECOND, SystemClock, readable
from wakeful.errors import (
    ConfigError,
    EncryptionKeyMissing,
    SchemaMismatch,
    StoreForbidden,
    StoreUnavailable,
    WakefulError,
)
from wakeful.resources.desk import Desk, Reads, looking
from wakeful.settings import shown_store, sqlite_path
from wakeful.shell.arguments import Command, Parser, add_app, add_json, add_store
from wakeful.shell.opening import chosen_store, is_store
from wakeful.shell.terminal import hanging, plain, print_json, terminal
from wakeful.size import in_bytes
from wakeful.stores.database import Database
from wakeful.stores.grants import lacking, needed
from wakeful.stores.migrations import Standing, standing
from wakeful.stores.origins import Origin
from wakeful.version import __version__

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

MARKS: dict[Verdict, tuple[str, str]] = {"good": ("✓", "green"), "look": ("!", "yellow"), "broken": ("✗", "red")}

LEAST_FREE = 100 * 1024 * 1024
LITTLE_FREE = 1024 * 1024 * 1024


def declare(parser: Parser) -> None:
    add_app(parser, optional=True)
    add_store(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.telemetry.logs import configure_logs

    configure_logs(level="none")  # findings say what matters
    findings = list(look_around(arguments))
    if arguments.json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        show(findings)
    return 1 if any(finding.verdict == "broken" for finding in findings) else 0


doctor_command = Command(
    declare,
    execute,
    "Exits with 1 if a check failed (✗), for example because no worker is alive or an alarm is open, else with 0.",
)


def show(findings: list[Finding]) -> None:
    out = terminal()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark, style = MARKS[finding.verdict]
        out.print(
            Text.assemble((mark, style), f" {finding.what:<{width}}  {hanging(plain(finding.text), out, width + 4)}")
        )
        if finding.remedy:
            remedy = hanging(plain(finding.remedy), out, width + 6)
            out.print(Text(f"{'':{width + 4}}→ {remedy}", style="dim"))


# the checks


def look_around(arguments: argparse.Namespace) -> Iterator[Finding]:
    yield from versions()
    app = None
    if arguments.app is not None:
        from wakeful.loading import load_app

        try:
            app = load_app(arguments.app)
        except ConfigError as error:
            yield Finding("app", "broken", str(error), "fix it, then run `wakeful check`")
        else:
            yield Finding("app", "good", f"{app.name}, agents: {', '.join(app.agents) or 'none'}")
            for words in missing(app):
                yield Finding("secrets", "look", words, "set it where `wakeful serve` or `worker` is started")
    url = chosen_store(arguments, app)
    try:
        path = sqlite_path(url)
    except ConfigError as error:
        yield Finding("store", "broken", str(error))
        return
    yield from (Finding("privacy", "look", *one) for one in exposed(path, app))
    if path is not None:
        yield from file(path)
        if not path.exists() or not is_ours(path):
            return
    yield from asyncio.run(store(url, app))


def versions() -> Iterator[Finding]:
    import apsw

    yield Finding(
        "wakeful",
        "good",
        f"{__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    )
    yield from bytecode()
    yield Finding("sqlite", "good", f"{apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})")
    yield from installed_extensions()


def bytecode() -> Iterator[Finding]:
    """Python compiles modules at every start if it has no bytecode and cannot write any; that takes longer than the
    rest of the start.
    """
    import sys
    from importlib.util import cache_from_source, find_spec

    found = find_spec("wakeful.runtime")
    source = found.origin if found is not None else None
    if source is not None and sys.dont_write_bytecode and not Path(cache_from_source(source)).exists():
        yield Finding(
            "bytecode",
            "look",
            "Python compiles Wakeful again at each start: there is no bytecode, and writing it is disabled",
            f"run python -m compileall -q {Path(source).parent}, or install with UV_COMPILE_BYTECODE=1",
        )


def installed_extensions() -> Iterator[Finding]:
    """Triggers and channels from other packages. One that cannot be loaded affects only the apps that use it."""
    from wakeful.installed import package_of
    from wakeful.output.channels.installed import CHANNELS
    from wakeful.triggers.installed import TRIGGERS

    for kind in (TRIGGERS, CHANNELS):
        for name, entries in sorted(kind.installed().items()):
            try:
                kind.function_of(kind.find(name))
            except ConfigError as error:
                yield Finding(f"{kind.word}s", "look", str(error), "fix or uninstall it")
            else:
                yield Finding(f"{kind.word}s", "good", f'{kind.word}("{name}") of {package_of(entries[0])}')


def is_ours(path: Path) -> bool:
    try:
        return is_store(path)
    except StoreUnavailable:
        return False


def file(path: Path) -> Iterator[Finding]:
    """The file of a SQLite store, its folder and the disk."""
    from wakeful.stores.sqlite_connecting import refuse_network_file_system

    folder = path.absolute().parent
    try:
        refuse_network_file_system(path)
    except ConfigError as error:
        yield Finding("file system", "broken", str(error), "move it to a local disk, or use postgresql://…")
    if not path.exists():
        yield Finding(
            "file", "look", f"{path} does not exist yet", "the first `wakeful serve APP`, `emit` or `run` creates it"
        )
    elif not os.access(path, os.R_OK | os.W_OK):
        yield Finding("file", "broken", f"this user cannot read and write {path}", f"chown or chmod {path}")
    elif not is_ours(path):
        yield Finding(
            "file", "broken", f"{path} is not a Wakeful store", "name another one with --store or WAKEFUL_STORE"
        )
    else:
        yield Finding("file", "good", f"{path}, {in_bytes(path.stat().st_size)}, readable and writable")
    if not folder.is_dir():
        yield Finding("folder", "look", f"{folder} does not exist yet", "it is created together with the file")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "folder", "broken", f"{folder} is not writable: SQLite keeps its journal there", f"chown or chmod {folder}"
        )
    free = shutil.disk_usage(folder).free
    verdict: Verdict = "broken" if free < LEAST_FREE else "look" if free < LITTLE_FREE else "good"
    yield Finding(
        "disk", verdict, f"{in_bytes(free)} free", None if verdict == "good" else "free space before the disk is full"
    )


async def store(url: str, app: Declarations | None) -> list[Finding]:
    """The findings that need a connection to the store."""
    from wakeful.stores.opening import open_database

    findings: list[Finding] = []
    try:
        database = open_database(url, SystemClock())
    except WakefulError as error:
        return [Finding("store", "broken", str(error))]
    try:
        desk = looking(Reads(database))
        started = time.perf_counter()
        try:
            await desk.reads.health()
        except SchemaMismatch as error:
            findings.append(Finding("store", "good", f"{shown_store(url)} answers"))
            findings.append(Finding("schema", "broken", str(error), f"wakeful migrate --store {named_store(url)}"))
            return findings
        took = time.perf_counter() - started
        findings.append(Finding("store", "good", f"{shown_store(url)} answers in {readable(round(took * SECOND))}"))
        findings += schema(standing(database.dialect, await database.ledger()))
        findings += await origin(database, desk, url)
        if database.dialect == "postgres":
            findings += await server(url)
            findings += await rights(database)
        findings.append(await clock(desk, local=database.dialect == "sqlite"))
        findings += await processes(desk)
        findings += await schedules(desk)
        findings += await sources(desk)
        findings += await outbox(desk)
        findings += await people(desk)
        findings += await guarded(desk, app)
    except EncryptionKeyMissing as error:
        findings.append(Finding("encryption", "broken", str(error), "`wakeful keys` lists the keys that are needed"))
    except StoreForbidden as error:
        findings.append(Finding("rights", "broken", str(error)))
    except StoreUnavailable as error:
        findings.append(
            Finding(
                "store",
                "broken",
                str(error),
                "check the address, that the database runs, and that this user may connect",
            )
        )
    finally:
        await database.close()
    return findings


def named_store(url: str) -> str:
    """The store as it can be written in a command: as a variable if its address contains a password."""
    return quote(url) if shown_store(url) == url else '"$WAKEFUL_STORE"'


def schema(found: Standing) -> list[Finding]:
    """Whether a usable schema is the one that this version knows."""
    findings = [
        Finding(
            "schema",
            "look",
            f"{one.label} was applied with a different text (digest {(one.digest or '')[:12]}…) than this version has",
            "was it changed by hand, or by a build that was never released? Compare this schema with a new store's",
        )
        for one in found.changed
    ]
    if found.note is not None:
        remedy = None if found.ahead else "run `wakeful migrate` once all processes run this version"
        findings.append(Finding("schema", "look", found.note, remedy))
    return findings or [Finding("schema", "good", f"up to date ({found.schema:04})")]


async def origin(database: Database, desk: Desk, url: str) -> list[Finding]:
    """A finding if the store is a copy; nothing if it was always at this place."""
    found = [Origin(*row) for row in await database.fetch("list_origins")]
    path = sqlite_path(url)
    here = None if path is None else path.absolute()
    told = copied(found, await database.identity(), is_file=path is not None, now=await desk.reads.time(), here=here)
    return [] if told is None else [Finding("origin", "look", *told)]


async def server(url: str) -> list[Finding]:
    """PostgreSQL's version, and the settings that make "accepted" mean "on disk"."""
    from wakeful.stores.postgres_connections import OLDEST_VERSION, driver

    asyncpg = driver()
    connection = await asyncpg.connect(url, timeout=5)
    try:
        old = connection.get_server_version().major < OLDEST_VERSION
        version = await connection.fetchval("show server_version")  # "15.18 (Debian 15.18-1)"
        found = [
            Finding(
                "postgresql",
                "broken" if old else "good",
                version.split()[0],
                f"Wakeful needs {OLDEST_VERSION} or newer" if old else None,
            )
        ]
        off = [name for name in ("fsync", "synchronous_commit") if await connection.fetchval(f"show {name}") == "off"]
        if off:
            found.append(
                Finding(
                    "durability",
                    "broken",
                    f"{' and '.join(off)} off: accepted events can be lost",
                    f"set {off[0]} = on",
                )
            )
        else:
            found.append(Finding("durability", "good", "fsync and synchronous_commit are on"))
        return found
    finally:
        await connection.close()


async def rights(database: Database) -> list[Finding]:
    """The privileges on the tables that this role lacks; nothing if it has all of them."""
    missing_rights = await database.fetch("lacking_rights", *needed())
    if not missing_rights:
        return []
    ((_, _, role),) = await database.fetch("here")
    return [Finding("rights", "broken", *lacking(role, missing_rights))]
