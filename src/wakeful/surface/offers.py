"""What a resource offers: one entry for each reading and each verb. Every surface uses this list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from wakeful.resources.declare import Bulk, Reading, Resource, Verb
from wakeful.resources.given import Given, parameters_of

Kind = Literal["list", "show", "reading", "verb"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One reading or verb.

    `which` are parameters that select the item, besides its key; `takes` are its own; `choice` are those of the bulk verb.
    """

    name: str
    word: str
    kind: Kind
    summary: str
    of_one: bool
    which: tuple[Given, ...] = ()
    takes: tuple[Given, ...] = ()
    choice: tuple[Given, ...] = ()
    others: tuple[Given, ...] = ()  # of further kinds that the command line can select
    verb: Verb | None = None
    reading: Reading | None = None
    code: str | None = None  # what --app APP is for
    usual: bool = False  # on the command line, a missing key means the usual item

    @property
    def bulk(self) -> Bulk | None:
        return None if self.verb is None else self.verb.bulk

    @property
    def needs_key(self) -> bool:
        """Whether the command line needs a key."""
        return self.of_one and not self.usual

    @property
    def several(self) -> bool:
        return self.verb is not None and self.verb.several

    @property
    def all(self) -> tuple[Given, ...]:
        """All parameters, without duplicates."""
        found: dict[str, Given] = {}
        for one in (*self.which, *self.takes, *self.choice, *self.others):
            found.setdefault(one.name, one)
        return tuple(found.values())

    @property
    def positionals(self) -> tuple[Given, ...]:
        return tuple(one for one in self.all if one.param.positional)

    @property
    def fields(self) -> tuple[Given, ...]:
        """Its own parameters, as HTTP takes them."""
        return tuple(one for one in self.takes if not one.param.shell_only)

    @property
    def options(self) -> tuple[Given, ...]:
        """The parameters that are options on the command line."""
        return tuple(one for one in self.all if not one.param.positional and not one.param.http_only)


@cache
def offers_of(resource: Resource) -> tuple[Offer, ...]:
    """All offers of a resource, in the order of its help."""
    return tuple(
        replace(one, code=resource.code or (one.verb.code if one.verb else one.reading.code if one.reading else None))
        for one in _offers(resource)
    )


def _offers(resource: Resource) -> Iterator[Offer]:
    listing, show = resource.listing, resource.show
    which = () if show is None else parameters_of(show.find)
    if listing is not None:
        yield Offer("list", "list", "list", listing.summary, of_one=False, takes=parameters_of(listing.read))
    if show is not None and not show.hidden:
        yield Offer("show", "show", "show", show.summary, of_one=True, which=which, usual=show.usual)
    for one in resource.readings:
        yield Offer(
            one.name,
            one.name,
            "reading",
            one.summary,
            of_one=one.of_one,
            which=which if one.of_one else (),
            takes=parameters_of(one.read),
            reading=one,
        )
    for verb in resource.verbs:
        kinds = () if verb.bulk is None else verb.bulk.others
        yield Offer(
            verb.name,
            verb.spoken,
            "verb",
            verb.summary,
            of_one=verb.of_one,
            which=which if verb.of_one and not verb.by_key else (),
            takes=parameters_of(verb.run),
            choice=() if verb.bulk is None else parameters_of(verb.bulk.plan),
            others=tuple(one for kind in kinds if kind.in_shell for one in parameters_of(kind.plan)),
            verb=verb,
        )


def path_of(resource: Resource, offer: Offer, *, many: bool = False) -> tuple[str, str]:
    """The method and path of an offer, with {key} replaced by the resource's key; `many`: those of its bulk verb."""
    verb, reading = offer.verb, offer.reading
    declared = None
    if verb is not None:
        declared = verb.bulk.http if many and verb.bulk is not None else verb.http
    elif reading is not None:
        declared = reading.http
    if declared is not None:
        method, _, path = declared.partition(" ")
    else:
        method = "GET" if verb is None else "POST"
        own = "" if offer.kind in {"list", "show"} else f"/{offer.name}"
        path = f"/{{key}}{own}" if offer.of_one and not many else own
    whole = path if path.startswith("/v1/") else f"{resource.root}{path}"
    return method, whole.replace("{key}", f"{{{resource.key}}}")
