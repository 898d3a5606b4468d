"""`wakeful keys`: manage the keys that encrypt payloads.

new       print a new key
list      list the keys that this store needs, and the keys that are set here
rotate    encrypt all payloads with the first key, each bound to its place; the other keys are no longer needed then.
          With --strict, the store refuses plain text and unbound payloads from then on
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from wakeful.clock import SystemClock
from wakeful.errors import did_you_mean
from wakeful.operations.rotation import Rotated, rotate
from wakeful.settings import encryption_keys
from wakeful.shell.arguments import APP_HELP, Command, Parser, UsageError, actor_of, add_json, add_store
from wakeful.shell.carrying import carry_out, number
from wakeful.shell.opening import chosen_store, refuse_missing
from wakeful.shell.terminal import print_json, say
from wakeful.stores.keeping import Keeper
from wakeful.stores.keyring import new_key, read_keys
from wakeful.stores.sealing import Sealing
from wakeful.stores.tampered import WHAT_TO_DO

if TYPE_CHECKING:
    from wakeful.operations.pace import Pace, Progress
    from wakeful.stores.store import DatabaseStore

WORDS = ("new", "list", "rotate")
SHOWN = 20


def declare(parser: Parser) -> None:
    parser.add_argument("word", metavar="WORD", nargs="?", default="list", help="new, list (the default) or rotate")
    parser.add_argument("--app", metavar="APP", help=f"use the keys and the store of this app: {APP_HELP}")
    parser.add_argument(
        "--strict", action="store_true", help="rotate: afterwards refuse plain text and unbound payloads as tampering"
    )
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.word not in WORDS:
        message = f'there is no "keys {arguments.word}".{did_you_mean(arguments.word, WORDS)}'
        raise UsageError(message)
    if arguments.strict and arguments.word != "rotate":
        message = "--strict belongs to `wakeful keys rotate`"
        raise UsageError(message)
    if arguments.word == "new":
        key = new_key()
        print_json({"key": key}) if arguments.json else print(key)
        return 0
    app = None
    if arguments.app is not None:
        from wakeful.loading import load_app

        app = load_app(arguments.app)
    arguments.url, arguments.rate = chosen_store(arguments, app), None
    arguments.encryption = None if app is None else app.encryption
    return _list(arguments) if arguments.word == "list" else _rotate(arguments)


keys_command = Command(
    declare, execute, "Keys come from WAKEFUL_ENCRYPTION_KEYS or App(encryption=[…]); the first one encrypts."
)


def _list(arguments: argparse.Namespace) -> int:
    ring = read_keys(arguments.encryption, encryption_keys())
    here = ring.ids if ring is not None else frozenset()
    sealing = asyncio.run(_used(arguments.url))
    used = sealing.keys
    shown = [
        {
            "id": identifier,
            "here": identifier in here,
            "used": identifier in used,
            "first": ring is not None and identifier == ring.first.id,
        }
        for identifier in sorted(here | used)
    ]
    if arguments.json:
        print_json({"keys": shown, "bound": sealing.bound, "strict": bool(sealing.strict)})
    elif not shown:
        print("payloads are not encrypted: no key is set, and none was ever used")
    else:
        for one in shown:
            words = "encrypts" if one["first"] else "decrypts" if one["here"] else "MISSING"
            unused = "" if one["used"] else ", not used yet" if one["first"] else ", no payload needs it"
            print(f"{one['id']}  {words}{unused}")
        if sealing.keys:
            print(_words_of(sealing))
    return 0 if all(one["here"] for one in shown) else 1


def _words_of(sealing: Sealing) -> str:
    if sealing.strict:
        return "strict: plain text and payloads that are not bound to their place are refused as tampering"
    if sealing.bound:
        return "new payloads are bound to their place; `wakeful keys rotate --strict` also refuses unbound ones"
    return "payloads are not bound to their place: run `wakeful keys rotate` once every process runs this version"


async def _used(url: str) -> Sealing:
    """Read the keys in use, without the check that all of them are set here."""
    from wakeful.stores.opening import open_database

    refuse_missing(url)
    database = open_database(url, SystemClock(), encryption=[])
    try:
        return Sealing.of([row[0] for row in await database.fetch("list_ciphers")])
    finally:
        await database.close()


def _rotate(arguments: argparse.Namespace) -> int:
    rotated: list[Rotated] = []

    async def work(store: DatabaseStore, pace: Pace, progress: Progress) -> int:
        keeper = Keeper(store)
        by = actor_of(arguments)
        done = await rotate(keeper, store.database.codec, by, pace=pace, progress=progress, strict=arguments.strict)
        rotated.append(done)
        return done.payloads

    arguments.resealing = True
    _, stopped = carry_out(arguments, work)
    (done,) = rotated
    if arguments.json:
        print_json(
            {
                "payloads": done.payloads,
                "no_longer_needed": done.left,
                "complete": done.complete,
                "strict": done.strict,
                "tampered": [str(one) for one in done.tampered],
            }
        )
    elif done.complete:
        more = f"; no longer needed: {', '.join(done.left)}" if done.left else ""
        more += "; the store is strict" if done.strict else ""
        print(f"encrypted {number(done.payloads, 'payload')} again; all payloads use the first key{more}")
    elif stopped:
        say("stopped; run the same command again to continue")
    elif done.tampered:
        for one in done.tampered[:SHOWN]:
            say(str(one))
        left = "payload was left unchanged" if len(done.tampered) == 1 else "payloads were left unchanged"
        say(f"{len(done.tampered):,} {left}; `wakeful alarms` shows an alarm for each column. {WHAT_TO_DO}")
    elif done.waits_for is not None:
        say(done.waits_for)
    else:
        say(
            "another process still writes with an older key: restart all processes with the new key, then run this again"
        )
    return 0 if done.complete else 1
