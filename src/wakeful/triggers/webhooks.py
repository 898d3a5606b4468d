"""All webhooks of an app, as one process serves them: requests are verified, stored and answered; others are kept and counted.

    request ──► verify ──► challenge? ──► event ──► intake ──► receipts, after the commit
                  │                         └─ unreadable ──► quarantine ──► receipt "quarantined"
                  └─ Refused ──► counted; kept too, while the allowance for unverified requests lasts ──► 401

Counts are written to the store every few seconds and at the end, never with a statement for each request.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from wakeful.clock import SECOND, Clock, Microseconds
from wakeful.errors import ConfigError, InvalidEvent, NotFound, StoreUnavailable, WakefulError, did_you_mean
from wakeful.intake.quarantine import keep, without_hidden
from wakeful.intake.reserved import By
from wakeful.model import Event, Receipt
from wakeful.rate import Rate
from wakeful.service import Service
from wakeful.stored_errors import storable, words_of
from wakeful.stores.request import Doer
from wakeful.stores.verbs.sources import EnterSources, ReportSource, ServeSources
from wakeful.stores.verbs.take_in import QuarantineKind, TakeIn
from wakeful.triggers.allowance import Allowance
from wakeful.triggers.endpoint import ALWAYS_READ, Aliases, Endpoint
from wakeful.triggers.verifier import Answer, Refused, WebhookRequest

KIND = "webhook"
TELL_EVERY = 2.0
REPORT_ALIVE_EVERY = 30.0
# Unverified requests must not fill the disk: this many are kept for each path by each process. Their total size is limited too
# (stores/verbs/quarantine_room.py).
KEPT_UNVERIFIED = Rate(100, 3600 * SECOND)
LARGEST_UNVERIFIED = 64 * 1024  # bytes of body and kept headers


class TooFast(WakefulError):
    """More requests than the rate of the endpoint allows; the sender should retry after `wait` seconds."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class CannotVerify(WakefulError):
    """The request may be genuine, but a secret to verify it is missing here; the sender should retry later."""


class WebhookDoor(Protocol):
    """The intake of events."""

    async def accept(self, events: list[Event], *, aliases: Aliases = (), by: By) -> list[Receipt]: ...


@dataclass(slots=True)
class Counts:
    """What came since the last report to the store."""

    taken: int = 0
    repeated: int = 0
    refused: int = 0
    event_at: Microseconds | None = None

    def __bool__(self) -> bool:
        return bool(self.taken or self.refused)

    def add(self, earlier: Counts) -> None:
        self.taken += earlier.taken
        self.repeated += earlier.repeated
        self.refused += earlier.refused
        self.event_at = self.event_at or earlier.event_at


def kept_of(endpoint: Endpoint, request: WebhookRequest, kind: QuarantineKind) -> dict[str, str]:
    """The headers of a request that quarantine keeps: those that verification and routing read. If the verifier does not declare
    them: all but credentials for a verified request, and only those that every endpoint reads for any other.
    """
    wanted = endpoint.headers
    if wanted is None and kind == "unreadable":
        return dict(request.headers)
    return {name: value for name, value in request.headers.items() if name in (wanted or ALWAYS_READ)}


