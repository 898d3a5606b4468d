from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fuzzing import forget_kept


@pytest.fixture(autouse=True, scope="session")
def _inputs_that_hung_stay() -> Iterator[None]:
    yield
    forget_kept()
