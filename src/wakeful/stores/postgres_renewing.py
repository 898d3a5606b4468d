"""The lease of a process on PostgreSQL, renewed from a thread with a connection and an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from wakeful.clock import Clock, Microseconds
from wakeful.stores.grants import forbidden
from wakeful.stores.postgres_connections import PostgresConnections, role_of
from wakeful.stores.transaction import Row


class PostgresRenewer:
    """Renews a lease, or writes. Called from a thread of its own."""

    def __init__(self, connections: PostgresConnections, queries: Mapping[str, str], clock: Clock) -> None:
        self._connections = connections
        self._queries = queries
        self._clock = clock
        self._runner = asyncio.Runner()
        self._connection: Any = None

    def renew(self, process: str, lease: Microseconds) -> bool:
        """True while the process counts as alive. StoreUnavailable if the store did not answer."""
        return bool(self._runner.run(self._execute("renew_lease", process, lease)))

    def write(self, name: str, *parameters: object) -> None:
        """Run one query, whose first parameter is the time, as a transaction of its own. StoreUnavailable as above."""
        self._runner.run(self._execute(name, *parameters))

    async def _execute(self, name: str, *parameters: object, timed: bool = True) -> list[Row]:
        """`timed`: the query's first parameter is the time."""
        connections = self._connections
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            given = (self._clock.for_database(), *parameters) if timed else parameters
            rows: list[Row] = await self._connection.fetch(self._queries[name], *given, timeout=3)
            return rows
        except connections.gone as error:
            await connections.drop(self._connection)
            self._connection = None
            raise connections.unavailable(error) from error
        except connections.denied as error:
            raise forbidden(error, role_of(self._connection)) from error

    async def _connect(self) -> Any:
        return await self._connections.connect_directly()

    def close(self) -> None:
        self._runner.run(self._connections.drop(self._connection))
        self._runner.close()
