"""The schedules of an app, for whoever makes or changes them: the app's own code at its start, people, agents, files.

Editing loses no instant and doubles none: what is due by the old definition is settled or queued with the change, and the new
one begins after that. Each change is recorded, and has a revision.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from pydantic_core import from_json, to_json

from wakeful.clock import Microseconds, to_text
from wakeful.errors import ConfigError, StoreUnavailable, did_you_mean
from wakeful.intake.cloudevents import new_event
from wakeful.intake.matching import fits
from wakeful.model import OWN_AGENTS, Arrival, Event, Receipt
from wakeful.stores.request import Actor, Bulk, Request
from wakeful.stores.tampered import refuse_tampered
from wakeful.stores.timing import Origin, Settled, Span, StoredSchedule, reached
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.schedules import ChangeSchedule, ChangeVerb, FireSchedule, asked_by
from wakeful.triggers.schedule import NAME_LIMIT, TYPE, Schedule, Unreadable, as_stored, read_definition
from wakeful.triggers.scheduler import source_of
from wakeful.triggers.settling import judge, put_off

R = TypeVar("R")

CODE = Actor("code", "code")
# How the ids of events begin that somebody fired: no instant is written like this.
BY_HAND = "by-hand-"
# Somebody else changes it at the same time: not for ever.
MOST_TRIES = 20
AT_ONCE = 200


class ChangingStore(Protocol):
    """What this needs of the store."""

    async def next_schedule(self, app: str) -> tuple[Microseconds, Microseconds | None]: ...

    async def find_schedule(self, app: str, name: str) -> StoredSchedule | None: ...

    async def schedules(self, app: str) -> list[StoredSchedule]: ...

    async def do(self, request: Request[R], /) -> R: ...


class Declared(Protocol):
    """An agent, as far as this goes."""

    @property
    def name(self) -> str: ...
    @property
    def triggers(self) -> Sequence[Any]: ...
    @property
    def options(self) -> Any: ...


class Schedules:
    """Makes and changes the schedules of one app."""

    def __init__(
        self,
        app: str,
        store: ChangingStore,
        *,
        arrive: Callable[[Event, str], Arrival] | None = None,
        agents: Collection[str] | None = None,
        settle: Callable[[str], Awaitable[None]] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._store = store
        self._arrive = arrive
        self._agents = agents  # None: nobody here knows which there are
        self._settle = settle  # None: nobody here can fire
        self._changed = changed

    # reading

    async def all(self) -> list[StoredSchedule]:
        """Every schedule that there is, or was, by name."""
        return await self._store.schedules(self._app)

    async def find(self, name: str) -> StoredSchedule | None:
        return await self._store.find_schedule(self._app, name)

    async def get(self, name: str) -> StoredSchedule:
        """As `find`; ConfigError, with a suggestion, where there is none."""
        found = await self.find(name)
        if found is None or found.state == "removed":
            known = [one.name for one in await self.all() if one.state != "removed"]
            message = f'app {self._app} has no schedule "{name}".{did_you_mean(name, known)}'
            raise ConfigError(message)
        return found

    # changing

    async def add(
        self,
        name: str,
        schedule: Schedule,
        agent: str,
        *,
        data: Any = None,
        origin: Origin = "runtime",
        owner: str | None = None,
        by: Actor,
        note: str | None = None,
    ) -> StoredSchedule:
        """Make a schedule. ConfigError if there is one of that name, or no such agent."""
        self._refuse_unknown(agent)
        if origin == "runtime":
            refuse_own(agent)

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            self._refuse_taken(before, name, origin)
            return self._made(
                name, schedule, agent, before, now, data=data, origin=origin, owner=owner, operator=by.name, note=note
            )

        return await self._change(name, change, by)

    async def edit(
        self,
        name: str,
        schedule: Schedule | Callable[[Schedule], Schedule | None] | None = None,
        *,
        agent: str | None = None,
        data: Any = ...,
        owner: Any = ...,
        by: Actor,
        note: str | None = None,
        verb: ChangeVerb = "edit",
    ) -> StoredSchedule:
        """Give it another definition, other data, another agent or owner. What is due by the old one comes first. One that is
        paused stays so. A function makes the new definition out of the one that there is when it is changed: of two who change
        different parts of it at once, neither undoes what the other did.
        """
        if agent is not None:
            self._refuse_unknown(agent)
            refuse_own(agent)

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            known = self._known(before, name)
            wanted = schedule(as_stored(known.definition)) if callable(schedule) else schedule
            request = self._edited(
                known,
                wanted or read_definition(from_json(known.definition)),
                now,
                agent=agent or known.agent,
                data=known.data if data is ... else _written(data),
                operator=by.name,
                note=note,
                verb=verb,
            )
            request.owner = known.owner if owner is ... else owner
            return request

        await self._settle_first(name)
        return await self._change(name, change, by)

    async def pause(self, name: str, *, by: Actor, note: str | None = None) -> StoredSchedule:
        """Fire nothing until it is resumed. What waits for a run at that time is done after that, unless an instant was due
        meanwhile: then it is skipped with those.
        """

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            known = self._known(before, name)
            if known.state != "live":
                message = f"schedule {name} is {known.state}"
                raise ConfigError(message)
            schedule = read_definition(from_json(known.definition))
            request = self._edited(
                known, schedule, now, agent=known.agent, data=known.data, operator=by.name, note=note, verb="pause"
            )
            request.state = "paused"
            return request

        await self._settle_first(name)
        return await self._change(name, change, by)

    async def resume(self, name: str, *, by: Actor, note: str | None = None) -> StoredSchedule:
        """Fire again, from now on. What would have been due meanwhile was skipped."""

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            known = self._known(before, name)
            if known.state != "paused":
                message = f"schedule {name} is not paused: it is {known.state}"
                raise ConfigError(message)
            schedule = read_definition(from_json(known.definition))
            offset = schedule.offset(self._app, name)
            settled, after = _skipped(known, schedule, now - offset)
            return self._request(
                known,
                verb="resume",
                operator=by.name,
                note=note,
                state="live" if after.next_at is not None or after.queued is not None else "done",
                definition=known.definition,
                done_until=reached(known.done_until, settled, after.queued),
                next_at=after.next_at,
                offset=offset,
                settled=settled,
                queued=after.queued,
                waits_for=after.waits_for,
            )

        return await self._change(name, change, by)

    async def remove(
        self, name: str, *, by: Actor, note: str | None = None, bulk: Bulk | None = None
    ) -> StoredSchedule:
        """It fires no more. Its history stays."""

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            return self._removed(self._known(before, name), now, operator=by.name, note=note)

        return await self._change(name, change, by, bulk)

    # changes that are stored together with something else

    async def plan(
        self, name: str, schedule: Schedule, agent: str, *, data: Any, owner: str | None, operator: str
    ) -> tuple[StoredSchedule | None, ChangeSchedule | None]:
        """The schedule as it is, and what would make it so; None if it is so already."""
        before, now = await self._now(name)
        if before is None or before.state in {"removed", "done"}:
            made = self._made(
                *(name, schedule, agent, before, now),
                data=data,
                origin="runtime",
                owner=owner,
                operator=operator,
                note=None,
            )
            return before, made
        if (before.definition, before.agent, before.data) == (_text(schedule), agent, _written(data)):
            return before, None
        request = self._edited(
            before, schedule, now, agent=agent, data=_written(data), operator=operator, note=None, verb="edit"
        )
        request.owner = owner
        return before, request

    async def plan_removal(self, name: str, *, operator: str) -> tuple[StoredSchedule | None, ChangeSchedule | None]:
        """The schedule as it is, and what would remove it; None if it is not there."""
        before, now = await self._now(name)
        if before is None or before.state == "removed":
            return before, None
        return before, self._removed(before, now, operator=operator, note=None)

    def tell_changed(self) -> None:
        """What was planned is stored."""
        self._changed()

    async def _now(self, name: str) -> tuple[StoredSchedule | None, Microseconds]:
        before = await self._store.find_schedule(self._app, name)
        now, _ = await self._store.next_schedule(self._app)
        return before, now

    async def fire(self, name: str, *, by: Actor, note: str | None = None) -> Receipt:
        """Fire it now, beside its instants. Needs the app's agents: only they know what becomes of an event."""
        if self._arrive is None:
            message = f"schedule {name}: only a process that has the app can fire it"
            raise ConfigError(message)
        stored = await self.get(name)
        if stored.data is not None:
            refuse_tampered(stored.data)
        now, _ = await self._store.next_schedule(self._app)
        event = new_event(
            TYPE,
            None if stored.data is None else from_json(stored.data),
            source=source_of(self._app, name),
            id=f"{BY_HAND}{to_text(now)}-{secrets.token_hex(4)}",  # two at one moment are two
            scheduledfor=to_text(now),
            coveredfrom=to_text(now),
            coveredcount=1,
        )
        accept = AcceptEvents(self._app, [self._arrive(event, stored.agent)], matches=fits)
        fired = await self._store.do(FireSchedule(stored, now, accept, by=by, note=note))
        return fired.receipts[0]

    # the app's own

    async def enter(self, agents: Mapping[str, Declared]) -> None:
        """Store what the code declares: new ones, changed ones, and which of these agents' it has no more."""
        declared = code_schedules(agents)
        stored = {one.name: one for one in await self.all()}
        entering = []
        for name, (agent, schedule, owner) in declared.items():
            known = stored.get(name)
            if known is not None and known.origin != "code" and known.state != "removed":
                message = f"schedule {name} of agent {agent} was made at run time too, for agent {known.agent}: give it another name="
                raise ConfigError(message)
            if known is None or (known.definition, known.agent, known.owner, known.state == "removed") != (
                _text(schedule),
                agent,
                owner,
                False,
            ):
                entering.append((name, agent, schedule, owner))
        for first in range(0, len(entering), AT_ONCE):  # together they share commits
            await asyncio.gather(*(self._enter(*one) for one in entering[first : first + AT_ONCE]))
        for name, known in stored.items():
            gone = known.origin == "code" and name not in declared and known.state != "removed"
            if gone and known.agent in agents:  # of an agent that is not here nobody here can say that
                await self._leave(name)

    async def _enter(self, name: str, agent: str, schedule: Schedule, owner: str | None) -> None:
        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule | None:
            if before is not None and (before.definition, before.agent, before.owner, before.state == "removed") == (
                _text(schedule),
                agent,
                owner,
                False,
            ):
                return None  # another process was first
            if before is None or before.state in {"removed", "done"}:
                return self._made(
                    name, schedule, agent, before, now, origin="code", owner=owner, operator=CODE.name, note=None
                )
            request = self._edited(
                before, schedule, now, agent=agent, data=None, operator=CODE.name, note=None, verb="edit"
            )
            request.owner = owner
            return request

        await self._settle_first(name)
        await self._change(name, change, CODE)

    async def _leave(self, name: str) -> None:
        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule | None:
            if before is None or before.origin != "code" or before.state == "removed":
                return None  # another process was first
            return self._removed(before, now, operator=CODE.name, note="the code does not have it any more")

        await self._change(name, change, CODE)

    # one change

    async def _settle_first(self, name: str) -> None:
        """Instants that each have a run of their own are fired before a change: they could only wait as one."""
        if self._settle is None:
            return
        known = await self._store.find_schedule(self._app, name)
        if known is not None and known.state == "live" and as_stored(known.definition).fires_all:
            await self._settle(name)

    async def _change(
        self,
        name: str,
        change: Callable[[StoredSchedule | None, Microseconds], ChangeSchedule | None],
        by: Actor,
        bulk: Bulk | None = None,
    ) -> StoredSchedule:
        for _ in range(MOST_TRIES):
            before, now = await self._now(name)
            request = change(before, now)
            if request is None:
                return cast("StoredSchedule", before)
            after = await self._store.do(asked_by(by, request, bulk))
            if after is not None:
                self._changed()
                return after
        message = f"schedule {name} is being changed by others all the time: try again"
        raise StoreUnavailable(message)

    def _made(
        self,
        name: str,
        schedule: Schedule,
        agent: str,
        before: StoredSchedule | None,
        now: Microseconds,
        *,
        data: Any = None,
        origin: Origin,
        owner: str | None,
        operator: str,
        note: str | None,
    ) -> ChangeSchedule:
        # One that was there before has had its instants: none of them comes again, wherever the clock is now.
        after = now if before is None else max(now, before.done_until)
        next_at = schedule.rule.next(after)
        return ChangeSchedule(
            self._app,
            name,
            "add",
            operator,
            before,
            agent,
            origin,
            "live" if next_at is not None else "done",
            _text(schedule),
            after,
            _written(data),
            owner,
            note,
            next_at,
            None if next_at is None else next_at + schedule.offset(self._app, name),
        )

    def _edited(
        self,
        known: StoredSchedule,
        schedule: Schedule,
        now: Microseconds,
        *,
        agent: str,
        data: str | None,
        operator: str,
        note: str | None,
        verb: ChangeVerb,
    ) -> ChangeSchedule:
        """1. What is due by the old definition is settled, or queued. 2. The new one begins after that."""
        old = as_stored(known.definition)
        offset = old.offset(self._app, known.name)
        later = schedule.offset(self._app, known.name)
        stays = (old.rule, old.fires_all, offset) == (schedule.rule, schedule.fires_all, later)
        if known.state == "live" and verb != "pause" and old.fires_all and stays:
            # Its instants are the same, and each has a run of its own: those that are due could only wait as one.
            settled: list[Settled] = []
            current, done_until, next_at = known, known.done_until, known.next_at
        else:
            settled, current = _settled(known, old, now, offset)
            done_until = max(now - offset, reached(known.done_until, settled, current.queued))
            next_at = schedule.rule.next(done_until)
        queued, waits_for = current.queued, current.waits_for
        return self._request(
            known,
            verb=verb,
            operator=operator,
            note=note,
            state="done" if next_at is None and queued is None else "paused" if known.state == "paused" else "live",
            definition=_text(schedule),
            done_until=done_until,
            next_at=next_at,
            offset=later,
            settled=settled,
            queued=queued,
            waits_for=waits_for,
            agent=agent,
            data=data,
        )

    def _request(
        self,
        known: StoredSchedule,
        *,
        verb: ChangeVerb,
        operator: str,
        note: str | None,
        state: Any,
        definition: str,
        done_until: Microseconds,
        next_at: Microseconds | None,
        offset: Microseconds,
        settled: list[Settled],
        queued: Span | None = None,
        waits_for: str | None = None,
        agent: str | None = None,
        data: Any = ...,
    ) -> ChangeSchedule:
        return ChangeSchedule(
            self._app,
            known.name,
            verb,
            operator,
            known,
            agent or known.agent,
            known.origin,
            state,
            definition,
            done_until,
            known.data if data is ... else data,
            known.owner,
            note,
            next_at,
            None if next_at is None else next_at + offset,
            settled,
            queued,
            waits_for,
        )

    def _removed(self, known: StoredSchedule, now: Microseconds, *, operator: str, note: str | None) -> ChangeSchedule:
        schedule = as_stored(known.definition)
        settled, current = _settled(known, schedule, now, schedule.offset(self._app, known.name))
        if current.queued is not None:
            settled.append(Settled("skipped", current.queued, f"removed by {operator}"))
        return self._request(
            known,
            verb="remove",
            operator=operator,
            note=note,
            state="removed",
            definition=known.definition,
            done_until=reached(known.done_until, settled, None),
            next_at=None,
            offset=0,
            settled=settled,
        )

    def _known(self, before: StoredSchedule | None, name: str) -> StoredSchedule:
        if before is None or before.state == "removed":
            message = f'app {self._app} has no schedule "{name}"'
            raise ConfigError(message)
        return before

    def _refuse_taken(self, before: StoredSchedule | None, name: str, origin: Origin) -> None:
        if before is None:
            return
        if before.state in {"live", "paused"}:
            message = f"app {self._app} has a schedule {name} already: edit it, or remove it first"
            raise ConfigError(message)
        if before.origin == "reminder" or (before.state == "done" and before.origin not in {"runtime", origin}):
            # Its history would be lost, or whoever it belongs to would find a stranger in its place.
            what = (
                "the id of a reminder" if before.origin == "reminder" else f"a schedule of {before.origin} that is done"
            )
            message = f"app {self._app}: {name} is {what}: use another name"
            raise ConfigError(message)

    def _refuse_unknown(self, agent: str) -> None:
        if self._agents is not None and agent not in self._agents:
            message = f'app {self._app} has no agent "{agent}".{did_you_mean(agent, self._agents)}'
            raise ConfigError(message)


