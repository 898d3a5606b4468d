"""Decisions about a guarded app: this server makes them only if its own token is one of that app's.

A server answers for all apps of its store. Without this check, a program started by an app could serve an app of its own on that store,
with its own token, and answer the first app's approvals there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from wakeful.http.problem import Problem
from wakeful.http.security import ApiSettings
from wakeful.stores.guards import LOCK, known, read_guards
from wakeful.stores.request import Actor


async def refuse_other_apps(settings: ApiSettings, apps: Iterable[str], by: Actor, *, people: bool = False) -> None:
    """Raise 403 if one of these apps is guarded by tokens that this server does not have, or, for decisions of `people` only, if it is
    locked. Nothing was changed. A person with a token decides about the app whose person it is, and about no other.
    """
    if by.proved:
        for app in apps:
            if app != settings.app:
                detail = f"this is the token of {by.name}, who is a person of app {settings.app}, but the item belongs to app {app}"
                raise Problem(403, detail, kind="other-token", title="The token is not that of the app")
        return
    guards = await read_guards(settings.guarded) if settings.guarded is not None else []
    locked = {name for name, hashed in guards if hashed == LOCK}
    guarded = {name for name, hashed in guards if people or hashed != LOCK}
    tokens = (settings.token, settings.next_token)
    for app in dict.fromkeys(apps):
        # In a thread: the first comparison of a token takes some hundredths of a second.
        if app in guarded and await asyncio.to_thread(known, guards, app, tokens) is None:
            detail = (
                f"app {app} starts programs, and was started without a token: no decisions of people are taken until all of its processes "
                "have been stopped and each is started with WAKEFUL_TOKEN"
                if app in locked
                else f"app {app} is guarded by the token of its own server, but this server was started with another one"
            )
            raise Problem(403, detail, kind="other-token", title="The token is not that of the app")
