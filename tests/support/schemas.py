"""A version of Wakeful that knows more migrations than this one: what is applied under it, this version has never seen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from wakeful.stores import migrations as module
from wakeful.stores.migrations import Migration
from wakeful.stores.queries import Dialect


def later(number: int, sql: str, name: str = "later") -> Migration:
    return Migration(number, name, sql)


@contextlib.contextmanager
def knowing(*more: Migration) -> Iterator[None]:
    """As long as this lasts, the code of this process is a later version."""
    here = module.migrations

    def migrations(dialect: Dialect) -> list[Migration]:
        replaced = {migration.number: migration for migration in (*here(dialect), *more)}
        return [replaced[number] for number in sorted(replaced)]

    with patch.object(module, "migrations", migrations):
        yield
