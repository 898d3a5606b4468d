"""The one way by which a verb is carried out, for every surface: may the actor do it, which thing is meant, then the noun's function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.errors import NotFound, did_you_mean
from wakeful.resources.declare import Page, Resource, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.refusals import NotAllowed
from wakeful.resources.words import plain
from wakeful.surface.offers import Offer


class Missing(NotFound):
    """The thing is not there, or not any more. The surface finds the words."""


def refuse_unallowed(desk: Desk, verb: Verb) -> None:
    """The only place that looks at permissions. Without a list of scopes an actor may do everything."""
    if desk.scopes is not None and verb.scope not in desk.scopes:
        message = f"{desk.by.name} may not {verb.name}: that needs the permission {verb.scope}"
        raise NotAllowed(message)


async def find(resource: Resource, desk: Desk, key: str, which: Mapping[str, Any]) -> Any:
    """The thing of this name; `Missing` if there is none."""
    if resource.show is None:
        message = f"{resource.plural} have no function that finds one"
        raise TypeError(message)
    one = await resource.show.find(desk, key, **which)
    if one is None:
        raise Missing
    return one


async def subject_of(
    resource: Resource, verb: Verb, desk: Desk, key: str | None, which: Mapping[str, Any]
) -> tuple[Any, ...]:
    """What a verb is about: one thing, or nothing if it is about the collection."""
    if key is None or not verb.of_one:
        return ()
    return (key if verb.by_key else await find(resource, desk, key, which),)


async def apps_of(verb: Verb, desk: Desk, subject: tuple[Any, ...], given: Mapping[str, Any]) -> list[str]:
    """The apps that a thing is of, or that a verb on the collection is about: a guarded verb needs the token of each."""
    if verb.apps is not None:
        told = given if verb.by_key or not subject else {}
        return list(await verb.apps(desk, *subject, **told))
    return [one["app"] for one in subject if one.get("app") is not None]


async def carry_out(
    verb: Verb, desk: Desk, subject: tuple[Any, ...], given: Mapping[str, Any], *, plan: bool = False
) -> Any:
    """Carry a verb out, or only plan it. `Missing` if what it is about is not there any more."""
    run = verb.in_shell if verb.in_shell is not None and desk.by.way == "cli" else verb.run
    run = run if not plan or verb.plan is None else verb.plan
    result = await run(desk, *subject, **given)
    if result is None:
        raise Missing
    return result


async def missing_words(resource: Resource, desk: Desk, key: str, which: Mapping[str, Any]) -> str:
    """What a shell says of a thing that is not there."""
    if callable(resource.missing):
        return await resource.missing(desk, key, **which)
    template = resource.missing or f'there is no {resource.name} "{{key}}"'
    hint = "" if resource.known is None else did_you_mean(key, await resource.known(desk))
    return f"{template.format(key=plain(key))}.{hint} See `wakeful {resource.spoken}`"


def items_of(answer: Any) -> list[Any]:
    items: list[Any] = answer.items if isinstance(answer, Page) else answer
    return items


def as_json(resource: Resource, offer: Offer, answer: Any) -> Any:
    """The object that HTTP answers."""
    if offer.kind != "list":
        return answer
    if isinstance(answer, Page):
        return {member_of(resource): answer.items, "next": answer.next, **answer.more}
    return {member_of(resource): answer}


def member_of(resource: Resource) -> str:
    """The member of an answer that holds the items of a listing."""
    return (resource.listing.member if resource.listing is not None else None) or resource.plural
