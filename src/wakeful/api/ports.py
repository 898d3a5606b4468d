"""What the HTTP side asks of the rest: a door to hand events in at, the verbs by which people
change it, and what the app's code says of its agents.

All are protocols, so that the API can be tested and run without a store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from wakeful.clock import Microseconds
from wakeful.execution.results import Ends
from wakeful.intake.reserved import By
from wakeful.model import Event, Receipt
from wakeful.stores.verbs.sending import SentBy
from wakeful.triggers.endpoint import Endpoint
from wakeful.triggers.verifier import Answer

Shown = dict[str, Any]


class Door(Protocol):
    """The one door that events come in by."""

    async def accept(
        self,
        events: list[Event],
        *,
        idempotency: tuple[str, str] | None = None,
        agent: str | None = None,
        by: By = "outside",
        sent: SentBy | None = None,
    ) -> list[Receipt]:
        """Store events durably, all or none, and answer for each in the same order. ReservedName if one of them has a name that
        is not for those `by` whom it comes.

        `idempotency` is the client's key and a digest of its request: the same pair gets the same answer again, the same
        key with another digest raises IdempotencyConflict. StoreUnavailable means that it is not known whether they are stored.
        `agent` addresses one agent instead of routing.
        """
        ...


class Results(Protocol):
    """Waits for runs."""

    async def wait(self, runs: Collection[str], limit: Microseconds | None, /) -> Ends:
        """How these runs ended, as soon as all of them have, or as far as they have after `limit`."""
        ...


class Webhooks(Protocol):
    """The webhooks of the server's app."""

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """By path."""
        ...

    def refuse_flood(self, endpoint: Endpoint, /) -> None:
        """TooFast, while the rate of the endpoint is used up."""
        ...

    def refuse(self, endpoint: Endpoint, /) -> None:
        """Count a request that was turned away."""
        ...

    async def take(
        self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes, query: str, /
    ) -> list[Receipt] | Answer:
        """Verify a request and store what it says; answers after the commit. Refused, TooFast, CannotVerify or StoreUnavailable
        say why not.
        """
        ...


class Agents(Protocol):
    """What the code of the app says of its agents."""

    @property
    def name(self) -> str:
        """The app's name."""
        ...

    def refuse_unknown(self, agent: str, /) -> None:
        """Raises NotFound for an agent that the app does not have."""
        ...

    def written_at(self, agent: str, /) -> str | None:
        """Where in the code an agent is; None if it has none of that name."""
        ...

    def refuse_misfit(self, agent: str, data: Any, /) -> bool:
        """Raises InvalidData for data that the agent cannot take; False if there is no such agent to ask."""
        ...

    def refuse_misfit_state(self, agent: str, text: str | None, /) -> None:
        """Raises NotFound for an agent without a state, InvalidState for a state that its next run could not read."""
        ...
