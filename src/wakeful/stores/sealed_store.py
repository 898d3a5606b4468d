"""The keys of a store: checked when it is opened, and looked at again while a process works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from wakeful.settings import strict_encryption
from wakeful.stores.database import Database
from wakeful.stores.migrations import standing
from wakeful.stores.sealing import BOUND, Sealing, refuse_without_mark, strict_mark
from wakeful.stores.verbs.keeping import EnterCipher


async def check_keys(database: Database, submit: Callable[[EnterCipher], Awaitable[None]], *, resealing: bool) -> None:
    """Check that every key is here that payloads are encrypted with. EncryptionKeyMissing or ConfigError if not.

    The first key is entered before it is used. In a store without any key, payloads are bound to their places from the start:
    no process reads them that cannot read bound payloads.
    """
    if standing(database.dialect, await database.ledger()).missing:
        return  # the caller is told about the missing migrations first
    codec = database.codec
    ring, demanded = codec.ring, strict_encryption() and not resealing
    sealing = await sealing_of(database)
    sealing.apply(codec, demanded=demanded)
    if ring is None:
        return
    codec.binds = sealing.bound or sealing.is_new
    entered = [ring.first.id, *([f"{ring.first.id}{BOUND}"] if codec.binds else [])]
    if demanded and not sealing.strict:
        if not sealing.is_new or (await database.fetch("span_of_events"))[0][0] is not None:
            raise refuse_without_mark()
        entered.append(strict_mark(ring))
    for one in entered:
        if one not in sealing.ids:
            await submit(EnterCipher(one))


async def look_at_sealing(database: Database) -> bool:
    """Adopt the marks of the store: payloads are bound to their places, the store is strict. True if this process binds what it
    writes. A mark that was adopted once holds for as long as the process lives.
    """
    codec = database.codec
    if codec.ring is None:
        return False
    (await sealing_of(database)).apply(codec)
    return codec.binds


async def sealing_of(database: Database) -> Sealing:
    """The marks as they are stored."""
    return Sealing.of([row[0] for row in await database.fetch("list_ciphers")])
