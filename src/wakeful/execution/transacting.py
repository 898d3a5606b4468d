"""`run.transaction`: the user's rows and the call's checkpoint are one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wakeful.errors import ClaimLost, ConfigError
from wakeful.execution.attempt import Attempt
from wakeful.execution.checkpoint import Checkpoint, identify
from wakeful.functions.call import is_async
from wakeful.functions.options import location, options_of


async def transaction(attempt: Attempt, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result of `function(db, *arguments)`: from its record, or from calling it now."""
    record, dialect = attempt.record, attempt.surroundings.store.dialect
    options = options_of(function)
    name = record.name_of(function, options)
    what = f"transaction {name}"
    if dialect == "sqlite" and is_async(function):
        message = (
            f"{what}: on SQLite the function must be a plain def, because the one writer runs it ({location(function)})"
        )
        raise ConfigError(message)
    if dialect == "postgres" and not is_async(function):
        message = (
            f"{what}: on PostgreSQL the function must be async: its db is an asyncpg connection ({location(function)})"
        )
        raise ConfigError(message)
    digested, text = identify(options, arguments, {}, name)
    key, shown = record.next_key(name, digested)
    if attempt.to_stop is not None:
        await attempt.begin_nothing_more()
    attempt.enter()
    try:
        checkpoint = Checkpoint(attempt, key, shown, text, options, function, arguments, {})
        value, _ = await checkpoint.reach(transaction=True)
        return value
    except ClaimLost:
        attempt.interrupt("lost")  # the handler may catch this error; it must still do nothing more
        raise
    finally:
        attempt.exit()
