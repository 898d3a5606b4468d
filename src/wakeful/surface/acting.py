"""How every surface executes a verb: check the permission, find the item, call the noun's function."""

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
    """The item does not exist, or no longer. The surface writes the message."""


def refuse_unallowed(desk: Desk, verb: Verb) -> None:
    """The only place that checks permissions. Raises if the actor lacks the scope; without a list of scopes everything is allowed."""
    if desk.scopes is not None and verb.scope not in desk.scopes:
        message = f"{desk.by.name} may not {verb.name}: it needs the permission {verb.scope}"
        raise NotAllowed(message)


async def find(resource: Resource, desk: Desk, key: str, which: Mapping[str, Any]) -> Any:
    """The item of this name. Raises `Missing` if there is none."""
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
    """The target of a verb: one item, or none for a verb on the collection."""
    if key is None or not verb.of_one:
        return ()
    return (key if verb.by_key else await find(resource, desk, key, which),)


async def apps_of(verb: Verb, desk: Desk, subject: tuple[Any, ...], given: Mapping[str, Any]) -> list[str]:
    """The apps that a verb affects: a guarded verb needs the token of each."""
    if verb.apps is not None:
        told = given if verb.by_key or not subject else {}
        return list(await verb.apps(desk, *subject, **told))
    return [one["app"] for one in subject if one.get("app") is not None]


async def carry_out(
    verb: Verb, desk: Desk, subject: tuple[Any, ...], given: Mapping[str, Any], *, plan: bool = False
) -> Any:
    """Execute a verb, or only plan it. Raises `Missing` if its target no longer exists."""
    run = verb.in_shell if verb.in_shell is not None and desk.by.way == "cli" else verb.run
    run = run if not plan or verb.plan is None else verb.plan
    result = await run(desk, *subject, **given)
    if result is None:
        raise Missing
    return result


async def missing_words(resource: Resource, desk: Desk, key: str, which: Mapping[str, Any]) -> str:
    """The command line's message for an unknown item."""
    if callable(resource.missing):
        return await resource.missing(desk, key, **which)
    template = resource.missing or f'there is no {resource.name} "{{key}}"'
    hint = "" if resource.known is None else did_you_mean(key, await resource.known(desk))
    return f"{template.format(key=plain(key))}.{hint} See `wakeful {resource.spoken}`"


def items_of(answer: Any) -> list[Any]:
    items: list[Any] = answer.items if isinstance(answer, Page) else answer
    return items


def as_json(resource: Resource, offer: Offer, answer: Any) -> Any:
    """The JSON object of an HTTP answer."""
    if offer.kind != "list":
        return answer
    if isinstance(answer, Page):
        return {member_of(resource): answer.items, "next": answer.next, **answer.more}
    return {member_of(resource): answer}


def member_of(resource: Resource) -> str:
    """The member of an answer that contains the items of a listing."""
    return (resource.listing.member if resource.listing is not None else None) or resource.plural
