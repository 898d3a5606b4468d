"""Opens the database of a store's address. Separate from the runtime, so that a command that only reads does not load the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wakeful.redaction import KNOWN
from wakeful.settings import encryption_keys, listen_store, most_connections, sqlite_path
from wakeful.stores.keyring import read_keys

if TYPE_CHECKING:
    from wakeful.clock import Clock
    from wakeful.secrets import Secret
    from wakeful.stores.database import Database


def open_database(
    url: str,
    clock: Clock,
    *,
    encryption: Sequence[Secret] | None = None,
    connections: int | None = None,
    listen: str | None = None,
) -> Database:
    """The database of a store's address. The encryption keys, the number of connections and the address to listen on are those given,
    else those of the settings.
    """
    for address in (url, listen or ""):
        KNOWN.learn_address("WAKEFUL_STORE", address)
    for key in encryption or ():
        if isinstance(key, str):
            KNOWN.learn("encryption key", key)
    path = sqlite_path(url)
    ring = read_keys(encryption, encryption_keys())
    if path is not None:
        from wakeful.stores.sqlite import SqliteBackend

        return SqliteBackend(path, clock, ring=ring)
    from wakeful.stores.postgres import PostgresBackend

    return PostgresBackend(
        url, clock, ring=ring, connections=connections or most_connections(), listen=listen or listen_store()
    )
