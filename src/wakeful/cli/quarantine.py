"""`wakeful quarantine`: what came in and could not be verified or read. It is kept, as it came, until a person has looked.

show      one of them: why, what came along, how its bytes begin; --raw writes them
release   after a fix: its source reads it again, and it becomes the event that it should have been; needs the app's code
discard   nothing comes of it
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.text import Text

from wakeful.cli.listings import add_listing, paged, say_more
from wakeful.errors import NotFound, did_you_mean
from wakeful.operations.pace import Pace
from wakeful.operations.quarantine import Settled, Tally, discard, kept_keys, release, settle_all
from wakeful.operations.redo import MANY
from wakeful.private_files import write_file
from wakeful.readers.reader import Reader
from wakeful.redaction import redact_base64, redact_bytes
from wakeful.resources import sources
from wakeful.resources.desk import looking
from wakeful.settings import default_app
from wakeful.shell.arguments import Command, Parser, UsageError, actor_of, one_of
from wakeful.shell.carrying import ProgressLine, number, refuse_many, said_stop
from wakeful.shell.life import Stopping, live
from wakeful.shell.narrow import print_fitted
from wakeful.shell.opening import changing, chosen_store, read, sending
from wakeful.shell.person import needs_token, refuse_children
from wakeful.shell.terminal import (
    Cell,
    ago,
    clock_time,
    is_piped,
    now,
    plain,
    plain_lines,
    print_json,
    say,
    short,
    state,
    terminal,
)
from wakeful.size import in_bytes
from wakeful.stores.verbs.take_in import QuarantineKind

if TYPE_CHECKING:
    from wakeful.runtime import Runtime
    from wakeful.stores.store import DatabaseStore

VERBS = ("list", "show", "release", "discard")
STATES = ("kept", "released", "discarded")
SHOWN_BYTES = 2_000
BYTES_A_LINE = 16

Shown = dict[str, Any]
RELEASE = "release what is in quarantine"  # as an error says it


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="list (the default), show ID, release [APP] [ID], discard [ID]"
    )
    add_quarantine_filter(parser)
    parser.add_argument(
        "--state", metavar="STATE", type=one_of(STATES, what="state"), help=f"with list: {', '.join(STATES)}"
    )
    parser.add_argument("--of", metavar="NAME", help="the app's name, where the store has several")
    parser.add_argument(
        "--raw", metavar="FILE", help="with show: write the bytes, as they came, there; - is standard output"
    )
    parser.add_argument("--all", action="store_true", help="with release or discard: all that --source NAME has there")
    parser.add_argument(
        "--trust", action="store_true", help="with release: do not verify the sender again; you vouch for it"
    )
    parser.add_argument("--plan", action="store_true", help="with --all: only say how many there are")
    parser.add_argument("--yes", action="store_true", help=f"also when there are more than {MANY:,}")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_listing(parser)
    parser.set_defaults(in_flight=None, log_level=None, log_format=None)  # as whoever loads an app expects them


def add_quarantine_filter(parser: Parser) -> None:
    known = get_args(QuarantineKind)
    parser.add_argument("--source", metavar="NAME", help="of what is quarantined: only from this source")
    parser.add_argument(
        "--kind", metavar="KIND", type=one_of(known, what="kind"), help=f"of what is quarantined: {' or '.join(known)}"
    )


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["list"]
    if verb not in VERBS:
        message = f'there is no "quarantine {plain(verb)}".{did_you_mean(verb, VERBS)}'
        raise UsageError(message)
    refuse_wrong_words(arguments, verb, rest)
    match verb:
        case "list":
            return list_quarantine(arguments)
        case "show":
            return _show(arguments, rest[0])
        case "release":
            refuse_children(RELEASE)
            return _release(arguments, rest)
        case _:
            return _discard(arguments, rest)


quarantine_command = Command(
    declare, execute, "wakeful why ID tells what became of one of them. Without APP, WAKEFUL_APP or app.py is used."
)


def refuse_wrong_words(arguments: argparse.Namespace, verb: str, rest: list[str]) -> None:
    message = None
    settles = verb in {"release", "discard"}
    if verb == "list" and rest:
        message = "quarantine list takes no ID: quarantine show ID shows one"
    elif verb == "show" and len(rest) != 1:
        message = "quarantine show takes one ID"
    elif arguments.raw is not None and verb != "show":
        message = "--raw is for show"
    elif arguments.trust and verb != "release":
        message = "--trust is for release"
    elif arguments.all and not settles:
        message = "--all is for release and discard"
    elif settles and arguments.all and arguments.source is None:
        message = f"--all of which source? Say it: wakeful quarantine {verb} --all --source NAME"
    elif settles and not arguments.all and (arguments.source or arguments.kind):
        message = f"quarantine {verb} takes an ID, or --all --source NAME"
    elif verb == "discard" and len(rest) != (0 if arguments.all else 1):
        message = "quarantine discard takes one ID, or --all --source NAME"
    elif verb == "release" and arguments.all and len(rest) > 1:
        message = "quarantine release takes an ID, or --all --source NAME, and not both"
    if message is not None:
        raise UsageError(message)


# looking


def list_quarantine(arguments: argparse.Namespace) -> int:
    async def ask(reader: Reader) -> tuple[Shown, bool]:
        page = await paged(
            reader.quarantine(
                app=arguments.of,
                source=arguments.source,
                kind=arguments.kind,
                state=arguments.state,
                limit=arguments.limit,
                after=arguments.after,
            )
        )
        first = page if page["quarantine"] else await reader.quarantine(limit=1)
        return page, bool(first["quarantine"] or first["unverified"]["cut"])

    page, some = read(chosen_store(arguments), ask)
    if arguments.json:
        print_json(page)
        return 0
    if not page["quarantine"]:
        print("nothing like that is in quarantine" if some else "nothing is in quarantine, and nothing ever was")
        say_cut(page)
        return 0
    out, present = terminal(), now()
    columns = ["input", "source", "kind", "state", "came", "times", "size", "reason"]
    rows: list[dict[str, Cell]] = []
    for one in page["quarantine"]:
        cells: dict[str, Cell] = {
            "input": short(one["key"], out),
            "source": plain(one["source"]),
            "kind": plain(one["kind"]),
            "state": state(one["state"]),
            "came": ago(one["first_at"], present),
            "times": f"{one['came']:,}",
            "size": f"{one['size']:,}" if one["size"] else "–",
            "reason": Text(plain(one["reason"] or ""), style="dim"),
        }
        rows.append(cells)
    print_fitted(out, columns, rows, note="reason", less=("times", "size", "came", "kind"), flexible="source")
    say_more(page, "quarantined inputs")
    say_cut(page)
    return 0


def say_cut(page: Shown) -> None:
    """What was removed so that the unverified stay below their ceiling, one line for each source and reason."""
    because = {"bytes": "the unverified took too much room", "days": "they were too old"}
    for one in page["unverified"]["cut"]:
        what = f"{number(one['count'], 'unverified input')} ({in_bytes(one['bytes'])})"
        print(f"{plain(one['source'])}: {what} removed since {one['since']}, because {because[one['why']]}")


def find(url: str, identifier: str) -> Shown:
    found = read(url, lambda reader: reader.quarantined(identifier))
    if found is None:
        message = f'there is nothing "{plain(identifier)}" in quarantine: see `wakeful quarantine`'
        raise NotFound(message)
    return found


def _show(arguments: argparse.Namespace, identifier: str) -> int:
    found = find(chosen_store(arguments), identifier)
    if arguments.raw is not None:
        return _write_raw(arguments, found)
    if arguments.json:
        print_json(public(found))
        return 0
    out = terminal()
    head = Text.assemble((plain(found["key"]), "bold"), f"  {found['kind']}, from {plain(found['source'])}, ")
    out.print(head.append_text(state(found["state"])))
    times = "" if found["came"] == 1 else f", {found['came']:,} times in all"
    size = f", {number(found['size'], 'byte')}" if found["size"] else ""  # of a file there is only its name
    lines = [
        found["reason"] or "no reason was given",
        f"app {found['app']}, came at {clock_time(found['first_at'])}{times}{size}",
    ]
    if found["state"] != "kept":
        note = f": {found['note']}" if found["note"] else ""
        lines.append(f"{found['state']} by {found['settled_by']} at {clock_time(found['settled_at'])}{note}")
    for line in lines:
        out.print(Text(f"  {plain(line)}"), soft_wrap=is_piped(out))
    for name, value in (found["headers"] or {}).items():
        out.print(Text.assemble((f"  {plain(name)}: ", "dim"), plain(value)), soft_wrap=is_piped(out))
    if found["raw"] is None:
        print("its bytes were removed when their retention time was over")
        return 0
    raw = redact_bytes(b64decode(found["raw"]))
    print()
    print(in_words(raw[:SHOWN_BYTES]))
    if len(raw) > SHOWN_BYTES:
        say(
            f"{len(raw) - SHOWN_BYTES:,} more bytes: wakeful quarantine show {found['key']} --raw FILE writes all of them"
        )
    return 0


def public(found: Shown) -> Shown:
    """As the HTTP API answers."""
    raw = None if found["raw"] is None else redact_base64(found["raw"])
    return {name: value for name, value in found.items() if name != "received"} | {"raw": raw}


def in_words(raw: bytes) -> str:
    """Bytes for a person: as text, or, where they are none, in hexadecimal."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        if error.start < len(raw) - 3:  # not merely cut in the middle of a character
            return "\n".join(raw[at : at + BYTES_A_LINE].hex(" ") for at in range(0, len(raw), BYTES_A_LINE))
        text = raw[: error.start].decode()
    return plain_lines(text)


