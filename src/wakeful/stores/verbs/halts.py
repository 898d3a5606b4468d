"""Halts: nothing of an app, an agent or an action is claimed, called or delivered until a person lifts it.

    halt ──► on PostgreSQL: shut the gate of the app, so that no claim, effect or delivery is being begun ──► store the row
         ──► the calls that had begun before are the answer

    about to begin an effect ──► a halt stops it ──► Halted: nothing is written ──► the run is parked for that halt
    lift ──► delete the row ──► the runs that were parked for it are ready, in the same transaction

Free of halts: Wakeful's own agents, which send alarms and approvals, and undos that a person asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wakeful.clock import Microseconds
from wakeful.errors import Halted
from wakeful.model import BY_ITSELF, OWN_AGENTS, Claim, Effect
from wakeful.stores.request import Audit, ByPerson, Heard, Others
from wakeful.stores.transaction import Transaction

if TYPE_CHECKING:
    from wakeful.stores.verbs.progress import LeaveRun

ALL = ""  # in place of an agent or an action
UNDO = "undo "  # the action of an undo: this, and the name of the action that it undoes
FAILED = ", which failed"  # the author of a cancel that came with the failure of the caller
Place = tuple[str, str, str]  # of a halt: app, agent, action


class Call(NamedTuple):
    """A call of an action that had begun when the halt was stored."""

    run: str
    agent: str
    action: str
    effect: str
    since: Microseconds


@dataclass(frozen=True, slots=True)
class HaltChanged:
    """The result. `was`: who had halted it before, and the note. `deliveries`: by channel, how many may be on their way."""

    was: tuple[str, str | None] | None
    calls: list[Call] = field(default_factory=list)
    deliveries: dict[str, int] = field(default_factory=dict)
    came_back: int = 0


@dataclass(slots=True)
class ChangeHalt(ByPerson[HaltChanged]):
    """A person halts an app, one of its agents or one of its actions, or lifts that. After the commit of a halt, nothing of it begins.
    A second halt leaves the first as it is.
    """

    app: str
    agent: str = ALL
    action: str = ALL
    halted: bool = True
    woken: Sequence[tuple[str, str]] = ()  # runs that are no longer parked: (app, agent)

    def shuts(self) -> str | None:
        return self.app

    def tell(self, result: HaltChanged, others: Others) -> None:
        others.all = others.all or (result.was is not None and not self.halted)

    def follow(self, _: HaltChanged, heard: Heard) -> None:
        if not self.halted:
            heard.deliveries()

    def audit(self, result: HaltChanged) -> Audit | None:
        if self.halted == (result.was is not None):
            return None
        return Audit("halt" if self.halted else "halt lift", self.app, name_of(self.agent, self.action), self.note)


def name_of(agent: str, action: str) -> str:
    """The name of a halt within its app: what runs that are parked for it carry."""
    return f"action {action}" if action else f"agent {agent}" if agent else "all"


def change_halts(now: int | None, requests: Sequence[ChangeHalt]) -> Transaction[list[HaltChanged]]:
    """On PostgreSQL the gate of the app is shut at this point: nothing is being begun, and later transactions see the change."""
    results = []
    for one in requests:
        place = (one.app, one.agent, one.action)
        found = yield "find_halt", [place]
        was = (found[0][0], found[0][1]) if found else None
        if not one.halted:
            one.woken = (yield from _lift(now, one, place)) if found else ()
            results.append(HaltChanged(was, came_back=len(one.woken)))
            continue
        if was is None:
            yield "insert_halt", [(now, *place, one.by.name, one.note)]
        calls = [Call(*row) for row in (yield "calls_under_way", [place])]
        lanes = (yield "deliveries_under_way", [(now, one.app, one.agent)]) if one.action == ALL else []
        results.append(HaltChanged(was, calls, dict(lanes)))
    return results


def _lift(now: int | None, request: ChangeHalt, place: Place) -> Transaction[list[tuple[str, str]]]:
    yield "lift_halt", [place]
    reason = f"the halt was lifted by {request.by.name}" + (f": {request.note}" if request.note else "")
    freed = yield "unpark_halted", [(now, request.app, name_of(*place[1:]), reason)]
    return [(app, agent) for app, agent in freed]


# what a halt stops


def subject_to_halts(claim: Claim, effect: Effect) -> tuple[str, str] | None:
    """The agent and the action by which a halt stops an effect; None if no halt does."""
    if claim.agent.startswith(OWN_AGENTS) or (effect.undoes is not None and cancelled_by_person(claim)):
        return None
    return claim.agent, effect.action if effect.undoes is None else effect.action.removeprefix(UNDO)


def cancelled_by_person(claim: Claim) -> bool:
    """Whether a person cancelled the run. Others cancelled themselves: they failed, were stuck or replaced, or their caller was."""
    if claim.cancelled is None:
        return False
    by = claim.cancelled[0]
    return by not in BY_ITSELF and not by.endswith(FAILED)


def stopped_by(places: Collection[Place], app: str, subject: tuple[str, str]) -> Place | None:
    """The widest halt that stops an effect."""
    agent, action = subject
    return next((place for place in ((app, ALL, ALL), (app, agent, ALL), (app, ALL, action)) if place in places), None)


def halted_of(stopped: Mapping[int, Place]) -> Transaction[dict[int, Halted]]:
    """The refusal of each request that a halt stops."""
    places = sorted(set(stopped.values()))
    told: dict[Place, Halted] = {}
    for place in places:
        ((by, note),) = yield "find_halt", [place]
        told[place] = Halted(place, by, note)
    return {number: told[place] for number, place in stopped.items()}


# parked runs


def lifted_meanwhile(requests: Sequence[LeaveRun]) -> Transaction[dict[int, str]]:
    """Runs that would be parked for good, because their halt was lifted meanwhile: why they are ready instead, by seq."""
    parking = [(one.claim.seq, one.halted_for) for one in requests if one.halted_for is not None]
    if not parking:
        return {}
    stands = yield "halt_stands", sorted({place for _, place in parking})
    places = {(app, agent, action) for app, agent, action in stands}
    return {seq: "the halt was lifted meanwhile" for seq, place in parking if place not in places}


def note_halted(requests: Sequence[LeaveRun]) -> Transaction[None]:
    """Store the halt that each run is parked for."""
    rows = [
        (one.claim.seq, one.claim.token, name_of(*one.halted_for[1:])) for one in requests if one.halted_for is not None
    ]
    if rows:
        yield "note_halted", rows
