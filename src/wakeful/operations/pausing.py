"""Pausing and resuming: find the apps that are meant. The command line and the HTTP API share this."""

from __future__ import annotations

from wakeful.errors import NotFound, did_you_mean
from wakeful.stores.known import known_apps
from wakeful.stores.reads import ReadsDatabase

ALL = ""  # in place of an agent: all agents of the app


async def apps_to_change(reads: ReadsDatabase, agent: str, app: str | None) -> list[str]:
    """The apps that are meant: the named one, the only one that has this agent, or every app for `all`. Raises NotFound."""
    known = await known_apps(reads)
    if agent == ALL:
        if app is None and not known:
            message = "no app has used this store yet: name one with --of NAME"
            raise NotFound(message)
        paused = {row[0] for row in await reads.fetch("list_pauses")}
        if app is not None and known and app not in known.keys() | paused:
            message = f'no app "{app}" has used this store yet.{did_you_mean(app, known)}'
            raise NotFound(message)
        return sorted(known.keys() | paused) if app is None else [app]
    having = sorted(name for name, agents in known.items() if agent in agents and app in {None, name})
    if not having:
        everybody = {one for name, agents in known.items() if app in {None, name} for one in agents}
        where = f"app {app} has" if app is not None else "there is"
        message = f'{where} no agent "{agent}" that has been loaded or has run here.{did_you_mean(agent, everybody)}'
        raise NotFound(message)
    if len(having) > 1:
        message = f"agent {agent} is in several apps ({', '.join(having)}): choose one with --of NAME"
        raise NotFound(message)
    return having
