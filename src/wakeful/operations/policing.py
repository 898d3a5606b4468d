"""Policies of apps as operators see them: reading a text, and which app is meant."""

from __future__ import annotations

from wakeful.errors import NotFound, did_you_mean
from wakeful.policy.text import Policy, read_policy
from wakeful.stores.known import known_apps
from wakeful.stores.reads import ReadsDatabase


def read_text(text: str, file: str) -> Policy:
    """The policy of one file. PolicyError has everything that is wrong with it."""
    return read_policy([(file, text)])


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
