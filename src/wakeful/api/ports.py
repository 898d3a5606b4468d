"""The interfaces that the HTTP API needs: a door for events, a reader of the store, the store's verbs, and the agents
that the app declares.

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


class DoorPort(Protocol):
    """Accepts all events."""

    async def accept(
        self,
        events: list[Event],
        *,
        idempotency: tuple[str, str] | None = None,
        agent: str | None = None,
        by: By = "outside",
        sent: SentBy | None = None,
    ) -> list[Receipt]:
        """Store events durably, all or none, and return a receipt for each in the same order.

        Raises ReservedName if an event has a name that senders of kind `by` may not use. `idempotency` is the client's
        key and a digest of its request: the same pair gets the same answer again, the same key with another digest
        raises IdempotencyConflict. After StoreUnavailable the events may or may not be stored. `agent` addresses one
        agent instead of routing.
        """
        ...


class ResultsPort(Protocol):
    """Waits for runs to end."""

    async def wait(self, runs: Collection[str], limit: Microseconds | None, /) -> Ends:
        """How these runs ended: returns once all have ended, or after `limit` with those that have."""
        ...


class WebhooksPort(Protocol):
    """The webhooks of the server's app."""

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The endpoints by path."""
        ...

    def refuse_flood(self, endpoint: Endpoint, /) -> None:
        """Raises TooFast while the rate of the endpoint is used up."""
        ...

    def refuse(self, endpoint: Endpoint, /) -> None:
        """Count a refused request."""
        ...

    async def take(
        self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes, query: str, /
    ) -> list[Receipt] | Answer:
        """Verify a request and store its events; returns after the commit. Raises Refused, TooFast, CannotVerify or
        StoreUnavailable.
        """
        ...


class AgentsPort(Protocol):
    """The agents that the app's code declares."""

    @property
    def name(self) -> str:
        """The app's name."""
        ...

    def refuse_unknown(self, agent: str, /) -> None:
        """Raises NotFound for an agent that the app does not have."""
        ...

    def written_at(self, agent: str, /) -> str | None:
        """The place of an agent in the code, or None if the app has no such agent."""
        ...

    def refuse_misfit(self, agent: str, data: Any, /) -> bool:
        """Raises InvalidData for data that the agent cannot take; False if the app has no such agent."""
        ...

    def refuse_misfit_state(self, agent: str, text: str | None, /) -> None:
        """Raises NotFound for an agent without state, InvalidState for a state that its next run could not read."""
        ...
