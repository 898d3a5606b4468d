"""Guarding an app: commands that decide on behalf of a person ask for the token that its server was started with.

serve with a token       guards the app by it, and by the next one
serve without a token    removes the guard with a warning; an app that starts programs is locked instead
worker with a token      guards, like serve; without one it does not change a guard, since it answers no requests
either, with a token     that the guard does not know, or serve without one: the guard stays while another process of the app is alive
"""

from __future__ import annotations

import inspect
from types import CodeType
from typing import TYPE_CHECKING, Any

from wakeful.operations.programs import is_locked_without_token, programs_of
from wakeful.stores.guards import LOCK, hashes_of, known, read_guards
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Doer
from wakeful.stores.verbs.guards import GuardApp
from wakeful.telemetry.logger import logger_of

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

REMEDY = "start every process of the app with WAKEFUL_TOKEN (`wakeful token` prints one)"
CHANGING = "stop all processes of the app before the first one starts with another token or none, or let WAKEFUL_TOKEN_NEXT rotate it"
GUARDED_BY_ANOTHER = (
    "this process does not have the token of another live process: "
    "commands that decide for people keep asking for the live process's token"
)
BEGAN_WITHOUT = "another live process of the app was started without a token: the app stays locked, and commands cannot decide for people"
ASKING = "ask"  # the method of a run that waits for people


async def guard(
    store: Doer,
    reads: ReadsDatabase,
    app: Declarations,
    tokens: tuple[str | None, ...],
    *,
    serves: bool,
    process: str = "",
) -> None:
    """Store the tokens of a starting server as hashes. Warns if the app is locked, so that no command can answer its approvals."""
    hashes = hashes_of(tokens)
    log = logger_of()
    if hashes or serves:
        guards = await read_guards(reads)
        knows = known(guards, app.name, tokens)
        wanted = hashes or ((LOCK,) if is_locked_without_token(app) else ())
        became = await store.do(GuardApp(app.name, wanted, knows, process))
        locked = (app.name, LOCK) in guards
        if became == "kept":
            log.warning(BEGAN_WITHOUT if locked else GUARDED_BY_ANOTHER, app=app.name, remedy=CHANGING)
        elif became == "opened" and not locked:
            log.warning(
                "this server has no token, but an earlier one had: commands that decide for people no longer ask for it",
                app=app.name,
            )
    if hashes:
        return
    words = unguarded(app)
    if words is not None:
        log.warning("no command answers for people", app=app.name, why=words, remedy=REMEDY)


def unguarded(app: Declarations) -> str | None:
    """The warning for an app whose approvals cannot be answered by a command until it has a token; else None."""
    asking = [name for name, one in app.agents.items() if _asks(one.function)]
    if not is_locked_without_token(app) or not asking:
        return None
    return f"{programs_of(app)[0]} starts programs, and agent {asking[0]} asks people: without a token no command answers for them"


def _asks(function: Any) -> bool:
    """Whether the handler, or a function nested in it, calls a method that waits for people. Other functions are not inspected."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return isinstance(code, CodeType) and _names(code)


def _names(code: CodeType) -> bool:
    return ASKING in code.co_names or any(isinstance(one, CodeType) and _names(one) for one in code.co_consts)
