"""How many PostgreSQL connections a process opens, and to which address.

    journal 1 · listening 1 · lease 1 · the rest: reading and run.transaction, the larger half for reading

Behind a pooler in transaction mode, the listening and the lease connection go to the server directly, because both need a session
of their own. All other connections use the pooler. Their transactions depend on nothing before them: no prepared statements, and
settings that last only for the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.errors import ConfigError

FIXED = 3  # for the journal, for listening and for the lease
FEWEST = FIXED + 1
READING = 4
USERS = 16


# Two addresses that give the same answer lead to the same database of the same server.
SAME_SERVER = """
select current_database()::text, (select oid from pg_database where datname = current_database())::bigint,
  pg_postmaster_start_time()"""


# PgBouncer's answer to the settings that we start a session with.
POOLERS_REFUSAL = "unsupported startup parameter"


@dataclass(frozen=True, slots=True)
class Budget:
    """How many connections may read, and how many serve run.transaction. If none serves it, it shares the reading ones."""

    reading: int = READING
    users: int = USERS


def budget_of(connections: int | None) -> Budget:
    """Divide a total. Raises ConfigError if it is too small or not a number."""
    if connections is None:
        return Budget()
    if not isinstance(connections, int) or isinstance(connections, bool) or connections < FEWEST:
        message = (
            f"connections must be a whole number from {FEWEST} up, not {connections!r}: one each for the journal, listening and the "
            "lease, and one for reading and run.transaction"
        )
        raise ConfigError(message)
    left = connections - FIXED
    return Budget(left - left // 2, left // 2)


def is_a_pooler(address: str) -> ConfigError:
    return ConfigError(
        f"{address} is a pooler, not the server itself: listening and the lease need sessions of their own. "
        "Set WAKEFUL_LISTEN_STORE, or App(listen_store=…), to the address of the server. Each process opens two connections there; "
        "all others go through the pooler"
    )


def is_another(listen: str, store: str) -> ConfigError:
    return ConfigError(
        f"WAKEFUL_LISTEN_STORE, or App(listen_store=…), is {listen}, which is not the database behind {store}: both must lead to "
        "the same one"
    )
