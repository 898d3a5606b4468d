"""The OpenAPI document only gains: what was there is still there, and equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PLANNED = "it is one of two now: what was done, or what would be"
NEEDED = "a request without it was refused before, too, and the document did not say so"
EVENTS = (
    "paths > /v1/replay > post > requestBody > content > application/json > schema > properties > events > properties"
)
# Schemas with another name and the same shape: the old name was a word that means something else.
RENAMED = {"Instants": "Occurrences", "SettledInput": "EndedInput"}
NOT_NULL = "null was refused before, too, and the document did not say so"
# Places that changed on purpose, with the reason. A place is a path of keys, joined by " > "; what stands below it is not
# compared. An entry is reviewed like a change of the API, because it is one.
REVIEWED: dict[str, str] = {
    "paths > /v1/schedules > post > summary": "it can be for an agent of another app, too",
    "info > version": "rises with each release",
    "components > schemas > RedoneDelivery > properties > was > const": "one that waits can be replayed, too",
    "components > schemas > DeadGroup > required": "inputs are among the groups, and have no error in common",
    "paths > /v1/deliveries/{id}/replay > post > responses > 200 > content > application/json > schema > $ref": PLANNED,
    "paths > /v1/deliveries/{id}/discard > post > responses > 200 > content > application/json > schema > $ref": PLANNED,
    "paths > /v1/runs/{id}/replay > post > responses > 200 > content > application/json > schema > $ref": PLANNED,
    "paths > /v1/runs/{id}/discard > post > responses > 200 > content > application/json > schema > $ref": PLANNED,
    f"{EVENTS} > type > type": NOT_NULL,
    f"{EVENTS} > from > type": NOT_NULL,
    f"{EVENTS} > agent > type": NOT_NULL,
    "paths > /v1/runs/{id}/fork > post > responses > 200 > content > application/json > schema > $ref": PLANNED,
    "paths > /v1/runs/{id}/fork > post > requestBody > required": NEEDED,
    "paths > /v1/runs/{id}/fork > post > requestBody > content > application/json > schema > required": NEEDED,
}

# Sentences for readers: they may be written better at any time, so they are recorded apart, in openapi-texts.json.
TEXTS = {"summary", "description"}


def texts(document: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Every sentence of a document, with its place."""
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inner:
        here = (*place, str(key))
        if key in TEXTS and isinstance(value, str):
            yield " > ".join(here), value
        elif isinstance(value, dict | list):
            yield from texts(value, here)


def renamed(document: str) -> str:
    """The text of a frozen document, with the names that schemas have now."""
    for old, new in RENAMED.items():
        document = document.replace(f'"{old}": {{', f'"{new}": {{').replace(f'/schemas/{old}"', f'/schemas/{new}"')
    return document


def losses(before: Any, after: Any, place: tuple[str, ...] = ()) -> Iterator[str]:
    """What was there before and is there no more, or is different, in words. Additions are fine."""
    where = " > ".join(place)
    if where in REVIEWED or (isinstance(before, str) and isinstance(after, str) and place and place[-1] in TEXTS):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key, inner in before.items():
            if key not in after:
                if " > ".join((*place, key)) not in REVIEWED:
                    yield f"{where} > {key}: is gone"
                continue
            yield from losses(inner, after[key], (*place, key))
    elif isinstance(before, list) and isinstance(after, list):
        yield from lost_items(before, after, place)
    elif before != after:
        yield f"{where}: was {before!r}, is {after!r}"


def lost_items(before: list[Any], after: list[Any], place: tuple[str, ...]) -> Iterator[str]:
    """Lists are compared as sets: parameters by their names, others by their values. Nothing may become required."""
    where = " > ".join(place)
    if place and place[-1] == "required" and set(after) - set(before) and "requestBody" in place:
        yield f"{where}: requires {sorted(set(after) - set(before))}, too"
    named = {name_of(one): one for one in after}
    for one in before:
        name = name_of(one)
        if name not in named:
            yield f"{where}: {name} is gone"
        else:
            yield from losses(one, named[name], (*place, name))


def name_of(one: Any) -> str:
    """How an item of a list is known again."""
    if isinstance(one, dict):
        if "$ref" in one:
            return str(one["$ref"])
        if "name" in one:
            return f"{one.get('in')} {one['name']}"
        if "type" in one and isinstance(one["type"], str):
            return one["type"]
        return repr(sorted(one))
    return repr(one)
