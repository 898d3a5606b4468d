from __future__ import annotations

from collections.abc import Iterator

import pytest

from docs.shell import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()
