"""The programs that an app starts, and the lock that keeps them from answering the app's own approvals.

A program that detached itself from its run looks like any other process of its user. Without a token, a person's command cannot be
told from one of that program, so the store refuses both (`stores/verbs/guards.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeful.execution.command import ProgramCommand
from wakeful.stores.request import Doer
from wakeful.stores.verbs.guards import LockApp

if TYPE_CHECKING:
    from wakeful.declarations import Declarations


def programs_of(app: Declarations) -> list[str]:
    """The declarations that start programs, in words: "command backup", "heartbeat desk"."""
    commands = [f"command {name}" for name, one in app.agents.items() if isinstance(one.function, ProgramCommand)]
    return commands + [f"heartbeat {name}" for name, one in app.heartbeats.items() if one.usual.commands]


def is_locked_without_token(app: Declarations) -> bool:
    return not app.programs_may_answer and bool(programs_of(app))


async def lock(app: Declarations, store: Doer, process: str) -> None:
    """Lock the app. Called before the first run, so that no program started by a run exists yet."""
    await store.do(LockApp(app.name, is_locked_without_token(app), process))
