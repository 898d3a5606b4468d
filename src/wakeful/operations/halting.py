"""Halting and lifting: find the apps that are meant. The command line and the HTTP API share this."""

from __future__ import annotations

from wakeful.errors import NotFound, did_you_mean
from wakeful.model import OWN_AGENTS
from wakeful.operations.pausing import ALL, apps_to_change
from wakeful.stores.known import known_apps
from wakeful.stores.reads import ReadsDatabase


async def apps_to_halt(reads: ReadsDatabase, agent: str, action: str, app: str | None) -> list[str]:
    """The apps that are meant: the named one, the only one that has this agent, all that use this action, or every app for `all`.
    Raises NotFound.
    """
    if action != ALL:
        return await apps_with_action(reads, action, app)
    refuse_own(agent)
    if agent == ALL and app is None:
        return sorted((await known_apps(reads)).keys() | set(await apps_to_change(reads, agent, app)))
    return await apps_to_change(reads, agent, app)


def refuse_own(agent: str) -> None:
    """Raise NotFound for one of Wakeful's own agents."""
    if agent.startswith(OWN_AGENTS):
        message = f"{agent} is one of Wakeful's own agents, which send alarms and approvals: they are never halted"
        raise NotFound(message)


async def apps_with_action(reads: ReadsDatabase, action: str, app: str | None) -> list[str]:
    """The apps that have used or staged an action, or the named one of them. Raises NotFound."""
    using = sorted(row[0] for row in await reads.fetch("apps_of_action", action))
    if app is not None and app in using:
        return [app]
    if app is None and using:
        return using
    known = {name for of, name in await reads.fetch("known_actions") if app in {None, of}}
    where = "here" if app is None else f"by app {app}"
    message = f'no action "{action}" has been used {where}.{did_you_mean(action, known)}'
    raise NotFound(message)
