"""Executes a command: opens the store, calls the noun's functions, prints the answer."""

from __future__ import annotations

import argparse
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wakeful.errors import NotFound
from wakeful.resources.declare import Bulk, Listing, Page, Printed, Resource, Verb
from wakeful.resources.desk import AppSide, Course, Desk, Reads
from wakeful.resources.parameters import UNSET
from wakeful.resources.refusals import Ambiguous, Refused, Unfit
from wakeful.resources.words import Aside
from wakeful.shell.arguments import UsageError, operator_of
from wakeful.shell.logs import start_logs
from wakeful.shell.opening import changing, chosen_store, reading, sending
from wakeful.shell.person import Token, recognised
from wakeful.shell.terminal import print_json, say, terminal
from wakeful.stores.request import Actor
from wakeful.surface.acting import (
    Missing,
    apps_of,
    as_json,
    carry_out,
    find,
    items_of,
    missing_words,
    refuse_unallowed,
    subject_of,
)
from wakeful.surface.offers import Offer
from wakeful.surface.table import look_of, print_all, print_listing

SOME_REFUSED = FAILED = 1


@dataclass(slots=True)
class Asked:
    """A parsed command."""

    arguments: argparse.Namespace
    key: str | None
    given: dict[str, Any]
    code: str | None = None  # APP, if given
    token: Token | None = None  # the operator's token, if the verb is guarded
    app: Any = None  # the app whose code is needed or was named
    keys: tuple[str, ...] = ()  # keys, for a verb that takes several
    kind: Bulk | None = None  # for a bulk verb
    course: Course | None = None  # for a long-running verb

    def of(self, parameters: Any) -> dict[str, Any]:
        return {one.name: self.given[one.name] for one in parameters if one.name in self.given}

    @property
    def url(self) -> str:
        """The store to use: --store, or the one that the app's code names."""
        return chosen_store(self.arguments, self.app)

    @property
    def plan(self) -> bool:
        return bool(getattr(self.arguments, "plan", False))


async def perform(resource: Resource, offer: Offer, asked: Asked) -> int:
    """Execute one reading or verb and print the result."""
    which, given = asked.of(offer.which), asked.of(offer.takes)
    async with desk_for(offer.verb, asked) as desk:
        desk.remark, desk.course = say, asked.course
        try:
            answer, show = await _answer(resource, offer, desk, asked, which, given)
        except Missing:
            raise NotFound(await missing_words(resource, desk, asked.key or "", which)) from None
        except Ambiguous as error:
            flag = next((one.flag for one in offer.all if one.name == error.parameter), f"--{error.parameter}")
            raise UsageError(f"{error}: choose one with {flag} NAME") from None
        except Unfit as error:
            raise UsageError(error.typed) from None
        asides = () if offer.verb is None or offer.verb.asides is None else await offer.verb.asides(desk, answer)
        nothing = (
            await _nothing(resource.listing, desk, given) if offer.kind == "list" and not items_of(answer) else None
        )
    if asked.course is not None:
        asked.course.ended()
    if asked.arguments.json:
        print_json(as_json(resource, offer, answer))
    elif nothing is not None:
        print_all(terminal(), [nothing, *last_of(answer)])
    else:
        show()
        for aside in asides:
            say(aside)
    return FAILED if offer.verb is not None and offer.verb.failed is not None and offer.verb.failed(answer) else 0


async def perform_several(resource: Resource, offer: Offer, asked: Asked) -> int:
    """Find all items before anything is done; then do or refuse each one separately."""
    which, given, verb = asked.of(offer.which), asked.of(offer.takes), offer.verb
    if verb is None:
        raise AssertionError(offer)
    answers: list[Any] = []
    told: list[str | Printed] = []
    async with desk_for(verb, asked) as desk:
        refuse_unallowed(desk, verb)
        found = [await resource.show.find(desk, key, **which) for key in asked.keys] if resource.show else []
        authors = []
        for key, one in zip(asked.keys, found, strict=True):
            if one is None:
                raise NotFound(await missing_words(resource, desk, key, which))
            authors.append(await author_of(asked, desk, partial(apps_of, verb, desk, (one,), given)))
        for one, author in zip(found, authors, strict=True):
            desk.by = author
            try:
                result = await carry_out(verb, desk, (one,), given)
                answers.append({**result, "refused": None})
                told.append(said_of(verb.says, result, (one,), given))
            except Missing:  # removed meanwhile
                continue
            except Refused as error:
                answers.append(error.answer)
                told.append([Aside(str(error))])
    if asked.arguments.json:
        print_json({resource.plural: answers})
    for said in told:
        if not asked.arguments.json or not isinstance(said, str):
            print_all(terminal(), said)
    return SOME_REFUSED if any(not isinstance(said, str) for said in told) else 0


