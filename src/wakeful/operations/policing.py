"""Policies of apps as operators see them: the names that a text may have, and which app is meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from wakeful.errors import NotFound, did_you_mean
from wakeful.execution.actions import parameters_by_action
from wakeful.policy.text import Known
from wakeful.stores.known import known_apps
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.verbs.persons import people_of

if TYPE_CHECKING:
    from wakeful.operations.declared import Declared

Groups = Mapping[str, Collection[str]]  # of each person


def known_by(code: Declared | None, people: Groups | None) -> Known:
    """The names that the code of an app declares, and its people, as far as they are known here."""
    if code is None:
        return Known(people=people)
    return Known(code.names, parameters_by_action(), people)


async def groups_in_force(reads: ReadsDatabase, app: str) -> Groups:
    """The people of an app in the store, each with their groups; empty if it has none."""
    return {one.name: one.groups for one in (await people_of(reads.database, app)).values()}


async def app_meant(reads: ReadsDatabase, app: str | None) -> str:
    """The named app, or the only one that has used this store. Raises NotFound."""
    known = await known_apps(reads)
    if app is not None:
        if known and app not in known:
            message = f'no app "{app}" has used this store yet.{did_you_mean(app, known)}'
            raise NotFound(message)
        return app
    if len(known) != 1:
        which = (
            f"this store has several apps ({', '.join(sorted(known))})" if known else "no app has used this store yet"
        )
        message = f"{which}: name one with --of NAME"
        raise NotFound(message)
    return next(iter(known))
