"""A PostgreSQL database that belongs to somebody else: connected to by asyncpg, and its errors in words."""

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
    """What a database may do to whoever asks it."""
    asyncpg = driver()
    return (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


async def connect(dsn: str, where: str, *, application: str) -> Any:
    """A connection. What is deleted on it may be there again after a crash of the server: it is deleted again then."""
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
            told = f"it refuses the role or the password ({words}): mend the address"
        case asyncpg.InvalidCatalogNameError():
            told = f"{words}: mend the address, or make it"
        case asyncpg.InsufficientPrivilegeError():
            told = f"{words}: GRANT SELECT, DELETE on table wakeful_change to this role"
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedFunctionError():
            told = f"{words}: it was removed while it was read; it is made again"
        case asyncpg.TooManyConnectionsError():
            told = f"{words}: it is tried again"
        case (
            OSError()
            | TimeoutError()
            | asyncpg.InterfaceError()
            | asyncpg.InternalClientError()  # what asyncpg says of a connection that was cut in the midst of an answer
            | asyncpg.PostgresConnectionError()
        ):
            told = f"it cannot be reached ({words or type(error).__name__}): it is tried again; is the server up?"
        case _:
            told = f"{type(error).__name__}: {words}: it is tried again"
    return SourceTrouble(f"{where}: {told}")