class Webhooks(Service):
    """The endpoints of one app in this process."""

    name = "webhooks"

    def __init__(
        self,
        app: str,
        endpoints: Mapping[str, Endpoint],
        door: WebhookDoor,
        store: Doer,
        clock: Clock,
        process: Callable[[], str] = str,
        ceiling: int | None = None,
    ) -> None:
        """`process` is the identity of this process among the others; empty while it has none. `ceiling`: the store keeps at most
        this many bytes of unverified requests, the newest.
        """
        super().__init__()
        self.endpoints = endpoints
        self._app = app
        self._door = door
        self._store = store
        self._clock = clock
        self._process = process
        self._ceiling = ceiling
        self._served_as = ""  # the process identity under which these are reported as served
        self._counts = {path: Counts() for path in endpoints}
        self._strangers = {path: Allowance(KEPT_UNVERIFIED) for path in endpoints}
        self._entered = False
        self._said_at = 0.0

    def open(self) -> None:
        """Resolve every secret once, so that a missing one is reported at start."""
        for one in self.endpoints.values():
            one.verifier.open(one.place)

    # requests

    def refuse_flood(self, endpoint: Endpoint) -> None:
        """Raise TooFast while the allowance is used up, before anything of the request is read."""
        if endpoint.allowance is not None and (wait := endpoint.allowance.wait(self._clock.now())):
            raise self._too_fast(endpoint, wait)

    def refuse(self, endpoint: Endpoint) -> None:
        """Count a request that was turned away."""
        self._counts[endpoint.path].refused += 1

    async def take(
        self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes, query: str = ""
    ) -> list[Receipt] | Answer:
        """Verify a request and store its events; returns the receipts, or the answer that the sender expects. Raises Refused,
        TooFast, CannotVerify or StoreUnavailable.
        """
        if not self.runs:  # in a program that mounts the app, this is the first sign that it serves
            await self.start()
        request = WebhookRequest(endpoint.path, headers, body, self._clock.now(), query)
        await self._verify(endpoint, request)
        try:
            if (challenge := endpoint.challenge(request)) is not None:
                return challenge
            # Only genuine requests use up the allowance: unverified ones cannot take it from the sender.
            if endpoint.allowance is not None and not endpoint.allowance.take(request.received_at):
                raise self._too_fast(endpoint, endpoint.allowance.wait(request.received_at))
            brought = endpoint.read(request)
        except InvalidEvent as error:
            return [await self._keep(endpoint, request, str(error), "unreadable")]
        if not brought:
            return []
        # Aliases belong to the request, and a request with aliases has one event.
        receipts = await self._door.accept([one.event for one in brought], aliases=brought[0].aliases, by="source")
        counts = self._counts[endpoint.path]
        counts.taken += len(receipts)
        counts.repeated += sum(one.status == "duplicate" for one in receipts)
        counts.event_at = request.received_at
        answer = brought[0].answer
        return receipts if answer is None else answer

    async def _verify(self, endpoint: Endpoint, request: WebhookRequest) -> None:
        try:
            endpoint.verifier.verify(request)
        except Refused as refused:
            reason = str(refused)
        except ConfigError as error:  # a secret has disappeared: not the sender's fault
            self.log.warning("a webhook cannot be verified", path=endpoint.path, reason=str(error))
            message = f"{endpoint.place}: a secret is missing"
            raise CannotVerify(message) from error
        except Exception as error:
            self.log.exception("a verifier failed", path=endpoint.path)
            reason = f"the verifier failed: {type(error).__name__}: {words_of(error)}"
        else:
            return
        self.refuse(endpoint)
        headers = kept_of(endpoint, request, "unverified")
        size = len(request.body) + sum(len(name) + len(value) for name, value in headers.items())
        if size <= LARGEST_UNVERIFIED and self._strangers[endpoint.path].take(request.received_at):
            with contextlib.suppress(StoreUnavailable):  # the answer is the same
                await self._keep(endpoint, request, reason, "unverified")
        raise Refused(reason)

    async def _keep(self, endpoint: Endpoint, request: WebhookRequest, reason: str, kind: QuarantineKind) -> Receipt:
        headers = kept_of(endpoint, request, kind)
        kept = keep(self._app, endpoint.source, request.body, storable(reason), kind=kind, headers=headers)
        taken = await self._store.do(TakeIn(self._app, endpoint.path, kept=[kept], ceiling=self._ceiling))
        self.log.warning("kept in quarantine", path=endpoint.path, id=kept.arrival.id, reason=reason)
        if taken.cutting:
            words = (
                "quarantine is full of unverified requests: the oldest are removed and counted, see `wakeful sources`"
            )
            self.log.warning(words, path=endpoint.path, ceiling=self._ceiling)
        return Receipt(endpoint.source, kept.arrival.id, "quarantined", [])

    def _too_fast(self, endpoint: Endpoint, wait: Microseconds) -> TooFast:
        self.refuse(endpoint)
        return TooFast(f"{endpoint.place}: rate exceeded", wait=wait / 1_000_000)

    def read_again(
        self, source: str, raw: bytes, headers: Mapping[str, str], received_at: Microseconds, *, trust: bool
    ) -> list[tuple[Event, Aliases]]:
        """The events of a request in quarantine, with their aliases, after a fix. The request is verified again as of its arrival,
        unless a person trusts it. Raises if it is still unverified or unreadable.
        """
        endpoint = self.endpoints.get(source)
        if endpoint is None:
            message = f'app {self._app} has no webhook "{source}".{did_you_mean(source, self.endpoints)}'
            raise NotFound(message)
        # Remove hidden headers: else all requests that came with a credential would get its placeholder as their id.
        request = WebhookRequest(endpoint.path, without_hidden(headers), raw, received_at)
        if not trust:
            endpoint.verifier.verify(request)
        return [(one.event, one.aliases) for one in endpoint.read(request)]

    # counts

    async def run_once(self) -> float | None:
        """Report the counts to the store, or from time to time that this process still serves."""
        if not self.endpoints:
            return None
        if not self._entered:
            brings = {path: [one.source] for path, one in self.endpoints.items()}
            known = [(path, KIND) for path in self.endpoints]
            await self._store.do(EnterSources(self._app, known, brings=brings))
            self._entered = True
        await self._serve()
        silent = time.monotonic() - self._said_at > REPORT_ALIVE_EVERY
        for path in self.endpoints:
            if silent or self._counts[path]:
                await self._tell(path, "reading")
        if silent:
            self._said_at = time.monotonic()
        return TELL_EVERY

    async def _serve(self) -> None:
        """Record which process serves: its death is then known from its lease, not only from its silence. A process that was
        declared dead continues to serve under a new identity.
        """
        process = self._process()
        if process and process != self._served_as:
            await self._store.do(ServeSources(self._app, list(self.endpoints), process))
            self._served_as = process

    async def stop(self) -> None:
        """Stop and report that this process no longer serves; another server reports for itself."""
        ran = self.runs
        await super().stop()
        if ran and self._entered:
            with contextlib.suppress(StoreUnavailable):
                if self._served_as:
                    gone, self._served_as = self._served_as, ""
                    await self._store.do(ServeSources(self._app, list(self.endpoints), gone, ends=True))
                for path in self.endpoints:
                    await self._tell(path, "idle")
        self._said_at = 0.0

    async def die(self) -> None:
        """Stop without reporting, like a killed process. For tests."""
        await super().stop()

    async def _tell(self, path: str, state: Literal["reading", "idle"]) -> None:
        counts, self._counts[path] = self._counts[path], Counts()
        try:
            await self._store.do(
                ReportSource(
                    self._app,
                    path,
                    state,
                    taken=counts.taken,
                    repeated=counts.repeated,
                    refused=counts.refused,
                    event_at=counts.event_at,
                )
            )
        except BaseException:
            self._counts[path].add(counts)
            raise
