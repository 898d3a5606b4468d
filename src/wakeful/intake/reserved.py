"""Reserved names: a source with its own way in accepts its events only that way.

    webhook, file, bucket, row, queue ──(its own way: verified, or read)──► accept
    POST /v1/events, wakeful emit, app.emit ──► the same source? ReservedName ──► nothing is stored

Otherwise anyone who may send events could pose as a signed sender: wake its agents, and make the real delivery a
duplicate. The names are known before an event comes: the app's own code declares them, and the store knows those of
processes with other code, such as a program that only emits. A check is one lookup in a set; the store is read at most
once a minute.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic_core import from_json

from wakeful.errors import ReservedName, StoreUnavailable
from wakeful.intake.untrusted import shown
from wakeful.model import Event

# Who submits an event: anyone outside, the app itself for one of its runs, or the source whose name the event has.
By = Literal["outside", "app", "source"]

OWN_TYPES = "wakeful."
OWN_LENGTH = len(OWN_TYPES)
LEARN_EVERY = 60.0  # seconds
AGENT = "agent"


class ReservedNames:
    """The sources of one app that have their own way in."""

    def __init__(
        self,
        app: str,
        *,
        brought: Mapping[str, str] | None = None,
        agents: Iterable[str] = (),
        stored: Callable[[], Awaitable[Sequence[Sequence[Any]]]] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`brought`: the names that this process declares, each with its trigger. `stored` reads what other processes
        declared: (name, kind, names as JSON) of each source, (name, "agent", None) of each agent.
        """
        self._app = app
        self._declared = dict(brought or {})
        self._own = {f"/{app}/run", f"/{app}/checkins", *(self.of_agent(agent) for agent in agents)}
        self._beginning = f"/{app}/"
        self._families = (f"/{app}/schedules/", f"/{app}/alarms/")
        self._stored = stored
        self._now = now
        self._learnt_at: float | None = None
        self._brought = dict(self._declared)
        self._all = frozenset({*self._own, *self._brought})

    def of_agent(self, agent: str) -> str:
        """The source of the events that runs of an agent emit."""
        return f"/{self._app}/{agent}"

    async def learn(self) -> None:
        """Read the names that other processes declared."""
        if self._stored is None:
            return
        self._learnt_at = self._now()
        brought, agents = {}, []
        for name, kind, brings in await self._stored():
            if kind == AGENT:
                agents.append(self.of_agent(name))
                continue
            for source in from_json(brings) if brings else [name]:
                brought[source] = f"{kind} {name}"
        self._brought = {**brought, **self._declared}
        self._all = frozenset({*self._own, *agents, *self._brought})

    @property
    def are_old(self) -> bool:
        """Whether it is time to read them again."""
        return self._learnt_at is not None and self._now() - self._learnt_at > LEARN_EVERY

    async def learn_again(self) -> None:
        """Read the names again. While the store is unavailable they stay as they are."""
        with contextlib.suppress(StoreUnavailable):
            await self.learn()

    def refuse(self, events: Sequence[Event], by: By = "outside") -> None:
        """Raise ReservedName for the first event whose name it may not use. An app's own runs may use the app's own
        names.
        """
        wrong = None
        if by == "outside":  # the hot path of intake
            names, families, own, length = self._all, self._families, self._beginning, len(self._beginning)
            for event in events:
                source = event.source
                if (
                    source in names
                    or (source[:length] == own and source.startswith(families))
                    or event.type[:OWN_LENGTH] == OWN_TYPES
                ):
                    wrong = event
                    break
        elif by == "app":
            wrong = next((event for event in events if event.source in self._brought), None)
        if wrong is not None:
            raise self._refusal(wrong, events.index(wrong) if len(events) > 1 else None)

    def owner_of(self, source: str) -> str | None:
        """What brings the events of a source, in words; None if the source is not reserved."""
        if source in self._brought:
            return self._brought[source]
        return f"app {self._app} itself" if source in self._all or source.startswith(self._families) else None

    def _refusal(self, event: Event, index: int | None) -> ReservedName:
        owner = self.owner_of(event.source)
        if owner is None:
            message = (
                f'type {shown(event.type)} is reserved: types that begin with "{OWN_TYPES}" are for Wakeful\'s own events. '
                "Give this event another type"
            )
            return ReservedName(message, field="type", index=index)
        if event.source in self._brought:
            message = (
                f"source {shown(event.source)} is reserved: its events come only through {owner}. Send it there, or give this event "
                "a source of its own"
            )
        else:
            message = (
                f"source {shown(event.source)} is reserved: its events come only from {owner} (agents, schedules, alarms, "
                "check-ins, runs that are started by hand). Give this event a source of its own"
            )
        return ReservedName(message, field="source", index=index)
