"""`wakeful worker …` in a process that was forked instead of started: the same command, without a second of loading."""

from __future__ import annotations

import os
import sys
from typing import Any

from fleet.namespaces import enter
from wakeful.cli import main as wakeful
from wakeful.clock import SECOND
from wakeful.runtime import Runtime
from wakeful.stores import postgres_connections


def main(plan: dict[str, Any]) -> None:
    """`lease` and `timeout` are fixed for users; a test has less time than they give."""
    if plan["namespace"] is not None:
        enter(plan["namespace"])
    os.environ.update(plan["environment"])
    defaults: Any = Runtime.__init__.__kwdefaults__
    defaults["lease"] = round(plan["lease"] * SECOND)
    postgres_connections.COMMAND_TIMEOUT = plan["timeout"]
    code = wakeful(plan["words"])
    if code:
        sys.exit(code)
