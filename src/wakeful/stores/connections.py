"""How many connections a process has to PostgreSQL, and where they lead.

    journal 1 · listening 1 · lease 1 · reading and run.transaction: what is left, the larger half for reading

Behind a pooler that shares sessions by transaction, those that listen and keep the lease go to the server itself: both need a
session of their own. Everything else goes through the pooler, as transactions that need nothing of the one before: no prepared
statements, and settings that last as long as the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.errors import ConfigError

FIXED = 3  # for the journal, for listening and for the lease
FEWEST = FIXED + 1
READING = 4
USERS = 16


# The same database of the same server, however one comes to it.
SAME_SERVER = """
select current_database()::text, (select oid from pg_database where datname = current_database())::bigint,
  pg_postmaster_start_time()"""


# What PgBouncer says to the settings that we start a session with.
POOLERS_REFUSAL = "unsupported startup parameter"


@dataclass(frozen=True, slots=True)
class Budget:
    """How many connections may read, and how many are for run.transaction. None of these: it shares those that read."""

    reading: int = READING
    users: int = USERS


def budget_of(connections: int | None) -> Budget:
    """The parts of a whole. ConfigError for one that is too small, or no number."""
    if connections is None:
        return Budget()
    if not isinstance(connections, int) or isinstance(connections, bool) or connections < FEWEST:
        message = (
            f"connections must be a whole number from {FEWEST} up, not {connections!r}: one each for the journal, for listening and "
            "for the lease, and one for reading and run.transaction"
        )
        raise ConfigError(message)
    left = connections - FIXED
    return Budget(left - left // 2, left // 2)


def is_a_pooler(address: str) -> ConfigError:
    return ConfigError(
        f"{address} is a pooler, and not the server itself: words of other processes and the lease need sessions of their own. "
        "Set WAKEFUL_LISTEN_STORE, or App(listen_store=…), to the address of the server; two connections of each process go there, "
        "and everything else goes through the pooler"
    )


def is_another(listen: str, store: str) -> ConfigError:
    return ConfigError(
        f"WAKEFUL_LISTEN_STORE, or App(listen_store=…), is {listen}, which is another database than that behind {store}: both must "
        "lead to the same one"
    )