def code_schedules(agents: Mapping[str, Declared]) -> dict[str, tuple[str, Schedule, str | None]]:
    """The schedules that agents declare, by name: its own, else that of its agent, with a number from the second on."""
    found: dict[str, tuple[str, Schedule, str | None]] = {}
    for agent in agents.values():
        number = 0
        for trigger in agent.triggers:
            if not isinstance(trigger, Schedule):
                continue
            number += trigger.name is None
            name = trigger.name or (agent.name if number == 1 else f"{agent.name}-{number}")
            if name in found:
                message = f"agent {agent.name}: schedule {name} is there already, of agent {found[name][0]}: give it another name="
                raise ConfigError(message)
            found[name] = (agent.name, trigger, agent.options.owner)
    return found


def refuse_own(agent: str) -> None:
    """ConfigError for an agent of Wakeful's own: it takes nothing that a schedule could give it."""
    if agent.startswith(OWN_AGENTS):
        message = f"agent {agent} is Wakeful's own: no schedule wakes it"
        raise ConfigError(message)


def refuse_name(name: Any) -> None:
    """ConfigError for a name that cannot be written in a path, or on a command line."""
    if (
        not isinstance(name, str)
        or not name.strip()
        or name != name.strip()
        or not name.isprintable()
        or "/" in name
        or len(name) > NAME_LIMIT
    ):
        message = f"a schedule's name is printable text of at most {NAME_LIMIT} characters, without /, not {name!r:.80}"
        raise ConfigError(message)


