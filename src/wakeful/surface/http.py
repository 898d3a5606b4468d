"""HTTP paths generated from resources.

    GET  /v1/PLURAL?filter=…            the listing
    GET  /v1/PLURAL/KEY?which=…         one item
    POST /v1/PLURAL/KEY/VERB {field: …}  a verb; "plan": true only plans it
    POST /v1/PLURAL/VERB {filter: …}     one slice of a bulk verb

Unknown parameters and fields are refused: an ignored filter would make the answer look complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.errors import NotFound, did_you_mean
from wakeful.http.change import BodyFields, ChangeRequest, bad_body, read_change
from wakeful.http.guarded import refuse_other_apps
from wakeful.http.parameters import bad_cursor, bad_parameter, is_plain, read_parameters
from wakeful.http.problem import Problem
from wakeful.http.reply import JsonResponse, found
from wakeful.http.security import ApiSettings
from wakeful.operations.pace import Pace, read_rate, unseen
from wakeful.operations.redo import MANY
from wakeful.resources.declare import Bulk, Resource, Verb
from wakeful.resources.desk import Course, Desk
from wakeful.resources.given import Given, parameters_of
from wakeful.resources.refusals import Ambiguous, Unfit
from wakeful.stores.request import Actor
from wakeful.surface.acting import (
    Missing,
    apps_of,
    as_json,
    carry_out,
    find,
    missing_words,
    refuse_unallowed,
    subject_of,
)
from wakeful.surface.offers import Offer, offers_of, path_of

SLICE = 1_000
LONGEST_SLICE = 10.0  # seconds: a slow request handles fewer items

DeskOf = Callable[[Actor, str | None], Desk]
Handler = Callable[[Request], Awaitable[Response]]


def resource_routes(resources: Iterable[Resource], desk_of: DeskOf, settings: ApiSettings) -> list[Route]:
    """The routes of all resources. Longer paths come first, because a key may contain slashes; then paths without a key, because a key
    may be any word.
    """
    made: list[tuple[str, Route]] = []
    for resource in resources:
        for offer in offers_of(resource):
            handler = answering(resource, offer, desk_of, settings)
            made.append(_route(resource, offer, handler))
            if offer.bulk is not None:
                many = answering_many(offer, desk_of, settings)
                made.append(_route(resource, offer, many, many=True))
    return [route for _, route in sorted(made, key=lambda one: (-one[0].count("/"), one[0].count("{")))]


def _route(resource: Resource, offer: Offer, handler: Handler, *, many: bool = False) -> tuple[str, Route]:
    method, path = path_of(resource, offer, many=many)
    pattern = path.replace(f"{{{resource.key}}}", f"{{{resource.key}:path}}") if resource.deep else path
    return path, Route(pattern, handler, methods=[method])


def answering(resource: Resource, offer: Offer, desk_of: DeskOf, settings: ApiSettings) -> Handler:
    async def read(request: Request) -> Response:
        given = query_of(request, (*offer.which, *offer.takes))
        which, takes = part(given, offer.which), part(given, offer.takes)
        desk = desk_of(Actor("", "http"), None)
        if offer.kind == "list" and resource.listing is not None:
            try:
                return JsonResponse(as_json(resource, offer, await resource.listing.read(desk, **takes)))
            except Unfit as error:
                raise bad_parameter(str(error), error.parameter) from None
            except ValueError:
                if takes.get("after") is None:
                    raise
                raise bad_cursor() from None
        subject: tuple[Any, ...] = ()
        if offer.of_one:
            try:
                subject = (await find(resource, desk, key_of(resource, request), which),)
            except Missing:
                return found(None, resource.name)
            except Ambiguous as error:
                raise ambiguous(error, offer) from None
        if offer.reading is None:
            return JsonResponse(subject[0])
        return found(await offer.reading.read(desk, *subject, **takes), resource.name)

    async def change(request: Request) -> Response:
        verb = required(offer)
        which = query_of(request, offer.which)
        known = fields_of(verb, offer.fields)
        asked = await read_change(request, settings, known)
        given = body_of(asked.fields, offer.fields)
        plan = verb.plan is not None and asked.fields.flag("plan")
        desk = desk_of(asked.by, asked.fields.text("note"))
        if verb.paced:
            desk.course = course_of(asked)
        key = key_of(resource, request) if offer.of_one else None
        try:
            refuse_unallowed(desk, verb)
            subject = await subject_of(resource, verb, desk, key, which)
            if (verb.guarded or verb.person or verb.across) and not plan:
                apps = await apps_of(verb, desk, subject, given)
                await refuse_other_apps(settings, apps, asked.by, people=verb.person is not None)
            return JsonResponse(await carry_out(verb, desk, subject, given, plan=plan))
        except Missing:
            if resource.guesses:
                raise NotFound(await missing_words(resource, desk, key or "", which)) from None
            return found(None, resource.name)
        except Ambiguous as error:
            raise ambiguous(error, offer) from None
        except Unfit as error:
            raise bad_body(str(error), error.parameter) from None

    return read if offer.verb is None else change


def ambiguous(error: Ambiguous, offer: Offer) -> Problem:
    name = next((one.http for one in offer.which if one.name == error.parameter), error.parameter)
    title = "Several items have this name"
    return Problem(409, f"{error}: choose one with ?{name}=", kind="ambiguous", title=title, field=name)


def key_of(resource: Resource, request: Request) -> str:
    key: str = request.path_params[resource.key]
    if not is_plain(key):
        found(None, resource.name)
    return key


def required(offer: Offer) -> Verb:
    if offer.verb is None:
        raise AssertionError(offer)
    return offer.verb


def fields_of(verb: Verb, takes: Iterable[Given]) -> list[str]:
    """The members that a verb's body may have."""
    plan = ["plan"] if verb.plan is not None else []
    plan += ["rate", "yes"] if verb.paced else []
    return [*(one.http for one in takes), *plan, *(["note"] if verb.note else [])]