def _write_raw(arguments: argparse.Namespace, found: Shown) -> int:
    if found["raw"] is None:
        message = f"the bytes of {found['key']} were removed when their retention time was over"
        raise NotFound(message)
    came = b64decode(found["raw"])
    raw = redact_bytes(came)
    if raw is not came:
        say("a secret that is known here was replaced in it; the store has the bytes as they came")
    if arguments.raw == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
        return 0
    try:
        write_file(Path(arguments.raw), raw)
    except OSError as error:
        message = f"--raw {arguments.raw}: {error.strerror}"
        raise UsageError(message) from None
    say(f"{number(len(raw), 'byte')} written to {arguments.raw}")
    return 0


# settling


def _release(arguments: argparse.Namespace, rest: list[str]) -> int:
    from wakeful.loading import load_app

    identifier = None if arguments.all or not rest else rest[-1]
    named = rest if arguments.all else rest[:-1]
    place = named[0] if named else default_app()
    if place is None or len(named) > 1 or (identifier is None and not arguments.all):
        message = (
            "quarantine release takes APP and an ID, or APP --all --source NAME, like: wakeful quarantine release app.py "
            "3f2a91c04d. Without APP, WAKEFUL_APP or an app.py in this folder is used"
        )
        raise UsageError(message)
    app = load_app(place)
    arguments.url = chosen_store(arguments, app)
    token = needs_token(RELEASE, arguments.url)
    token.opens([app.name])
    if identifier is None:
        return _settle_all(arguments, app.name, app)
    found = find(arguments.url, identifier)
    token.opens([found["app"]])

    async def go() -> Settled:
        async with sending(app, arguments.url, sources=True) as runtime:
            return await release(
                runtime.store,
                runtime.releasing,
                found,
                by=actor_of(arguments),
                note=arguments.note,
                trust=arguments.trust,
            )

    return _tell(arguments, found, asyncio.run(go()))


