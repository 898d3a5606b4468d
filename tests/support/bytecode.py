"""Compiled once instead of by each of the hundreds of processes that tests start.

Where Python is told to write no bytecode beside the sources (PYTHONDONTWRITEBYTECODE, as images often have it), it is kept in the
folder of pytest's own cache.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "bytecode"


def keep_bytecode() -> None:
    """For this process, and for those that it starts."""
    if sys.dont_write_bytecode:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(FOLDER)
        sys.dont_write_bytecode = False
