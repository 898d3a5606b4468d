"""Decisions about an app that is guarded: this server makes them only if its own token is one of that app's.

A server answers for all apps of its store. So without this, a program that an app started could serve an app of its own there, with a token of
its own, and answer by that what the first app asks people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from wakeful.http.problem import Problem
from wakeful.http.security import ApiSettings
from wakeful.stores.guards import LOCK, known, read_guards


async def refuse_other_apps(settings: ApiSettings, apps: Iterable[str], *, people: bool = False) -> None:
    """403, if one of these apps is guarded by tokens that this server does not have, or, where only `people` decide, if it is locked.
    Nothing was changed.
    """
    guards = await read_guards(settings.guarded) if settings.guarded is not None else []
    locked = {name for name, hashed in guards if hashed == LOCK}
    guarded = {name for name, hashed in guards if people or hashed != LOCK}
    tokens = (settings.token, settings.next_token)
    for app in dict.fromkeys(apps):
        # In a thread: a token that is compared for the first time takes some hundredths of a second.
        if app in guarded and await asyncio.to_thread(known, guards, app, tokens) is None:
            detail = (
                f"app {app} starts programs, and began to work without a token: nothing is decided for people until all of its processes "
                "were stopped, and each is started with WAKEFUL_TOKEN"
                if app in locked
                else f"app {app} is guarded by the token of its own server, and this server was started with another one"
            )
            raise Problem(403, detail, kind="other-token", title="The token is not that of the app")
