"""A lane: delivers the messages of one channel, urgent ones or all others, one call after the other.

Delivered messages are stored as such together with taking the next ones. A crash between delivering and storing lets a message go out
twice, under the same id, if the other side knows it by that (`repeats="known"`). For all other channels the transaction that takes a
message stores that its call begins; the next process finds it in doubt.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from wakeful.clock import Microseconds, readable, seconds
from wakeful.errors import CancelledInside, ClaimLost
from wakeful.failures import classify
from wakeful.functions.call import call, within_lease
from wakeful.model import Delivery
from wakeful.output.channels.base import Channel, Message, Sent, handling_of
from wakeful.output.verdicts import Facts, after, arrived, arrived_before, look_later, unknown_after_crash
from wakeful.service import Service
from wakeful.stored_errors import words_of
from wakeful.stores.tampered import refuse_tampered
from wakeful.stores.verbs.circuits import StoredCircuit
from wakeful.stores.verbs.outbox import BeginDelivery, Delivered, Lane, WorkLane, first_delivery, lane_of

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

# Another process may own the lane and deliver our messages too. If it dies, or if a notification is lost, the lookout
# finds the rest within seconds. This is a further safety net.
LOOK_ANYWAY_EVERY = 300.0


class ChannelCircuits(Protocol):
    """The circuits that a lane reports the results of its channel to."""

    @property
    def knows_of_trouble(self) -> bool: ...

    async def report_channel(
        self, channel: str, error: BaseException | None, *, failed_before: bool = False
    ) -> StoredCircuit | None: ...


class ChannelLane(Service):
    """Delivers the messages of one channel, in order."""

    def __init__(
        self,
        app: str,
        name: str,
        channel: Channel,
        store: DatabaseStore,
        process: Callable[[], str],
        *,
        chance: Random,
        time_for_calls: Callable[[], float],
        urgent: bool = False,
        time_passes: bool = True,
        owners: Mapping[str, str | None] | None = None,
        circuits: ChannelCircuits | None = None,
    ) -> None:
        self.name = f"outbox {lane_of(name, urgent=urgent)}"
        super().__init__()
        self._urgent = urgent
        self._app = app
        self._channel_name = name
        self.channel = channel
        self._handling = handling_of(channel, where=f"channel {name}")
        self._store = store
        self._process = process
        self._chance = chance
        self._time_for_calls = time_for_calls
        self._time_passes = time_passes  # False under a virtual clock: the test that moves it says when to look
        self._owners = owners or {}
        self._circuits = circuits
        self._one_at_a_time = asyncio.Lock()
        self._token: int | None = None
        self._unsaved: list[Delivered] = []
        self._singly = 0  # how many messages are still taken one by one, after they could not be delivered together
        self._stopping = False
        self.delivered = 0

    async def run_once(self) -> float | None:
        """Deliver until nothing is due. Deliveries that could not be stored yet are stored first."""
        async with self._one_at_a_time:
            try:
                return await self._carry()
            except ClaimLost as error:
                self.log.warning("another process owns this channel now", error=str(error))
                return LOOK_ANYWAY_EVERY if self._time_passes else None

    async def _carry(self) -> float | None:
        if self._token is None:
            wait = await first_delivery(self._store.database, self._app, self._channel_name, urgent=self._urgent)
            if wait is None or wait > 0:
                return self._rest(wait)
        while True:
            lane = await self._work()
            if lane.busy:
                return LOOK_ANYWAY_EVERY if self._time_passes else None
            if not lane.deliveries and not lane.lost:
                self._singly = 0
                return self._rest(lane.next_due)
            self._unsaved = await self._deliver(lane.deliveries)

    def _rest(self, wait: Microseconds | None) -> float | None:
        if not self._time_passes:
            return None
        return LOOK_ANYWAY_EVERY if wait is None else min(LOOK_ANYWAY_EVERY, max(0.001, seconds(wait)))

    async def finish(self, grace: float) -> None:
        """Take no further message, let a delivery in flight finish within `grace` seconds, and stop."""
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace), self._one_at_a_time:
                pass
        await self.stop()

    async def close(self) -> None:
        """Close the channel. If it fails or hangs, that does not keep other parts from closing."""
        try:
            await call(self.channel.close, (), {}, what=self.name, limit=self._handling.timeout)
        except Exception as error:
            self.log.warning("the channel did not close", error=f"{type(error).__name__}: {words_of(error)}")

    async def _work(self) -> Lane:
        most = 0 if self._stopping else 1 if self._singly else self._handling.most
        request = WorkLane(
            self._app,
            self._channel_name,
            self._process(),
            most,
            self._token,
            self._unsaved,
            self._urgent,
            self._handling.begins,
        )
        try:
            lane = await self._store.do(request)
        except ClaimLost:  # this process was declared dead: another one owns the lane and delivers all of it again
            self._token, self._unsaved, self._singly = None, [], 0
            raise
        self._token, self._unsaved = lane.token, []
        return lane

    async def _deliver(self, deliveries: Sequence[Delivery]) -> list[Delivered]:
        """Deliver all at once. If that fails and there are several, each is taken again and delivered by itself, up to the first that
        must wait: what is halted meanwhile is not taken.
        """
        if not deliveries:
            return []
        self._singly = max(0, self._singly - 1)
        first = deliveries[0]
        if first.doubt_at is not None and (settled := await self._settle(first)) is not None:
            return settled
        answered = await self._hand_over(deliveries)
        if not isinstance(answered, BaseException):
            await self._went_out(deliveries)
            return [arrived(one, self._facts, sent) for one, sent in zip(deliveries, answered, strict=True)]
        if len(deliveries) == 1:
            return [await self._after(first, answered)]
        self._singly = len(deliveries)
        return []

    async def _settle(self, delivery: Delivery) -> list[Delivered] | None:
        """Find out about a delivery that may have arrived. None: it is to be delivered (again)."""
        handling = self._handling
        if handling.repeats == "doubt":
            return [unknown_after_crash(delivery, self._facts)] if handling.on_doubt == "hold" else None
        if handling.repeats == "known":  # the app's code says so by now; the call before it was made by other code
            return None
        later = look_later(delivery, self._handling.settle)
        if later is not None:
            return [later]
        found = await self._call(self.channel.find, (self._message_of(delivery),), [delivery])
        if isinstance(found, BaseException):
            return [await self._after(delivery, found, called=False)]
        if found is not None:
            await self._went_out([delivery])
            return [arrived_before(delivery, self._facts, found if isinstance(found, Sent) else None)]
        token = self._token
        begins = token is not None and await self._store.do(
            BeginDelivery(
                self._app, lane_of(self._channel_name, urgent=self._urgent), self._process(), token, delivery.seq
            )
        )
        return None if begins else []

    async def _hand_over(self, deliveries: Sequence[Delivery]) -> BaseException | list[Sent | None]:
        """What the other side answered to each, or the error."""
        answered = await self._call(self.channel.deliver, ([self._message_of(one) for one in deliveries],), deliveries)
        if isinstance(answered, BaseException):
            return answered
        self.delivered += len(deliveries)
        if isinstance(answered, list | tuple) and len(answered) == len(deliveries):
            return [one if isinstance(one, Sent) else None for one in answered]
        if answered is not None:
            self.log.warning(
                "the channel's answer is not used: `deliver` returns one Sent for each message, or None",
                answered=type(answered).__name__,
            )
        return [None] * len(deliveries)

    def _message_of(self, one: Delivery) -> Message:
        return Message(
            one.id,
            self._channel_name,
            from_json(one.message),
            one.subject,
            self._app,
            one.agent,
            one.run,
            one.committed_at,
            one.tries + 1,
            one.envelope,
            one.thread,
            one.urgent,
            doubtful=one.doubt_at is not None and self._handling.repeats == "doubt",
        )

    async def _call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], deliveries: Sequence[Delivery]
    ) -> Any:
        """Call the channel within its time limit and the lease. Returns its answer or its error."""
        what = f"channel {self._channel_name}"
        try:
            for one in deliveries:
                refuse_tampered(one.message)
                refuse_tampered(one.envelope)
            made = call(function, arguments, {}, what=what)
            return await within_lease(made, self._handling.timeout, self._time_for_calls, what=what)
        except (KeyboardInterrupt, SystemExit):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling() > 0:
                raise
            failure = CancelledInside(f"{what} was cancelled from inside")
            failure.__cause__ = error
            return failure
        except BaseException as error:
            return error

    async def _went_out(self, deliveries: Sequence[Delivery]) -> None:
        """Report success to the circuit, if it knows of failures: from this process, or from the lane's previous owner."""
        circuits = self._circuits
        if circuits is not None:
            failed_before = any(one.error is not None for one in deliveries)
            if failed_before or circuits.knows_of_trouble:
                await circuits.report_channel(self._channel_name, None, failed_before=failed_before)

    async def _after(self, delivery: Delivery, error: BaseException, *, called: bool = True) -> Delivered:
        """Decide about a failed delivery, and log it. `called`: it was handed over; otherwise it was only looked for."""
        circuit = await self._report(error)
        result = after(delivery, error, self._facts, circuit=circuit, called=called)
        words = f"{type(error).__name__}: {words_of(error)}"
        if result.state == "pending":
            self.log.warning(
                "a delivery failed; trying again", delivery=delivery.id, error=words, again_in=readable(result.delay)
            )
        elif result.state == "unknown":
            self.log.error("a delivery may have arrived; a person must find out", delivery=delivery.id, error=words)
        else:
            self.log.error("dead letter: a delivery is given up until a person acts", delivery=delivery.id, error=words)
        return result

    @property
    def _facts(self) -> Facts:
        return Facts(self._app, self._channel_name, self._handling, self._chance, self._owners)

    async def _report(self, error: BaseException) -> StoredCircuit | None:
        """Report a failure to the channel's circuit; returns it if it is open. An error of an unknown kind concerns one
        message.
        """
        if self._circuits is None:
            return None
        verdict = classify(error)
        if verdict.failure != "transient":  # the other side answered
            await self._circuits.report_channel(self._channel_name, None)
            return None
        return await self._circuits.report_channel(self._channel_name, error) if verdict.lasting else None
