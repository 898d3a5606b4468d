from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from support.bytecode import keep_bytecode
from support.memory import use_memory
from support.transitions import WITNESSED, refused, watch_every_store
from wakeful import secrets
from wakeful.redaction import KNOWN

use_memory()
keep_bytecode()
# The witness of the tables of transitions, in every store; its own tests make no sense without it.
if WITNESSED:
    watch_every_store()
else:
    collect_ignore = ["contract/test_transitions.py", "integration/test_rare_transitions.py"]

# A test that is slow because another program is busy has found nothing.
settings.register_profile("wakeful", deadline=None)
settings.load_profile("wakeful")

pytest_plugins = [
    "support.tiers",
    "support.postgres",
    "support.stores",
    "support.apps",
    "support.backups",
    "support.clouds",
    "support.packages",
    "support.shop",
    "support.shops",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="tests/golden: write the recorded files anew")


@pytest.fixture(autouse=True)
def no_known_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What one test kept secret is an ordinary word in the next, and a variable that it read with env(…) an ordinary variable."""
    monkeypatch.setattr(secrets, "_NAMED", set(secrets._NAMED))
    monkeypatch.setattr(secrets, "_WITHHELD", set(secrets._WITHHELD))
    yield
    KNOWN.forget()


@pytest.fixture(autouse=True)
def no_refused_transition() -> Iterator[None]:
    """A request that the tables of transitions refuse fails; the code may go on after that, and the test must not pass."""
    refused.clear()
    yield
    assert refused == []


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that runs in the test's own process configures the logs of that process."""
    handlers, hook = logging.getLogger().handlers[:], threading.excepthook
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers
    logging.captureWarnings(capture=False)
    threading.excepthook = hook


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """The thousands of collected tests stay until the end. Otherwise the garbage collector goes through all of them now and then, for most of
    a second each time.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs PostgreSQL, so that `-m "not postgres"` leaves it out."""
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker("postgres")
