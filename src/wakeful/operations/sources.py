"""Check whether each source of an app can be read, before anything runs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from wakeful.clock import SystemClock
from wakeful.errors import WakefulError
from wakeful.stored_errors import words_of
from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.base import Trigger
from wakeful.triggers.source import Context, ReadTrigger
from wakeful.triggers.sources import shared

WITHIN = 10.0  # seconds, each


class _NoMemory:
    """The seen items of a source. A check reads nothing, so this is never used."""

    async def items_of(self, app: str, source: str) -> list[Item]:  # noqa: ARG002 a store's words
        return []


def problems_of(app: str, triggers: Mapping[str, Sequence[Trigger]], *, within: float = WITHIN) -> list[str]:
    """One line per problem: two sources with one name, and each source's own errors. All sources are checked concurrently."""
    asked: list[Any] = [one for mine in triggers.values() for one in mine if hasattr(one, "problems")]
    once = [one for number, one in enumerate(asked) if one not in asked[:number]]
    if not once:
        return []
    found = two_of_a_name(app, triggers)

    async def ask() -> list[list[str]]:
        return await asyncio.gather(*(_problems(one, within) for one in once))

    for lines in asyncio.run(ask()):
        found += [line for line in lines if line not in found]
    return found


async def _problems(trigger: Any, within: float) -> list[str]:
    try:
        async with asyncio.timeout(within):
            found: list[str] = await trigger.problems()
    except TimeoutError:
        return [f"{trigger.describe()}: no answer within {within:g} s: check that it can be reached from here"]
    except WakefulError as error:
        return [str(error)]
    except Exception as error:  # a third-party trigger may raise anything
        return [f"{trigger.describe()}: {type(error).__name__}: {words_of(error)}"]
    return found


def two_of_a_name(app: str, triggers: Mapping[str, Sequence[Trigger]]) -> list[str]:
    """Different sources that would be stored under one name, and readers that cannot be created."""
    context = Context(app, socket.gethostname(), SystemClock(), _NoMemory())
    seen: dict[str, ReadTrigger] = {}
    found = []
    for sharing in shared(triggers):
        try:
            name = sharing[0].reader(sharing, context).name
        except WakefulError as error:
            found.append(str(error))
            continue
        if name in seen:
            words = f"{seen[name].describe()} and {sharing[0].describe()}"
            found.append(f"app {app}: two sources are called {name}: {words}. Declare them alike, or name one of them")
        seen[name] = sharing[0]
    return found
