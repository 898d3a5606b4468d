from __future__ import annotations

import pytest

from support import command_line
from support.forks import Forks


@pytest.fixture(scope="session")
def forks() -> Forks:
    return command_line.forks()
