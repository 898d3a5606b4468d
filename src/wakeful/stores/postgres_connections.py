"""Connections to one PostgreSQL, through asyncpg: to the address that was given, directly to the server, or out of a pool.

A connection that breaks is dropped, and its user is told StoreUnavailable. The server ends sessions of ours that fell silent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from wakeful.errors import ConfigError, StoreFull, StoreUnavailable
from wakeful.stores.connections import budget_of
from wakeful.stores.grants import forbidden

if TYPE_CHECKING:
    import asyncpg

COMMAND_TIMEOUT = 15.0
CONNECT_TIMEOUT = 5.0
# How long the server waits for the next statement of a transaction of ours. After a connection was lost, the journal waits for
# the transaction that may still be on its way there, and the server may not know yet that its client is gone.
IDLE_IN_TRANSACTION_LIMIT = 5.0
OLDEST_VERSION = 15


def driver() -> Any:
    """asyncpg, loaded when it is first needed. ConfigError if it is not installed."""
    try:
        import asyncpg
    except ImportError as error:
        message = "a postgresql:// store needs asyncpg: pip install 'wakeful[postgres]'"
        raise ConfigError(message) from error
    return asyncpg


def limits() -> dict[str, str]:
    """Settings by which the server soon notices that its client is gone. Milliseconds, and seconds for TCP."""
    return {
        "idle_in_transaction_session_timeout": str(round(IDLE_IN_TRANSACTION_LIMIT * 1000)),
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "3",
    }


class PostgresConnections:
    """Connects to one store. `connections`: the most it may have. `listen`: the server's own address, if `dsn` is a pooler's."""

    def __init__(self, dsn: str, *, connections: int | None, listen: str | None) -> None:
        self.dsn = dsn
        self.direct_dsn = listen or dsn
        self.pooled = listen is not None
        self.asyncpg = driver()
        self._budget = budget_of(connections)
        self._pools: dict[bool, asyncpg.Pool[Any]] = {}
        self._pool_lock = asyncio.Lock()
        errors = self.asyncpg.exceptions
        self.gone: tuple[type[BaseException], ...] = (
            OSError,
            TimeoutError,
            errors.PostgresConnectionError,
            errors.InterfaceError,
            errors.InternalClientError,
            errors.OperatorInterventionError,
            errors.InsufficientResourcesError,
            errors.ReadOnlySQLTransactionError,
            errors.InvalidAuthorizationSpecificationError,
            errors.InvalidCatalogNameError,
            errors.IdleInTransactionSessionTimeoutError,
        )
        self.silenced: tuple[type[BaseException], ...] = (StoreUnavailable, *self.gone)
        self.denied: type[Exception] = errors.InsufficientPrivilegeError

    async def connect(self, **settings: str) -> Any:
        """A connection to the address that was given. StoreUnavailable if it cannot be made."""
        try:
            return await self.asyncpg.connect(self.dsn, **self._options(pooled=self.pooled, **settings))
        except self.gone as error:
            raise self.unavailable(error) from error

    async def connect_directly(self, **settings: str) -> Any:
        """A session of our own, even if everything else goes through a pooler. StoreUnavailable as above."""
        try:
            return await self.asyncpg.connect(self.direct_dsn, **self._options(pooled=False, **settings))
        except self.gone as error:
            raise self.unavailable(error) from error

    @staticmethod
    def _options(*, pooled: bool, **settings: str) -> dict[str, Any]:
        options = {"timeout": CONNECT_TIMEOUT, "command_timeout": COMMAND_TIMEOUT}
        if pooled:  # a pooler refuses settings it does not know, and the next transaction may be in another session
            return {**options, "server_settings": {"application_name": "wakeful"}, "statement_cache_size": 0}
        return {**options, "server_settings": {"application_name": "wakeful", "jit": "off", **settings}}

    @contextlib.asynccontextmanager
    async def borrowed(self, *, for_users: bool = False) -> AsyncIterator[Any]:
        """A connection of a pool. Users' transactions have a pool of their own, so that slow ones do not keep us from reading; if
        there are too few connections for that, readers wait for them.
        """
        budget = self._budget
        of_users = for_users
        for_users = for_users and budget.users > 0
        try:
            async with self._pool_lock:
                pool = self._pools.get(for_users)
                if pool is None:
                    pool = self._pools[for_users] = await self.asyncpg.create_pool(
                        self.dsn,
                        min_size=0,
                        max_size=budget.users if for_users else budget.reading,
                        max_inactive_connection_lifetime=60,
                        reset=None if (for_users or not budget.users) and not self.pooled else nothing_to_reset,
                        **self._options(pooled=self.pooled),
                    )
            patience = None if for_users or not budget.users else CONNECT_TIMEOUT
            async with pool.acquire(timeout=patience) as connection:
                try:
                    yield connection
                except self.denied as error:
                    if of_users:  # a right that the user's function lacks is its own matter
                        raise
                    raise forbidden(error, role_of(connection)) from error
        except self.gone as error:
            raise self.unavailable(error) from error

    async def close(self) -> None:
        """Close the pools."""
        while self._pools:
            _, pool = self._pools.popitem()
            try:
                await asyncio.wait_for(pool.close(), CONNECT_TIMEOUT)
            except self.gone:
                pool.terminate()

    @staticmethod
    async def drop(connection: Any) -> None:
        """Close without waiting for the other side, which may be the side that broke."""
        if connection is not None and not connection.is_closed():
            connection.terminate()

    def unavailable(self, error: BaseException) -> StoreUnavailable:
        """One of the `gone` errors as callers get it."""
        if isinstance(error, self.asyncpg.exceptions.DiskFullError):
            return StoreFull(f"the disk of PostgreSQL is full: free some space; work then resumes by itself ({error})")
        return StoreUnavailable(f"PostgreSQL is unavailable: {str(error) or type(error).__name__}")


def role_of(connection: Any) -> str | None:
    """The role that a connection works as."""
    if connection is None or connection.is_closed():
        return None
    return getattr(connection.get_settings(), "session_authorization", None)


async def nothing_to_reset(_: Any) -> None:
    """Reading leaves no trace on a connection, so the round trip that would remove one is spared."""
