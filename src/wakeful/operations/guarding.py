"""Guarding an app: commands that decide in a person's stead ask for the token that its server was started with.

serve with a token       guards the app by it, and by the next one
serve without a token    takes the guard away, and says so
worker with a token      guards, like serve; without one it leaves the guard alone, since it answers no requests
either, with a token     that the guard does not know, or serve without one: the guard stays while another process of the app is alive
"""

from __future__ import annotations

import inspect
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

from wakeful.stores.guards import TokenHash, hashes_of, known
from wakeful.stores.verbs.guards import GuardApp, Guarded
from wakeful.telemetry.logger import logger_of

if TYPE_CHECKING:
    from wakeful.app import App

REMEDY = "start the server with WAKEFUL_TOKEN (`wakeful token` prints one)"
CHANGING = "stop all processes of the app before the first one starts with another token or none, or let WAKEFUL_TOKEN_NEXT rotate it"
ASKING = "ask"  # the method of a run that waits for people


class Guarding(Protocol):
    """Where guards are kept."""

    async def do(self, request: GuardApp, /) -> Guarded: ...


class Guards(Protocol):
    """Where guards are read."""

    async def guards(self) -> list[tuple[str, TokenHash]]: ...


async def guard(
    store: Guarding, reader: Guards, app: App, tokens: tuple[str | None, ...], *, serves: bool, process: str = ""
) -> None:
    """Keep the tokens of a server that starts, as hashes. Warns where the app's own children could answer for people."""
    hashes = hashes_of(tokens)
    log = logger_of()
    if hashes or serves:
        knows = known(await reader.guards(), app.name, tokens)
        became = await store.do(GuardApp(app.name, hashes, knows, process))
        if became == "kept":
            log.warning(
                "this process does not have the token of another one that is alive: "
                "commands that decide for people go on asking for the token of the process that is alive",
                app=app.name,
                remedy=CHANGING,
            )
        elif became == "opened":
            log.warning(
                "this server has no token, and an earlier one had: commands that decide for people do not ask for it any more",
                app=app.name,
            )
    if hashes:
        return
    words = unguarded(app)
    if words is not None:
        log.warning("programs of the app can answer for people", app=app.name, why=words, remedy=REMEDY)


def unguarded(app: App) -> str | None:
    """What to say of an app without a token whose children could answer what its agents ask; None if there is no such thing."""
    starting, asking = _starting(app), [name for name, one in app.agents.items() if _asks(one.function)]
    if not starting or not asking:
        return None
    return f"{starting[0]} starts programs, and agent {asking[0]} asks people: without a token such a program can answer in their stead"


def _starting(app: App) -> list[str]:
    from wakeful.execution.command import Command

    commands = [f"command {name}" for name, one in app.agents.items() if isinstance(one.function, Command)]
    return commands + [f"heartbeat {name}" for name, one in app.heartbeats.items() if one.usual.commands]


def _asks(function: Any) -> bool:
    """Does the handler, or a function inside of it, call something that waits for people? Other functions are not looked into."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return isinstance(code, CodeType) and _names(code)


def _names(code: CodeType) -> bool:
    return ASKING in code.co_names or any(isinstance(one, CodeType) and _names(one) for one in code.co_consts)
