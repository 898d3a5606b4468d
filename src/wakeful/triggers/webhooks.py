"""All webhooks of an app, as one process serves them: verified, stored, answered; what is not is kept and counted.

    request ──► verify ──► challenge? ──► event ──► the door ──► receipts, after the commit
                  │                         └─ cannot be read ──► quarantine ──► receipt "quarantined"
                  └─ Refused ──► counted; kept too, while strangers have not used up their allowance ──► 401

Counts are told to the store every few seconds and at the end, never by a request of their own.
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
SAY_THAT_IT_LIVES_EVERY = 30.0
# Strangers must not be able to fill the disk: so much of what cannot be verified is kept of each path, and by each process. All of it
# together has a ceiling (stores/verbs/quarantine_room.py).
KEPT_OF_STRANGERS = Rate(100, 3600 * SECOND)
LARGEST_OF_STRANGERS = 64 * 1024  # bytes of the body and of the headers that are kept


class TooFast(WakefulError):
    """More than the rate of the endpoint allows: to be sent again after so many seconds."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class CannotVerify(WakefulError):
    """A request that could be genuine, but what it takes to tell is missing here: the sender is to try again later."""


class WebhookDoor(Protocol):
    """Where events go in."""

    async def accept(self, events: list[Event], *, aliases: Aliases = (), by: By) -> list[Receipt]: ...


@dataclass(slots=True)
class Counts:
    """What came since the store was told last."""

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
    """The headers of a request that quarantine keeps: those that verification and routing read. A verifier that does not declare them
    gets all but the credentials for a request that it verified, and only those that every endpoint reads for any other.
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
        """`process` is the identity of this process among the others; empty while it has none. `ceiling`: so many bytes the store
        keeps of requests that could not be verified, the newest.
        """
        super().__init__()
        self.endpoints = endpoints
        self._app = app
        self._door = door
        self._store = store
        self._clock = clock
        self._process = process
        self._ceiling = ceiling
        self._served_as = ""  # the process by whose name others know that these are served
        self._counts = {path: Counts() for path in endpoints}
        self._strangers = {path: Allowance(KEPT_OF_STRANGERS) for path in endpoints}
        self._entered = False
        self._said_at = 0.0

    def open(self) -> None:
        """Reveal every secret once, so that a missing one is heard of at the start."""
        for one in self.endpoints.values():
            one.verifier.open(one.place)

    # requests

    def refuse_flood(self, endpoint: Endpoint) -> None:
        """TooFast, before anything of the request is read, while the allowance is used up."""
        if endpoint.allowance is not None and (wait := endpoint.allowance.wait(self._clock.now())):
            raise self._too_fast(endpoint, wait)

    def refuse(self, endpoint: Endpoint) -> None:
        """Count one that was turned away."""
        self._counts[endpoint.path].refused += 1

    async def take(
        self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes, query: str = ""
    ) -> list[Receipt] | Answer:
        """Verify a request and store what it says; the receipts, or what the sender must hear instead. Refused, TooFast,
        CannotVerify or StoreUnavailable say why not.
        """
        if not self.runs:  # a program that mounts the app has no other moment to say that it serves
            await self.start()
        request = WebhookRequest(endpoint.path, headers, body, self._clock.now(), query)
        await self._verify(endpoint, request)
        try:
            if (challenge := endpoint.challenge(request)) is not None:
                return challenge
            # Only what is genuine uses the allowance up: strangers cannot take it from the sender.
            if endpoint.allowance is not None and not endpoint.allowance.take(request.received_at):
                raise self._too_fast(endpoint, endpoint.allowance.wait(request.received_at))
            brought = endpoint.read(request)
        except InvalidEvent as error:
            return [await self._keep(endpoint, request, str(error), "unreadable")]
        if not brought:
            return []
        # Other names are those of the request, and a request that has some brings one event.
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
        except ConfigError as error:  # a secret that is gone: not the sender's fault
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
        if size <= LARGEST_OF_STRANGERS and self._strangers[endpoint.path].take(request.received_at):
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
        return TooFast(f"{endpoint.place}: more than its rate", wait=wait / 1_000_000)

    def read_again(
        self, source: str, raw: bytes, headers: Mapping[str, str], received_at: Microseconds, *, trust: bool
    ) -> list[tuple[Event, Aliases]]:
        """The events of a request in quarantine, with their other names, after a fix. It is verified again, as of when it came,
        unless somebody trusts it. Raises what is still wrong with it.
        """
        endpoint = self.endpoints.get(source)
        if endpoint is None:
            message = f'app {self._app} has no webhook "{source}".{did_you_mean(source, self.endpoints)}'
            raise NotFound(message)
        # What was not kept is not there: else all that came with a credential would have it for an id.
        request = WebhookRequest(endpoint.path, without_hidden(headers), raw, received_at)
        if not trust:
            endpoint.verifier.verify(request)
        return [(one.event, one.aliases) for one in endpoint.read(request)]

    # counts

    async def run_once(self) -> float | None:
        """Tell the store what came, or now and then that somebody still listens."""
        if not self.endpoints:
            return None
        if not self._entered:
            brings = {path: [one.source] for path, one in self.endpoints.items()}
            known = [(path, KIND) for path in self.endpoints]
            await self._store.do(EnterSources(self._app, known, brings=brings))
            self._entered = True
        await self._serve()
        silent = time.monotonic() - self._said_at > SAY_THAT_IT_LIVES_EVERY
        for path in self.endpoints:
            if silent or self._counts[path]:
                await self._tell(path, "reading")
        if silent:
            self._said_at = time.monotonic()
        return TELL_EVERY

    async def _serve(self) -> None:
        """Say who serves: the death of this process is then known by its lease, and not only by its silence. One that was declared
        dead by others serves on under a new identity.
        """
        process = self._process()
        if process and process != self._served_as:
            await self._store.do(ServeSources(self._app, list(self.endpoints), process))
            self._served_as = process

    async def stop(self) -> None:
        """Nobody listens here any more; another server that does says so again."""
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
        """End without a word, as a killed process does. For tests."""
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