def part(given: Mapping[str, Any], parameters: Iterable[Given]) -> dict[str, Any]:
    return {one.name: given[one.name] for one in parameters if one.name in given}


# parameters of a query


def query_of(request: Request, parameters: tuple[Given, ...]) -> dict[str, Any]:
    """The given parameters, parsed. Raises if a required one is missing."""
    texts = read_parameters(request.query_params, [one.http for one in parameters])
    given: dict[str, Any] = {}
    for one in parameters:
        text = texts.get(one.http)
        if text is None:
            if one.required:
                raise bad_parameter(missing(one), one.http)
            continue
        given[one.name] = _of_query(one, text)
    return given


def _of_query(one: Given, text: str) -> Any:
    shown = "".join(c if c.isprintable() else "?" for c in text[:80])
    match one.kind:
        case "flag":
            if text not in {"true", "false"}:
                raise bad_parameter(f"{one.http} must be true or false", one.http)
            return text == "true"
        case "choice" if text not in one.choices:
            raise bad_parameter(f'there is no {one.http} "{shown}".{did_you_mean(text, one.choices)}', one.http)
        case "number":
            try:
                return one.whole(text)
            except ValueError:
                detail = one.param.wrong or f'{one.http} is "{shown}": give a number {one.reach}'
                raise bad_parameter(detail, one.http) from None
        case _:
            try:
                return one.text(text)
            except ValueError as error:
                raise bad_parameter(f"{one.http}: {error}", one.http) from None


def missing(one: Given) -> str:
    if one.param.missing is not None:
        return f"{one.http} is missing: {one.param.missing}"
    like = "" if one.param.example is None else f', like "{one.param.example}"'
    return f"{one.http} is missing: {one.param.help}{like}"


# fields of a body


def body_of(fields: BodyFields, parameters: Iterable[Given]) -> dict[str, Any]:
    """The given members of a body, parsed. Null counts as not given, unless the parameter can be removed."""
    given: dict[str, Any] = {}
    for one in parameters:
        value = fields.given.get(one.http)
        if value is None and not (one.http in fields.given and (one.param.nullable or one.kind == "json")):
            if one.required:
                raise bad_body(f"{fields.inside}{missing(one)}", f"{fields.inside}{one.http}")
            continue
        given[one.name] = None if value is None else _of_body(fields, one, value)
    return given