def _discard(arguments: argparse.Namespace, rest: list[str]) -> int:
    arguments.url = chosen_store(arguments)
    if arguments.all:
        name, app = arguments.source, arguments.of
        source = read(arguments.url, lambda reader: reader.source(name, app))
        if source is None:
            raise NotFound(read(arguments.url, lambda reader: sources.missing(looking(reader), name, app=app)))
        return _settle_all(arguments, source["app"], None)
    found = find(arguments.url, rest[0])

    async def go() -> Settled:
        async with changing(arguments.url) as store:
            return await discard(store, found, by=actor_of(arguments), note=arguments.note)

    return _tell(arguments, found, asyncio.run(go()))


def _tell(arguments: argparse.Namespace, found: Shown, settled: Settled) -> int:
    if settled.wrong is not None:
        message = f"{found['key']} still cannot be taken in, and stays: {settled.wrong}"
        raise NotFound(message)
    if settled.refused is not None:
        raise NotFound(settled.refused)
    if arguments.json:
        print_json(settled.to_json())
        return 0
    print(f"{found['key']}: {settled.state}")
    for receipt in settled.receipts:
        words = f"event {plain(receipt.id)} from {plain(receipt.source)}: "
        if receipt.status == "duplicate":
            words += "it had come again meanwhile, and starts nothing"
        else:
            words += f"{receipt.status}, {number(len(receipt.runs), 'run')}"
        print(words)
    return 0


