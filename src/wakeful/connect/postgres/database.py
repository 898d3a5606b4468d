"""A PostgreSQL database of another application: connecting with asyncpg, and its errors in words."""

from __future__ import annotations

import asyncio
from typing import Any

from wakeful.errors import ConfigError
from wakeful.stored_errors import words_of
from wakeful.triggers.source import SourceTrouble

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 30.0


def driver() -> Any:
    """asyncpg, loaded when it is first needed."""
    try:
        import asyncpg
    except ImportError as error:
        message = 'changes of rows in PostgreSQL by triggers need asyncpg: pip install "wakeful[postgres]"'
        raise ConfigError(message) from error
    return asyncpg


def troubles() -> tuple[type[BaseException], ...]:
    """The exceptions that a database connection may raise."""
    asyncpg = driver()
    return (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


async def connect(dsn: str, where: str, *, application: str) -> Any:
    """A connection. Deletions may be undone by a crash of the server (synchronous_commit is off); they are repeated then."""
    asyncpg = driver()
    settings = {"application_name": application, "synchronous_commit": "off", "jit": "off"}
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await asyncpg.connect(dsn, command_timeout=COMMAND_TIMEOUT, server_settings=settings)
    except troubles() as error:
        raise trouble(where, error) from error
    except ValueError as error:
        message = f"{where}: the address cannot be used ({words_of(error)}): write postgresql://user@host/database"
        raise SourceTrouble(message) from error


def trouble(where: str, error: BaseException) -> SourceTrouble:
    asyncpg = driver()
    words = words_of(error).splitlines()[0]
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            told = f"it refuses the role or the password ({words}): correct the address"
        case asyncpg.InvalidCatalogNameError():
            told = f"{words}: correct the address, or create the database"
        case asyncpg.InsufficientPrivilegeError():
            told = f"{words}: GRANT SELECT, DELETE on table wakeful_change to this role"
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedFunctionError():
            told = f"{words}: it was removed while it was being read; it is created again"
        case asyncpg.TooManyConnectionsError():
            told = f"{words}; retrying"
        case (
            OSError()
            | TimeoutError()
            | asyncpg.InterfaceError()
            | asyncpg.InternalClientError()  # asyncpg's error for a connection that was cut in the middle of an answer
            | asyncpg.PostgresConnectionError()
        ):
            told = f"it cannot be reached ({words or type(error).__name__}); retrying. Is the server up?"
        case _:
            told = f"{type(error).__name__}: {words}; retrying"
    return SourceTrouble(f"{where}: {told}")