async def _answer(
    resource: Resource, offer: Offer, desk: Desk, asked: Asked, which: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The answer, and how it is printed."""
    out = terminal()
    look = look_of(out)
    if offer.kind == "list" and resource.listing is not None:
        listing = resource.listing
        page = await listed(listing, desk, given)
        more: Printed = ()
        if listing.told is not None and items_of(page) and not asked.arguments.json:
            more = await listing.told(desk, items_of(page), given, look)
        return page, lambda: _print_page(out, resource, listing, page, given, more)
    if offer.kind == "show" and resource.show is not None:
        one = await find(resource, desk, asked.key or "", which)
        if resource.show.told is not None and not asked.arguments.json:
            story = await resource.show.told(desk, one)
            return one, lambda: print_all(out, story)
        lines = resource.show.lines or fields_in_lines
        return one, lambda: print_all(out, lines(one, look))
    if offer.reading is not None:
        subject = (await find(resource, desk, asked.key or "", which),) if offer.of_one else ()
        found = await offer.reading.read(desk, *subject, **given)
        if found is None:
            raise Missing
        told = offer.reading.lines
        return found, lambda: print_all(out, told(found, look))
    verb = offer.verb
    if verb is None:
        raise AssertionError(offer)
    refuse_unallowed(desk, verb)
    about = await subject_of(resource, verb, desk, asked.key, which)
    if verb.scope != "read" and not asked.plan:
        desk.by = await author_of(asked, desk, partial(apps_of, verb, desk, about, given))
    result = await carry_out(verb, desk, about, given, plan=asked.plan)
    says = verb.plans if asked.plan and verb.plans is not None else verb.says
    known = {**given, "app": asked.app}
    return result, lambda: print_all(out, said_of(says, result, about, known))


async def author_of(asked: Asked, desk: Desk, apps: Callable[[], Awaitable[Iterable[str]]]) -> Actor:
    """The author of a change: a person whose token the command has, else the name that it gives. Raises Denied if the verb is guarded
    and the token does not open these apps.
    """
    if asked.token is not None:
        about = list(await apps())
        asked.token.opens(about)
        return asked.token.author(about, desk.by, asked.arguments.operator)
    token = None if isinstance(desk.reads, Storeless) else await recognised(desk.reads)
    if token is None or not token.people:
        return desk.by
    return token.author(await apps(), desk.by, asked.arguments.operator)


def said_of(says: Callable[..., Any], result: Any, about: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
    """The message for an answer. Depending on its parameters, the function also gets the item and the given arguments."""
    return says(result, *(*about, given)[: len(inspect.signature(says).parameters) - 1])


async def listed(listing: Listing, desk: Desk, given: Mapping[str, Any]) -> Any:
    try:
        return await listing.read(desk, **given)
    except ValueError:
        if given.get("after") is None:
            raise
        message = '--after: not a cursor of this listing; use the "next" of an earlier page'
        raise UsageError(message) from None


async def _nothing(listing: Listing | None, desk: Desk, given: Mapping[str, Any]) -> str:
    none = "" if listing is None else listing.none
    return none if isinstance(none, str) else await none(desk, **given)


def _print_page(
    out: Any, resource: Resource, listing: Listing, page: Any, given: Mapping[str, Any], more: Printed
) -> None:
    listing = next((form for name, form in listing.forms if given.get(name)), listing)
    print_listing(out, resource, listing, items_of(page))
    if listing.after is not None:
        print_all(out, listing.after(items_of(page), given, look_of(out)))
    print_all(out, more)
    if isinstance(page, Page) and page.next is not None:
        print(f"more {listing.called or resource.names}: --after {page.next}")
    print_all(out, last_of(page))


def last_of(page: Any) -> Sequence[str]:
    return page.last if isinstance(page, Page) else ()


def fields_in_lines(one: Mapping[str, Any], look: Any) -> list[str]:
    """The default output for one item: a line for each field that has a value."""
    from wakeful.resources.words import plain
    from wakeful.shell.terminal import value

    del look
    wide = max(map(len, one))
    shown = {
        name: plain(said) if isinstance(said, str) else value(said) for name, said in one.items() if said is not None
    }
    return [f"{name:<{wide}}  {said}" for name, said in shown.items()]


@contextlib.asynccontextmanager
async def desk_for(verb: Verb | None, asked: Asked) -> AsyncIterator[Desk]:
    """The desk for a command: with a store to read, a store to change, or an app whose code is needed."""
    arguments = asked.arguments
    by = Actor(operator_of(arguments) if verb is not None else "", "cli")
    note = getattr(arguments, "note", None)
    load_code(verb, asked)
    if verb is not None and asked.app is not None and is_put_to_work(verb, asked):
        async with sending(asked.app, arguments.store, sources=True) as runtime:
            yield Desk(runtime.reader, by, runtime.store, note, side_of(runtime, asked.code or ""))
        return
    side = looked_at(asked.app)
    if verb is not None and verb.storeless is not None and verb.storeless(asked.given):
        yield Desk(Storeless(), by, note=note, code=side)
        return
    if verb is None or asked.plan or verb.scope == "read":
        async with reading(asked.url) as reads:
            yield Desk(reads, by, note=note, code=side, story=story)
        return
    async with changing(asked.url) as store:
        yield Desk(Reads(store.database), by, store, note, side)


class Storeless(Reads):
    """Stands for the store in a command that needs none."""

    def __init__(self) -> None:
        """There is no database to read."""


async def story(reads: Reads, identifier: str) -> Mapping[str, Any] | None:
    """The explanation of an id; `why` is imported on first use."""
    from wakeful.why import why

    return await why(reads, identifier)


def load_code(verb: Verb | None, asked: Asked) -> None:
    """The app whose code is needed or was named. It may name its store."""
    if asked.app is not None:
        return
    if verb is not None and verb.logs:
        start_logs(asked.arguments)
    from wakeful.loading import load_app
    from wakeful.settings import default_app

    needed = verb is not None and verb.needs_app == "yes"
    read = (
        verb is not None
        and verb.reads_code_for is not None
        and asked.given.get(verb.reads_code_for, UNSET) is not UNSET
    )
    named = asked.code or (default_app() if needed or read else None)
    if named is not None:
        asked.app, asked.code = load_app(named), named
    elif verb is not None and needed:
        message = verb.without_app or f"{verb.spoken} needs the code of an app: name APP, or set WAKEFUL_APP"
        raise UsageError(message)


def is_put_to_work(verb: Verb, asked: Asked) -> bool:
    """Whether the verb needs the app's runtime, not only its code."""
    reads = asked.plan and verb.bulk is not None and verb.bulk.reads_only
    return verb.needs_app != "no" and not reads


def looked_at(app: Any) -> AppSide | None:
    """The app's side of a desk from its code alone, without a runtime."""
    if app is None:
        return None
    from wakeful.operations.declared import Declared

    return AppSide(Declared(app), None, None, None, None, lambda: None)


def side_of(runtime: Any, named: str) -> AppSide:
    """The app's side of a desk from a runtime."""
    from wakeful.operations.declared import Declared

    return AppSide(
        agents=Declared(runtime.app),
        schedules=runtime.schedules,
        reminders=runtime.reminders,
        door=runtime.door,
        results=runtime.results,
        releasing=lambda: runtime.releasing,
        named=named,
        arrival=runtime.scheduler.arrival,
    )
