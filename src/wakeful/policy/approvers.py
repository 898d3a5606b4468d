"""Who may answer for a list of groups and people: people who are away are replaced by the person who answers instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wakeful.clock import Microseconds


@dataclass(frozen=True, slots=True)
class Person:
    """A person of an app, as the people file says."""

    name: str
    groups: tuple[str, ...] = ()
    away_until: Microseconds | None = None
    instead: str | None = None  # answers while this person is away; None: no other person does

    def is_away(self, now: Microseconds) -> bool:
        return self.away_until is not None and now < self.away_until


People = Mapping[str, Person]  # by name


def stand_in(name: str, people: People, now: Microseconds) -> str | None:
    """The person who answers for this one: the person, or while they are away the one who answers instead, who may be away too.
    None if there is no such person, or if all of them are away.
    """
    seen: set[str] = set()
    one = people.get(name)
    while one is not None and one.is_away(now):
        seen.add(one.name)
        # A people file has no cycle; a row that was changed by hand may.
        one = None if one.instead is None or one.instead in seen else people.get(one.instead)
    return None if one is None else one.name


def may_count(names: Iterable[str], people: People) -> frozenset[str]:
    """The people whose votes may count for these groups and people: those that are in them, away or not, and those who answer instead of
    one of them. Who may vote now is `members`; a vote that was given stays.
    """
    wanted = frozenset(names)
    found: set[str] = set()
    for person in people.values():
        one: Person | None = person if person.name in wanted or not wanted.isdisjoint(person.groups) else None
        while one is not None and one.name not in found:
            found.add(one.name)
            one = None if one.instead is None else people.get(one.instead)
    return frozenset(found)


def is_kept_out(name: str, kept_out: Iterable[str]) -> bool:
    """Whether a person is one of those who may not answer. Names that differ only in case are one name: an event says who its author is
    in its own way.
    """
    return name.strip().casefold() in {one.strip().casefold() for one in kept_out}


def members(names: Iterable[str], people: People, now: Microseconds) -> frozenset[str]:
    """The people who may answer for these groups and people, each once. An unknown name has none."""
    wanted = frozenset(names)
    chosen = (one.name for one in people.values() if one.name in wanted or not wanted.isdisjoint(one.groups))
    return frozenset(found for name in chosen if (found := stand_in(name, people, now)) is not None)