def _of_body(fields: BodyFields, one: Given, value: Any) -> Any:
    match one.kind:
        case "flag":
            return fields.flag(one.http)
        case "json":
            return value
        case "number":
            most = one.param.most
            if type(value) is not int or value < one.param.least or (most is not None and value > most):
                reach = f"from {one.param.least:,} up" if most is None else f"from {one.param.least:,} to {most:,}"
                raise fields.refusal(one.http, f"must be a whole number {reach}")
            return value
        case _:
            text = str(fields.text(one.http))
            try:
                return one.text(text)
            except ValueError as error:
                raise bad_body(f"{fields.inside}{one.http}: {error}", f"{fields.inside}{one.http}") from None


# many at once


def answering_many(offer: Offer, desk_of: DeskOf, settings: ApiSettings) -> Handler:
    verb, bulk = required(offer), offer.bulk
    if bulk is None:
        raise AssertionError(offer)
    kinds = (bulk, *bulk.others)
    outside = [one for one in offer.choice if one.param.outside]
    names = [*(one.inside for one in kinds), *(one.http for one in outside), "plan", "rate", "yes"]

    async def many(request: Request) -> Response:
        asked = await read_change(request, settings, [*names, *(["note"] if verb.note else [])])
        kind, choice = chosen_of(asked.fields, kinds)
        choice |= body_of(asked.fields, outside)
        desk = desk_of(asked.by, asked.fields.text("note"))
        refuse_unallowed(desk, verb)
        try:
            planned = await kind.plan(desk, **choice)
        except Unfit as error:
            raise bad_body(str(error), f"{kind.inside}.{error.parameter}") from None
        if not planned.count and kind.none is not None:
            raise NotFound(kind.none("http"))
        if asked.fields.flag("plan"):
            return JsonResponse(planned.answer | planned.more)
        refuse_many(asked, planned.count, kind.many)
        if (verb.guarded or verb.person) and kind.apps is not None:
            apps = await kind.apps(desk, planned)
            await refuse_other_apps(settings, apps, asked.by, people=verb.person is not None)
        rate, most = slice_of(asked)
        done = await kind.slice(desk, planned, most, Pace(rate), unseen)
        return JsonResponse({kind.done: done, "left": max(0, planned.count - most)} | planned.more)

    return many


def chosen_of(fields: BodyFields, kinds: Sequence[Bulk]) -> tuple[Bulk, dict[str, Any]]:
    """The kind of items and the filter: exactly one member of the body gives both."""
    inside = {one.inside: [given for given in parameters_of(one.plan) if not given.param.outside] for one in kinds}
    found = {
        one.inside: (one, chosen)
        for one in kinds
        if (chosen := fields.object(one.inside, [given.http for given in inside[one.inside]])) is not None
    }
    if len(kinds) > 1 and len(found) != 1:
        words = ", ".join(f'"{one.inside}" for {one.things}' for one in kinds)
        raise bad_body(f"nothing is selected: give one of these: {words}", kinds[0].inside)
    kind, chosen = next(iter(found.values()), (kinds[0], None))
    choice = {} if chosen is None else body_of(chosen, inside[kind.inside])
    if not any(choice.get(name) for name in kind.some):
        raise bad_body(f"nothing is selected: give {which_of(inside[kind.inside], kind.some)}", kind.inside)
    return kind, choice


def which_of(choice: Iterable[Given], some: Iterable[str]) -> str:
    """The fields that select items, in words: "agent" or "all": true."""
    by_name = {one.name: one for one in choice}
    words = [f'"{by_name[name].http}"' + (": true" if by_name[name].kind == "flag" else "") for name in some]
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def slice_of(asked: ChangeRequest) -> tuple[float | None, int]:
    """The rate, and the number of items for this request."""
    given = asked.fields.given.get("rate")
    if given is None:
        return None, SLICE
    try:
        rate = read_rate(str(given))
    except ValueError as error:
        raise bad_body(str(error), "rate") from None
    return rate, SLICE if rate is None else min(SLICE, max(1, int(rate * LONGEST_SLICE)))


def course_of(asked: ChangeRequest) -> Course:
    """A pace with the time limit of a request: remaining items are left to the next request."""
    rate, _ = slice_of(asked)
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(LONGEST_SLICE, over.set)
    return Course(Pace(rate, over), rate, yes=asked.fields.flag("yes"))


def refuse_many(asked: ChangeRequest, count: int, what: str) -> None:
    if count > MANY and not asked.fields.flag("yes"):
        detail = f'{count:,} {what} are more than {MANY:,}: add "yes": true to confirm'
        raise Problem(409, detail, kind="too-many", title="Too many without confirmation")
