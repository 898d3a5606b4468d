"""What a process stores about its app when it begins to work, for watchers that do not have its code."""

from __future__ import annotations

from collections.abc import Iterable

from wakeful.stores.request import Actor, Doer
from wakeful.stores.transaction import Fetcher
from wakeful.stores.verbs.agents import DeclaredAgent, KeepAgents
from wakeful.stores.verbs.expectations import DeclaredExpectation, KeepExpectations
from wakeful.stores.verbs.retiring import BringBackApp
from wakeful.telemetry.logger import logger_of


async def bring_back(app: str, database: Fetcher, store: Doer) -> None:
    """Bring a retired app back, because its code was started. Called after this process has registered: the verb that
    retires an app looks for processes after it has stored that.
    """
    retired = await database.fetch("find_retired", app)
    if not retired:
        return
    _, by, note = retired[0]
    words = f"retired by {by}" + (f": {note}" if note else "")
    await store.do(BringBackApp(app, by=Actor("code", "worker"), note=f"its code was started; it had been {words}"))
    logger_of(app=app).warning("the app was retired and is back; cancelled runs stay cancelled", was=words)


async def enter_agents(app: str, agents: Iterable[DeclaredAgent], database: Fetcher, store: Doer) -> None:
    """Store the agents whose declaration is new or changed."""
    known = {tuple(row) for row in await database.fetch("agents_of_app", app)}
    fresh = [one for one in agents if (one.name, one.owner, one.starts_within) not in known]
    if fresh:
        await store.do(KeepAgents(app, fresh))


async def enter_expectations(app: str, declared: list[DeclaredExpectation], database: Fetcher, store: Doer) -> None:
    """Store the app's expectations, if they changed."""
    rows = await database.fetch("expectations_of_app", app)
    if {(one.name, one.definition, one.agent, one.owner) for one in declared} != {tuple(row[:4]) for row in rows}:
        await store.do(KeepExpectations(app, declared))
