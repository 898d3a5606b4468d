"""How a child talks to the test that wanted it: JSON lines, one write each, so that many may use one pipe."""

from __future__ import annotations

import os
import sys
from typing import Any

from pydantic_core import to_json


class Voice:
    def __init__(self, case: int) -> None:
        self._case = case

    def say(self, what: str, **more: Any) -> None:
        os.write(sys.stdout.fileno(), to_json({"case": self._case, "says": what, **more}) + b"\n")
