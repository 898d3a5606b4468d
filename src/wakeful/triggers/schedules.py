"""Creates and changes the schedules of an app: for the app's own code at start, people, agents and heartbeat files.

An edit neither loses nor duplicates an occurrence: occurrences due by the old definition are recorded or queued in the same
change, and the new definition begins after them. Each change is recorded and has a revision.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pydantic_core import from_json

from wakeful.clock import Microseconds, to_text
from wakeful.errors import ConfigError, StoreUnavailable, did_you_mean
from wakeful.intake.cloudevents import new_event
from wakeful.intake.matching import fits
from wakeful.model import OWN_AGENTS, Arrival, Event, Receipt
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.tampered import refuse_tampered
from wakeful.stores.timing import Origin, StoredSchedule, reached
from wakeful.stores.verbs.accept import AcceptEvents
from wakeful.stores.verbs.schedules import (
    ChangeSchedule,
    ChangeVerb,
    FireSchedule,
    asked_by,
    find_schedule,
    next_schedule,
    schedules_of,
)
from wakeful.triggers.schedule import NAME_LIMIT, TYPE, Schedule, as_stored, read_definition
from wakeful.triggers.schedule_changes import (
    change_request,
    data_text,
    definition_text,
    edit_schedule,
    make_schedule,
    remove_schedule,
    skip_due,
)
from wakeful.triggers.scheduler import source_of

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

R = TypeVar("R")

CODE = Actor("code", "code")
# Prefix of the ids of events fired by hand: the id of an occurrence never begins like this.
BY_HAND = "by-hand-"
# Retries while other processes change the schedule at the same time.
MOST_TRIES = 20
AT_ONCE = 200


class DeclaresSchedules(Protocol):
    """The parts of an agent that schedules read."""

    @property
    def name(self) -> str: ...
    @property
    def triggers(self) -> Sequence[Any]: ...
    @property
    def options(self) -> Any: ...


class Schedules:
    """Creates and changes the schedules of one app."""

    def __init__(
        self,
        app: str,
        store: DatabaseStore,
        *,
        arrive: Callable[[Event, str], Arrival] | None = None,
        agents: Collection[str] | None = None,
        decide: Callable[[str], Awaitable[None]] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._store = store
        self._arrive = arrive
        self._agents = agents  # None: the app's agents are not known here
        self._decide = decide  # None: this process cannot fire
        self._changed = changed

    # reading

    async def all(self) -> list[StoredSchedule]:
        """Every schedule, removed ones included, by name."""
        return await schedules_of(self._store.database, self._app)

    async def find(self, name: str) -> StoredSchedule | None:
        return await find_schedule(self._store.database, self._app, name)

    async def get(self, name: str) -> StoredSchedule:
        """Like `find`; raises ConfigError, with a suggestion, if there is none."""
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
        """Create a schedule. Raises ConfigError if the name is taken or the agent is unknown."""
        self._refuse_unknown(agent)
        if origin == "runtime":
            refuse_own(agent)

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            self._refuse_taken(before, name, origin)
            return make_schedule(
                self._app,
                name,
                schedule,
                agent,
                before,
                now,
                data=data,
                origin=origin,
                owner=owner,
                operator=by.name,
                note=note,
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
        """Change its definition, data, agent or owner. Occurrences due by the old definition come first. A paused schedule stays
        paused. A function gets the definition at the time of the change and returns the new one: if two callers change different
        parts at once, neither undoes the other's change.
        """
        if agent is not None:
            self._refuse_unknown(agent)
            refuse_own(agent)

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            known = self._known(before, name)
            wanted = schedule(as_stored(known.definition)) if callable(schedule) else schedule
            request = edit_schedule(
                self._app,
                known,
                wanted or read_definition(from_json(known.definition)),
                now,
                agent=agent or known.agent,
                data=known.data if data is ... else data_text(data),
                operator=by.name,
                note=note,
                verb=verb,
            )
            request.owner = known.owner if owner is ... else owner
            return request

        await self._decide_first(name)
        return await self._change(name, change, by)

    async def pause(self, name: str, *, by: Actor, note: str | None = None) -> StoredSchedule:
        """Fire nothing until it is resumed. Occurrences that wait for a run are fired after that, unless further occurrences came
        due during the pause: then they are skipped with those.
        """

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            known = self._known(before, name)
            if known.state != "live":
                message = f"schedule {name} is {known.state}"
                raise ConfigError(message)
            schedule = read_definition(from_json(known.definition))
            request = edit_schedule(
                self._app,
                known,
                schedule,
                now,
                agent=known.agent,
                data=known.data,
                operator=by.name,
                note=note,
                verb="pause",
            )
            request.state = "paused"
            return request

        await self._decide_first(name)
        return await self._change(name, change, by)

    async def resume(self, name: str, *, by: Actor, note: str | None = None) -> StoredSchedule:
        """Fire again from now on. Occurrences that came due during the pause are skipped."""

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            known = self._known(before, name)
            if known.state != "paused":
                message = f"schedule {name} is not paused: it is {known.state}"
                raise ConfigError(message)
            schedule = read_definition(from_json(known.definition))
            offset = schedule.offset(self._app, name)
            records, after = skip_due(known, schedule, now - offset)
            return change_request(
                self._app,
                known,
                verb="resume",
                operator=by.name,
                note=note,
                state="live" if after.next_at is not None or after.queued is not None else "done",
                definition=known.definition,
                done_until=reached(known.done_until, records, after.queued),
                next_at=after.next_at,
                offset=offset,
                records=records,
                queued=after.queued,
                waits_for=after.waits_for,
            )

        return await self._change(name, change, by)

    async def remove(
        self, name: str, *, by: Actor, note: str | None = None, bulk: Bulk | None = None
    ) -> StoredSchedule:
        """Stop it for good. Its history stays."""

        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule:
            return remove_schedule(self._app, self._known(before, name), now, operator=by.name, note=note)

        return await self._change(name, change, by, bulk)

    # changes that are stored together with something else

    async def plan(
        self, name: str, schedule: Schedule, agent: str, *, data: Any, owner: str | None, operator: str
    ) -> tuple[StoredSchedule | None, ChangeSchedule | None]:
        """The stored schedule, and the request that would bring it to this state; None if it is already so."""
        before, now = await self._now(name)
        if before is None or before.state in {"removed", "done"}:
            made = make_schedule(
                self._app,
                *(name, schedule, agent, before, now),
                data=data,
                origin="runtime",
                owner=owner,
                operator=operator,
                note=None,
            )
            return before, made
        if (before.definition, before.agent, before.data) == (definition_text(schedule), agent, data_text(data)):
            return before, None
        request = edit_schedule(
            self._app,
            before,
            schedule,
            now,
            agent=agent,
            data=data_text(data),
            operator=operator,
            note=None,
            verb="edit",
        )
        request.owner = owner
        return before, request

    async def plan_removal(self, name: str, *, operator: str) -> tuple[StoredSchedule | None, ChangeSchedule | None]:
        """The stored schedule, and the request that would remove it; None if it does not exist."""
        before, now = await self._now(name)
        if before is None or before.state == "removed":
            return before, None
        return before, remove_schedule(self._app, before, now, operator=operator, note=None)

    def tell_changed(self) -> None:
        """Call this when a planned request has been stored."""
        self._changed()

    async def _now(self, name: str) -> tuple[StoredSchedule | None, Microseconds]:
        before = await find_schedule(self._store.database, self._app, name)
        now, _ = await next_schedule(self._store.database, self._app)
        return before, now

    async def fire(self, name: str, *, by: Actor, note: str | None = None) -> Receipt:
        """Fire it now, in addition to its occurrences. Needs the app's agents: only they know what an event starts."""
        if self._arrive is None:
            message = f"schedule {name}: only a process that has the app can fire it"
            raise ConfigError(message)
        stored = await self.get(name)
        if stored.data is not None:
            refuse_tampered(stored.data)
        now, _ = await next_schedule(self._store.database, self._app)
        event = new_event(
            TYPE,
            None if stored.data is None else from_json(stored.data),
            source=source_of(self._app, name),
            id=f"{BY_HAND}{to_text(now)}-{secrets.token_hex(4)}",  # two at the same moment stay two
            scheduledfor=to_text(now),
            coveredfrom=to_text(now),
            coveredcount=1,
        )
        accept = AcceptEvents(self._app, [self._arrive(event, stored.agent)], matches=fits)
        fired = await self._store.do(FireSchedule(stored, now, accept, by=by, note=note))
        return fired.receipts[0]

    # the app's own

    async def enter(self, agents: Mapping[str, DeclaresSchedules]) -> None:
        """Store the schedules that the code declares: add new ones, edit changed ones, remove those it no longer declares."""
        declared = code_schedules(agents)
        stored = {one.name: one for one in await self.all()}
        entering = []
        for name, (agent, schedule, owner) in declared.items():
            known = stored.get(name)
            if known is not None and known.origin != "code" and known.state != "removed":
                message = f"schedule {name} of agent {agent} was also created at run time, for agent {known.agent}: give it another name="
                raise ConfigError(message)
            if known is None or (known.definition, known.agent, known.owner, known.state == "removed") != (
                definition_text(schedule),
                agent,
                owner,
                False,
            ):
                entering.append((name, agent, schedule, owner))
        for first in range(0, len(entering), AT_ONCE):  # concurrent changes share commits
            await asyncio.gather(*(self._enter(*one) for one in entering[first : first + AT_ONCE]))
        for name, known in stored.items():
            gone = known.origin == "code" and name not in declared and known.state != "removed"
            if gone and known.agent in agents:  # schedules of agents that this process does not have are left alone
                await self._leave(name)

    async def _enter(self, name: str, agent: str, schedule: Schedule, owner: str | None) -> None:
        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule | None:
            if before is not None and (before.definition, before.agent, before.owner, before.state == "removed") == (
                definition_text(schedule),
                agent,
                owner,
                False,
            ):
                return None  # another process was first
            if before is None or before.state in {"removed", "done"}:
                return make_schedule(
                    self._app,
                    name,
                    schedule,
                    agent,
                    before,
                    now,
                    origin="code",
                    owner=owner,
                    operator=CODE.name,
                    note=None,
                )
            request = edit_schedule(
                self._app, before, schedule, now, agent=agent, data=None, operator=CODE.name, note=None, verb="edit"
            )
            request.owner = owner
            return request

        await self._decide_first(name)
        await self._change(name, change, CODE)

    async def _leave(self, name: str) -> None:
        def change(before: StoredSchedule | None, now: Microseconds) -> ChangeSchedule | None:
            if before is None or before.origin != "code" or before.state == "removed":
                return None  # another process was first
            return remove_schedule(self._app, before, now, operator=CODE.name, note="no longer in the code")

        await self._change(name, change, CODE)

    # one change

    async def _decide_first(self, name: str) -> None:
        """Fire due occurrences before a change if each has a run of its own: queued, they would become one."""
        if self._decide is None:
            return
        known = await find_schedule(self._store.database, self._app, name)
        if known is not None and known.state == "live" and as_stored(known.definition).fires_all:
            await self._decide(name)

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
        message = f"schedule {name} keeps being changed by other processes; try again"
        raise StoreUnavailable(message)

    def _known(self, before: StoredSchedule | None, name: str) -> StoredSchedule:
        if before is None or before.state == "removed":
            message = f'app {self._app} has no schedule "{name}"'
            raise ConfigError(message)
        return before

    def _refuse_taken(self, before: StoredSchedule | None, name: str, origin: Origin) -> None:
        if before is None:
            return
        if before.state in {"live", "paused"}:
            message = f"app {self._app} already has a schedule {name}: edit it, or remove it first"
            raise ConfigError(message)
        if before.origin == "reminder" or (before.state == "done" and before.origin not in {"runtime", origin}):
            # Its history would be lost, or its owner would find a different schedule in its place.
            what = (
                "the id of a reminder" if before.origin == "reminder" else f"a schedule of {before.origin} that is done"
            )
            message = f"app {self._app}: {name} is {what}: use another name"
            raise ConfigError(message)

    def _refuse_unknown(self, agent: str) -> None:
        if self._agents is not None and agent not in self._agents:
            message = f'app {self._app} has no agent "{agent}".{did_you_mean(agent, self._agents)}'
            raise ConfigError(message)


def code_schedules(agents: Mapping[str, DeclaresSchedules]) -> dict[str, tuple[str, Schedule, str | None]]:
    """The schedules that agents declare, by name: the declared name, else the agent's, numbered from the second on."""
    found: dict[str, tuple[str, Schedule, str | None]] = {}
    for agent in agents.values():
        number = 0
        for trigger in agent.triggers:
            if not isinstance(trigger, Schedule):
                continue
            number += trigger.name is None
            name = trigger.name or (agent.name if number == 1 else f"{agent.name}-{number}")
            if name in found:
                message = (
                    f"agent {agent.name}: agent {found[name][0]} already has a schedule {name}: give it another name="
                )
                raise ConfigError(message)
            found[name] = (agent.name, trigger, agent.options.owner)
    return found


def refuse_own(agent: str) -> None:
    """Raise ConfigError for a built-in agent: a schedule has nothing to give it."""
    if agent.startswith(OWN_AGENTS):
        message = f"agent {agent} is built into Wakeful: schedules cannot wake it"
        raise ConfigError(message)


def refuse_name(name: Any) -> None:
    """Raise ConfigError for a name that cannot be written in a path or on a command line."""
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