def _settle_all(arguments: argparse.Namespace, name: str, app: Any) -> int:
    """Release them with the app's code, or discard them."""
    keys = read(arguments.url, lambda reader: kept_keys(reader, name, arguments.source, arguments.kind))
    if not keys:
        message = (
            f"nothing of source {plain(arguments.source)} of app {name} is in quarantine: see `wakeful quarantine`"
        )
        raise NotFound(message)
    verb = "discard" if app is None else "release"
    if arguments.plan:
        words = f"would {verb} {number(len(keys), 'input')} of source {plain(arguments.source)}"
        print_json({"plan": words, "count": len(keys)}) if arguments.json else print(words)
        return 0
    refuse_many(arguments, len(keys), "inputs")
    tally, stopped = _carry_out(arguments, name, app, keys)
    if arguments.json:
        print_json({**tally.to_json(), "of": len(keys), "stopped": stopped})
    else:
        known = f"; {number(tally.known, 'event')} had come again meanwhile" if tally.known else ""
        print(f"{tally.done:,} of {number(len(keys), 'input')} {verb}{'ed' if app is None else 'd'}{known}")
        for reason, count in tally.wrong.most_common():
            say(f"{count:>7,}  stay: {plain(reason)}")
    return said_stop(stopped=stopped) or (1 if tally.wrong else 0)


def _carry_out(arguments: argparse.Namespace, name: str, app: Any, keys: list[str]) -> tuple[Tally, bool]:
    tally, stopped = Tally(), False

    async def settle(store: DatabaseStore, runtime: Runtime | None, stopping: Stopping) -> None:
        nonlocal tally, stopped
        line, pace = ProgressLine(), Pace(None, stopping.asked)
        try:
            tally = await settle_all(
                store,
                Reader(store.database),
                keys,
                None if runtime is None else runtime.releasing,
                app=name,
                source=arguments.source,
                by=actor_of(arguments),
                note=arguments.note,
                trust=arguments.trust,
                pace=pace,
                progress=line.show,
            )
        finally:
            line.end()
        stopped = pace.cut_short

    async def go(stopping: Stopping) -> int:
        if app is None:
            async with changing(arguments.url) as store:
                await settle(store, None, stopping)
        else:
            async with sending(app, arguments.url, sources=True) as runtime:
                await settle(runtime.store, runtime, stopping)
        return 0

    live(go)
    return tally, stopped
