from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.bytecode import keep_bytecode
from support.memory import use_memory
from wakeful.redaction import KNOWN

use_memory()
keep_bytecode()

pytest_plugins = [
    "support.postgres",
    "support.stores",
    "support.apps",
    "support.backups",
    "support.clouds",
    "support.shop",
    "support.shops",
]


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """What one test kept secret is an ordinary word in the next."""
    yield
    KNOWN.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs PostgreSQL, so that `-m "not postgres"` leaves it out."""
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")
