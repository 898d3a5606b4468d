"""The outbox: committed deliveries go to their channels.

    a run's commit ──► deliveries ──► lane (one for each channel) ──► channel ──► delivered
                                        │  ▲
                                        │  └── transient: retried after a wait; those behind it wait too
                                        └───── persistent: a dead letter, and the next one goes

The wait is that of the channel's circuit, if it is open. One process at a time owns a channel's lane, so messages arrive
in the order of their commits. Each lane is a service of its own, so that one in trouble blocks no other. Delivered
messages are stored as such together with taking the next ones. A crash between delivering and storing lets a message go
out twice, under the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Protocol

from pydantic_core import from_json, to_json

from wakeful.clock import SECOND, Microseconds, readable, seconds
from wakeful.errors import CancelledInside, ClaimLost, PayloadTampered
from wakeful.failures import classify
from wakeful.functions.call import call, within_lease
from wakeful.functions.retry import Retry, cause_of_dead, decide, signature, streak_of
from wakeful.model import Delivery
from wakeful.output.channels.base import UNKNOWN_ATTEMPTS, Channel, Message, Surroundings, handling_of
from wakeful.service import Service
from wakeful.stored_errors import by_wakeful, describe, in_one_line, words_of
from wakeful.stores.alarm import Alarm, late_alarm
from wakeful.stores.tampered import refuse_tampered
from wakeful.stores.verbs.circuits import StoredCircuit
from wakeful.stores.verbs.outbox import Delivered, Lane, WorkLane, first_delivery

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

# Another process may own the lane and deliver our messages too. If it dies, or if a notification is lost, the lookout
# finds the rest within seconds. This is a further safety net.
LOOK_ANYWAY_EVERY = 300.0
# A message that has not been delivered for this long needs a person, and so do those behind it.
LATE: Microseconds = 15 * 60 * SECOND
# Even if the other side asks for more: an hour later its answer may differ.
LONGEST_WAIT: Microseconds = 3600 * SECOND


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
        time_passes: bool = True,
        owners: Mapping[str, str | None] | None = None,
        circuits: ChannelCircuits | None = None,
    ) -> None:
        self.name = f"outbox {name}"
        super().__init__()
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
            wait = await first_delivery(self._store.database, self._app, self._channel_name)
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
        request = WorkLane(self._app, self._channel_name, self._process(), most, self._token, self._unsaved)
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
        error = await self._hand_over(deliveries)
        if error is None:
            await self._went_out(deliveries)
            return [self._arrived(one) for one in deliveries]
        if len(deliveries) == 1:
            return [await self._after(deliveries[0], error)]
        self._singly = len(deliveries)
        return []

    async def _hand_over(self, deliveries: Sequence[Delivery]) -> BaseException | None:
        try:
            for one in deliveries:
                refuse_tampered(one.message)
                refuse_tampered(one.envelope)
        except PayloadTampered as error:
            return error
        messages = [
            Message(
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
            )
            for one in deliveries
        ]
        what = f"channel {self._channel_name}"
        try:
            made = call(self.channel.deliver, (messages,), {}, what=what)
            await within_lease(made, self._handling.timeout, self._time_for_calls, what=what)
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
        self.delivered += len(deliveries)
        return None

    async def _went_out(self, deliveries: Sequence[Delivery]) -> None:
        """Report success to the circuit, if it knows of failures: from this process, or from the lane's previous owner."""
        circuits = self._circuits
        if circuits is not None:
            failed_before = any(one.error is not None for one in deliveries)
            if failed_before or circuits.knows_of_trouble:
                await circuits.report_channel(self._channel_name, None, failed_before=failed_before)

    def _arrived(self, delivery: Delivery) -> Delivered:
        return Delivered(delivery.seq, "delivered", delivery.tries + 1, resolves=self._no_longer_late(delivery))

    def _no_longer_late(self, delivery: Delivery) -> str | None:
        """The alarm to resolve now that the lane moves on. Only if it may have been blocked for long, because this is a
        write.
        """
        return late_alarm(self._app, self._channel_name) if delivery.age > LATE else None

    async def _after(self, delivery: Delivery, error: BaseException) -> Delivered:
        """Decide about a failed delivery: retry and when, or dead letter. Without `attempts=` an open circuit decides
        when.
        """
        handling, tries = self._handling, delivery.tries + 1
        now = delivery.committed_at + delivery.age  # the store's time when it was claimed
        circuit = await self._report(error)
        stored = from_json(delivery.error) if delivery.error else {}
        trouble = streak_of(stored, delivery.tries)
        if circuit is not None and circuit.opened_at is not None and not trouble.failing:
            # It waited behind others for as long. A day of retries counts for all of them together, not for one after
            # the other.
            began = max(delivery.due_at, circuit.opened_at)
            trouble = replace(trouble, since=trouble.since or began, failing=began)
        trouble = trouble.more(error, now)
        decision = decide(
            error,
            failures=tries,
            attempts=handling.attempts,
            backoff=handling.backoff,
            chance=self._chance,
            unknown_attempts=UNKNOWN_ATTEMPTS,
            trouble=trouble,
            now=now,
        )
        words = f"{type(error).__name__}: {words_of(error)}"
        stored = describe(error)
        described = to_json({**stored, **trouble.as_json(handling.attempts)}).decode()
        if isinstance(decision, Retry):
            counted = tries if decision.counts else delivery.tries
            delay = min(decision.delay, LONGEST_WAIT)
            if circuit is not None and circuit.next_at is not None and handling.attempts is None:
                delay = max(0, circuit.next_at - circuit.now)
            self.log.warning(
                "a delivery failed; trying again", delivery=delivery.id, error=words, again_in=readable(delay)
            )
            late = self._late(delivery, delay, words) if circuit is None else None  # the circuit has its own alarm
            return Delivered(delivery.seq, "pending", counted, delay, described, decision.reason, alarm=late)
        self.log.error("dead letter: a delivery is given up until a person acts", delivery=delivery.id, error=words)
        told = signature(type(error).__name__, in_one_line(words_of(error)))
        text = f"channel {self._channel_name}: delivery {delivery.id} is a dead letter ({told}); {decision.reason}"
        key = f"delivery/{self._app}/{self._channel_name}/{cause_of_dead(stored)}"
        ours = stored["kind"] if by_wakeful(stored) else None
        alarm = Alarm(self._app, key, text, delivery.agent, self._owners.get(delivery.agent), error=ours)
        over = self._no_longer_late(delivery)
        return Delivered(
            delivery.seq, "dead", tries, error=described, reason=decision.reason, alarm=alarm, resolves=over
        )

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

    def _late(self, delivery: Delivery, delay: Microseconds, words: str) -> Alarm | None:
        """The alarm about a delivery that is late, and about those that wait behind it."""
        if delivery.age + delay <= LATE:
            return None
        text = (
            f"channel {self._channel_name}: delivery {delivery.id} was committed {readable(delivery.age)} ago and is still not "
            f"delivered ({words[:200]}); the next try is in {readable(delay)}, and the deliveries behind it wait. `wakeful "
            f"deliveries replay {delivery.id}` retries it now, `wakeful deliveries discard {delivery.id}` gives it up, and the next "
            "one follows"
        )
        owner = self._owners.get(delivery.agent)
        return Alarm(self._app, late_alarm(self._app, self._channel_name), text, delivery.agent, owner)


