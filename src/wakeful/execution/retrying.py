"""Why a run waits to be tried again, in words: what fails, since when, with which error, and until when it is tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json

from wakeful.clock import to_second as time_text
from wakeful.model import Effect, Step

ERROR_SHOWN = 200


def why_retrying(effects: Iterable[Effect | None], steps: Iterable[Step]) -> str:
    """The reason of a run that is put away until a step or an effect is tried again."""
    told = [(f"step {step.name}", step.error) for step in steps]
    told += [(f"effect {effect.action}", effect.error) for effect in effects if effect is not None]
    if not told:
        return "something waits to be tried again"
    what, error = told[0]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    stored = from_json(error or "{}")
    if not stored.get("type"):
        return f"{what}{more} waits to be tried again"
    return f"{what}{more} {trouble_in_words(stored)}"


def trouble_in_words(stored: dict[str, Any]) -> str:
    """What is wrong, out of an error as it is stored: since when, and what would end it."""
    words = f"{stored.get('type')}: {str(stored.get('message', '')).partition(chr(10))[0]}"[:ERROR_SHOWN]
    since = stored.get("since") or 0
    if stored.get("failure") == "rate_limited":
        begun = f" since {time_text(since)}" if since else ""
        return f"is rate limited{begun} ({words}); it goes on when the other side lets it"
    begun = f" since {time_text(since)}" if since else ""
    until = f"; tried until {time_text(stored['until'])}" if stored.get("until") else ""
    return f"fails{begun} ({words}){until}"
