"""What an agent keeps from run to run, changed by a person. The command line and the HTTP API share this."""

from __future__ import annotations

from typing import Protocol

from wakeful.stores.base import ChangeState, RecordOperation


class Keeping(Protocol):
    """Where it is kept."""

    async def change_state(self, request: ChangeState, /) -> int: ...

    async def record_operation(self, request: RecordOperation, /) -> None: ...


async def change_state(
    store: Keeping, app: str, agent: str, value: str | None, *, operator: str, note: str | None = None, key: str = ""
) -> int:
    """Set it, or clear it with None, and note who did so; the new version. `key`: what an agent with key= keeps for one."""
    version = await store.change_state(ChangeState(app, agent, key, value, operator))
    verb = "state clear" if value is None else "state set"
    await store.record_operation(RecordOperation(operator, verb, app, agent, note))
    return version
