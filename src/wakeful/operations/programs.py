"""The programs that an app starts, and the lock that keeps them from answering what the app asks people.

A program that detached itself from its run is a process like any other of its user. So while no server of the app was started with a
token, nothing tells a person's command from that program's, and the store refuses both (`stores/verbs/guards.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeful.execution.command import ProgramCommand
from wakeful.stores.request import Doer
from wakeful.stores.verbs.guards import LockApp

if TYPE_CHECKING:
    from wakeful.declarations import Declarations


def programs_of(app: Declarations) -> list[str]:
    """What starts programs, in words: "command backup", "heartbeat desk"."""
    commands = [f"command {name}" for name, one in app.agents.items() if isinstance(one.function, ProgramCommand)]
    return commands + [f"heartbeat {name}" for name, one in app.heartbeats.items() if one.usual.commands]


def is_locked_without_token(app: Declarations) -> bool:
    return not app.programs_may_answer and bool(programs_of(app))


async def lock(app: Declarations, store: Doer, process: str) -> None:
    """Before the first run: no program that a run starts is there yet."""
    await store.do(LockApp(app.name, is_locked_without_token(app), process))