class Courier:
    """The lanes of an app in this process."""

    def __init__(
        self,
        app: str,
        channels: Mapping[str, Channel],
        store: DatabaseStore,
        process: Callable[[], str],
        around: Surroundings,
        *,
        chance: Random,
        time_for_calls: Callable[[], float],
        time_passes: bool = True,
        owners: Mapping[str, str | None] | None = None,
        circuits: ChannelCircuits | None = None,
    ) -> None:
        self._around = around
        self._lanes = {
            name: ChannelLane(
                app,
                name,
                channel,
                store,
                process,
                chance=chance,
                time_for_calls=time_for_calls,
                time_passes=time_passes,
                owners=owners,
                circuits=circuits,
            )
            for name, channel in channels.items()
        }
        self._started = False

    async def open(self) -> None:
        """Open all channels before a message is claimed: a channel whose secret is missing fails now."""
        opened: list[ChannelLane] = []
        try:
            for lane in self._lanes.values():
                opened.append(lane)
                await call(lane.channel.open, (self._around,), {}, what=lane.name)
        except BaseException:  # a second try, with the secret set, must find all channels closed
            for lane in opened:
                await lane.close()
            raise

    async def start(self) -> None:
        self._started = True
        for lane in self._lanes.values():
            await lane.start()

    async def stop(self, grace: float = 0.0) -> None:
        """Let deliveries in flight finish within `grace` seconds. The next process delivers the rest."""
        if self._started:
            self._started = False
            await asyncio.gather(*(lane.finish(grace) for lane in self._lanes.values()))
        for lane in self._lanes.values():
            await lane.close()

    async def die(self) -> None:
        """Deliver nothing more and release nothing, like a killed process. For tests."""
        if self._started:
            self._started = False
            for lane in self._lanes.values():
                await lane.stop()
                await lane.close()

    def wake(self, channels: Collection[str] | None = None) -> None:
        """There may be messages to deliver: to these channels, or to any."""
        for name in self._lanes if channels is None else channels:
            if name in self._lanes:
                self._lanes[name].wake()

    @property
    def delivered(self) -> int:
        """How many messages went out in total."""
        return sum(lane.delivered for lane in self._lanes.values())

    async def drain(self) -> int:
        """Deliver everything that is due. Returns how many messages went out."""
        before = self.delivered
        await asyncio.gather(*(lane.run_once() for lane in self._lanes.values()))
        return self.delivered - before
