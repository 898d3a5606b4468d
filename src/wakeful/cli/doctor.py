"""doctor: is everything as it should be? ✓ good, ! for a person to look at, ✗ broken, each with its remedy."""

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

    configure_logs(level="none")  # what matters becomes a finding
    findings = list(look_around(arguments))
    if arguments.json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        show(findings)
    return 1 if any(finding.verdict == "broken" for finding in findings) else 0


doctor_command = Command(
    declare,
    execute,
    "The exit code is 0 if all is well, and 1 if something is wrong (✗): no worker alive and open alarms are among it.",
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


# what is looked at


def look_around(arguments: argparse.Namespace) -> Iterator[Finding]:
    yield from versions()
    app = None
    if arguments.app is not None:
        from wakeful.loading import load_app

        try:
            app = load_app(arguments.app)
        except ConfigError as error:
            yield Finding("app", "broken", str(error), "mend it, then `wakeful check` again")
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
    yield from installed_triggers()


def bytecode() -> Iterator[Finding]:
    """Python compiles at every start what it finds no bytecode of and may not write any of: that takes longer than the rest."""
    import sys
    from importlib.util import cache_from_source, find_spec

    found = find_spec("wakeful.runtime")
    source = found.origin if found is not None else None
    if source is not None and sys.dont_write_bytecode and not Path(cache_from_source(source)).exists():
        yield Finding(
            "bytecode",
            "look",
            "Wakeful is compiled anew at each start of a process: there is no bytecode, and none may be written",
            f"python -m compileall -q {Path(source).parent}, or UV_COMPILE_BYTECODE=1 when it is installed",
        )


def installed_triggers() -> Iterator[Finding]:
    """Triggers that other packages bring. One that cannot be loaded concerns only whoever uses it."""
    from wakeful.triggers.installed import find, installed, make_of, package_of

    for name, entries in sorted(installed().items()):
        try:
            make_of(find(name))
        except ConfigError as error:
            yield Finding("triggers", "look", str(error), "mend or uninstall it")
        else:
            yield Finding("triggers", "good", f'trigger("{name}") of {package_of(entries[0])}')


def is_ours(path: Path) -> bool:
    try:
        return is_store(path)
    except StoreUnavailable:
        return False


def file(path: Path) -> Iterator[Finding]:
    """The file of a SQLite store, and the place it is in."""
    from wakeful.stores.sqlite_connecting import refuse_network_file_system

    folder = path.absolute().parent
    try:
        refuse_network_file_system(path)
    except ConfigError as error:
        yield Finding("file system", "broken", str(error), "move it to a local disk, or use postgresql://…")
    if not path.exists():
        yield Finding(
            "file", "look", f"{path} is not there yet", "the first `wakeful serve APP`, `emit` or `run` makes it"
        )
    elif not os.access(path, os.R_OK | os.W_OK):
        yield Finding("file", "broken", f"{path} cannot be read and written by this user", f"chown or chmod {path}")
    elif not is_ours(path):
        yield Finding(
            "file", "broken", f"{path} is not a store of Wakeful", "name another one with --store or WAKEFUL_STORE"
        )
    else:
        yield Finding("file", "good", f"{path}, {in_bytes(path.stat().st_size)}, readable and writable")
    if not folder.is_dir():
        yield Finding("folder", "look", f"{folder} is not there yet", "it is made together with the file")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "folder", "broken", f"{folder} is not writable: SQLite keeps its journal there", f"chown or chmod {folder}"
        )
    free = shutil.disk_usage(folder).free
    verdict: Verdict = "broken" if free < LEAST_FREE else "look" if free < LITTLE_FREE else "good"
    yield Finding(
        "disk", verdict, f"{in_bytes(free)} free", None if verdict == "good" else "make room before it is full"
    )


async def store(url: str, app: Declarations | None) -> list[Finding]:
    """What the store itself says."""
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
        findings.append(Finding("encryption", "broken", str(error), "`wakeful keys` lists which are needed"))
    except StoreForbidden as error:
        findings.append(Finding("rights", "broken", str(error)))
    except StoreUnavailable as error:
        findings.append(
            Finding("store", "broken", str(error), "is the address right, does it run, may this user connect?")
        )
    finally:
        await database.close()
    return findings


def named_store(url: str) -> str:
    """A store as it can be written in a command: by its variable, where its address holds a password."""
    return quote(url) if shown_store(url) == url else '"$WAKEFUL_STORE"'


def schema(found: Standing) -> list[Finding]:
    """The schema can be worked with: is it as this version knows it?"""
    findings = [
        Finding(
            "schema",
            "look",
            f"{one.label} was applied with another text (digest {(one.digest or '')[:12]}…) than this version has",
            "was it changed by hand, or by a build that was never released? Compare this schema with a new store's",
        )
        for one in found.changed
    ]
    if found.note is not None:
        remedy = None if found.ahead else "wakeful migrate, when all processes run this version"
        findings.append(Finding("schema", "look", found.note, remedy))
    return findings or [Finding("schema", "good", f"up to date ({found.schema:04})")]


async def origin(database: Database, desk: Desk, url: str) -> list[Finding]:
    """A copy of a store is told; nothing is said of one that is where it always was."""
    found = [Origin(*row) for row in await database.fetch("list_origins")]
    path = sqlite_path(url)
    here = None if path is None else path.absolute()
    told = copied(found, await database.identity(), is_file=path is not None, now=await desk.reads.time(), here=here)
    return [] if told is None else [Finding("origin", "look", *told)]


async def server(url: str) -> list[Finding]:
    """PostgreSQL's version, and the settings without which "accepted" would not mean "on disk"."""
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
                    f"{' and '.join(off)} off: what was accepted can be lost",
                    f"set {off[0]} = on",
                )
            )
        else:
            found.append(Finding("durability", "good", "fsync and synchronous_commit are on"))
        return found
    finally:
        await connection.close()


async def rights(database: Database) -> list[Finding]:
    """What this role may not do with the tables; nothing is said of one that may do all that is needed."""
    missing_rights = await database.fetch("lacking_rights", *needed())
    if not missing_rights:
        return []
    ((_, _, role),) = await database.fetch("here")
    return [Finding("rights", "broken", *lacking(role, missing_rights))]