def _settled(
    known: StoredSchedule, schedule: Schedule, now: Microseconds, offset: Microseconds
) -> tuple[list[Settled], StoredSchedule]:
    """What becomes of all that is due, for somebody who cannot fire; and the schedule as it is after that."""
    if known.state == "paused":
        return _skipped(known, schedule, now - offset)
    settled, current = [], known
    if isinstance(schedule.rule, Unreadable):  # no more is known than the one that stands there
        if known.next_at is not None and known.next_at <= now:
            settled.append(Settled("missed", Span(known.next_at, known.next_at, 1), schedule.describe()))
        return settled, replace(known, next_at=None)
    while known.state == "live" and (verdict := judge(schedule, current, now, offset)) is not None:
        put_off(verdict)
        settled += verdict.settled
        moved = verdict.next_at != current.next_at
        current = replace(
            current, next_at=verdict.next_at, queued=verdict.queued, waits_for=verdict.waits_for, open_run=None
        )
        if not moved or verdict.next_at is None or verdict.next_at > now - offset:
            break
    return settled, current


def _skipped(known: StoredSchedule, schedule: Schedule, until: Microseconds) -> tuple[list[Settled], StoredSchedule]:
    """What was due while it was paused, and how the schedule stands then. What waited before that goes with it: later ones are over."""
    settled: list[Settled] = []
    upcoming = known.next_at
    while upcoming is not None and upcoming <= until:
        last = schedule.rule.previous(until + 1) or upcoming
        count, seen = schedule.rule.count(upcoming, last, 1_000_000)
        settled.append(Settled("skipped", Span(upcoming, seen, max(1, count)), f"paused by {known.changed_by}"))
        upcoming = schedule.rule.next(seen)
    if not settled or known.queued is None:
        return settled, replace(known, next_at=upcoming)
    waited = Settled("skipped", known.queued, f"paused by {known.changed_by} while the run before it was not over")
    return [waited, *settled], replace(known, next_at=upcoming, queued=None, waits_for=None)


def _text(schedule: Schedule) -> str:
    return to_json(schedule.definition()).decode()


def _written(data: Any) -> str | None:
    return None if data is None else to_json(data).decode()
