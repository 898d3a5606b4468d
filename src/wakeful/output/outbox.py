"""The outbox: what runs committed goes to its channels.

    a run's commit ──► deliveries ──► lane (one for each channel) ──► channel ──► delivered
                                        │  ▲
                                        │  └── not now: again after a wait (its circuit's, if that is open), and those behind wait too
                                        └───── never: a dead letter, and the next one goes

One process at a time has a channel's lane, so that messages arrive in the order of their commits; each lane is a service
of its own, so that one in trouble blocks no other. What was delivered is stored together with taking the next. A crash
between delivering and storing that lets a message go out twice, under the same id.
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
from wakeful.functions.retry import Retry, decide, signature, streak_of
from wakeful.model import Delivery, digest
from wakeful.output.channels.base import UNKNOWN_ATTEMPTS, Channel, Message, Surroundings, handling_of
from wakeful.service import Service
from wakeful.stored_errors import describe, in_one_line, words_of
from wakeful.stores.alarm import Alarm, late_alarm
from wakeful.stores.tampered import refuse_tampered
from wakeful.stores.verbs.circuits import StoredCircuit
from wakeful.stores.verbs.outbox import Delivered, Lane, WorkLane, first_delivery

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

# Somebody else may have the lane and deliver ours too, or nothing may be known of; but should they die, or should a word
# of another process get lost, the lookout sees what is left within seconds. This is beside it.
LOOK_ANYWAY_EVERY = 300.0
# A message that has not got through for so long needs a person, and so do those behind it.
LATE: Microseconds = 15 * 60 * SECOND
# However long the other side tells us to wait: an hour later it may have changed its mind.
LONGEST_WAIT: Microseconds = 3600 * SECOND


class ChannelCircuits(Protocol):
    """Whom a lane tells how its channel does."""

    @property
    def knows_of_trouble(self) -> bool: ...

    async def report_channel(
        self, channel: str, error: BaseException | None, *, failed_before: bool = False
    ) -> StoredCircuit | None: ...


class ChannelLane(Service):
    """Carries the messages of one channel, in order."""

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
        self._time_passes = time_passes  # under a virtual clock it does not: whoever moves that says when to look
        self._owners = owners or {}
        self._circuits = circuits
        self._one_at_a_time = asyncio.Lock()
        self._token: int | None = None
        self._unsaved: list[Delivered] = []
        self._stopping = False
        self.delivered = 0

    async def run_once(self) -> float | None:
        """Deliver until nothing is due. What was delivered and could not be stored yet is stored first."""
        async with self._one_at_a_time:
            try:
                return await self._carry()
            except ClaimLost as error:
                self.log.warning("somebody else has this channel now", error=str(error))
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
                return self._rest(lane.next_due)
            self._unsaved = await self._deliver(lane.deliveries)

    def _rest(self, wait: Microseconds | None) -> float | None:
        if not self._time_passes:
            return None
        return LOOK_ANYWAY_EVERY if wait is None else min(LOOK_ANYWAY_EVERY, max(0.001, seconds(wait)))

    async def finish(self, grace: float) -> None:
        """Take nothing more; let what is under way end within `grace` seconds, and stop."""
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace), self._one_at_a_time:
                pass
        await self.stop()

    async def close(self) -> None:
        """The channel's own end. One that fails at it, or hangs, keeps nobody else from ending."""
        try:
            await call(self.channel.close, (), {}, what=self.name, limit=self._handling.timeout)
        except Exception as error:
            self.log.warning("the channel did not close", error=f"{type(error).__name__}: {words_of(error)}")

    async def _work(self) -> Lane:
        most = 0 if self._stopping else self._handling.most
        request = WorkLane(self._app, self._channel_name, self._process(), most, self._token, self._unsaved)
        try:
            lane = await self._store.do(request)
        except ClaimLost:  # this process was declared dead: somebody else has the lane, and delivers all of it again
            self._token, self._unsaved = None, []
            raise
        self._token, self._unsaved = lane.token, []
        return lane

    async def _deliver(self, deliveries: Sequence[Delivery]) -> list[Delivered]:
        """All at once; if that fails and there are several, one by one up to the first that must wait."""
        if not deliveries:
            return []
        error = await self._hand_over(deliveries)
        if error is None:
            await self._went_out(deliveries)
            return [self._arrived(one) for one in deliveries]
        if len(deliveries) == 1:
            return [await self._after(deliveries[0], error)]
        results: list[Delivered] = []
        for one in deliveries:
            error = await self._hand_over([one])
            if error is None:
                await self._went_out([one])
                results.append(self._arrived(one))
            else:
                results.append(await self._after(one, error))
            if results[-1].state == "pending":
                break
        return results

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
        """Good news for the circuit, where it has heard bad ones: from this process, or from one that had the lane before."""
        circuits = self._circuits
        if circuits is not None:
            failed_before = any(one.error is not None for one in deliveries)
            if failed_before or circuits.knows_of_trouble:
                await circuits.report_channel(self._channel_name, None, failed_before=failed_before)

    def _arrived(self, delivery: Delivery) -> Delivered:
        return Delivered(delivery.seq, "delivered", delivery.tries + 1, resolves=self._no_longer_late(delivery))

    def _no_longer_late(self, delivery: Delivery) -> str | None:
        """The lane moves on. Only where it may have been held up for long: this is a write."""
        return late_alarm(self._app, self._channel_name) if delivery.age > LATE else None

    async def _after(self, delivery: Delivery, error: BaseException) -> Delivered:
        """Again or not, and when. A channel without `attempts=` of its own is tried as its circuit says while that is open."""
        handling, tries = self._handling, delivery.tries + 1
        now = delivery.committed_at + delivery.age  # the store's time, when it was taken
        circuit = await self._report(error)
        stored = from_json(delivery.error) if delivery.error else {}
        trouble = streak_of(stored, delivery.tries)
        if circuit is not None and circuit.opened_at is not None and not trouble.failing:
            # It waited behind others for as long: each of them is put up with for a day, and not all of them in turn.
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
        described = to_json({**describe(error), **trouble.as_json(handling.attempts)}).decode()
        if isinstance(decision, Retry):
            counted = tries if decision.counts else delivery.tries
            delay = min(decision.delay, LONGEST_WAIT)
            if circuit is not None and circuit.next_at is not None and handling.attempts is None:
                delay = max(0, circuit.next_at - circuit.now)
            self.log.warning(
                "a delivery failed; trying again", delivery=delivery.id, error=words, again_in=readable(delay)
            )
            late = (
                self._late(delivery, delay, words) if circuit is None else None
            )  # its circuit has an alarm of its own
            return Delivered(delivery.seq, "pending", counted, delay, described, decision.reason, alarm=late)
        self.log.error("dead letter: a delivery is given up until a person acts", delivery=delivery.id, error=words)
        kind = signature(type(error).__name__, words_of(error))
        told = signature(type(error).__name__, in_one_line(words_of(error)))
        text = f"channel {self._channel_name}: delivery {delivery.id} is a dead letter ({told}); {decision.reason}"
        key = f"delivery/{self._app}/{self._channel_name}/{digest(kind, size=5)}"
        alarm = Alarm(self._app, key, text, delivery.agent, self._owners.get(delivery.agent))
        over = self._no_longer_late(delivery)
        return Delivered(
            delivery.seq, "dead", tries, error=described, reason=decision.reason, alarm=alarm, resolves=over
        )

    async def _report(self, error: BaseException) -> StoredCircuit | None:
        """Tell the circuit of the channel; it comes back where it is open. An error of an unknown kind is about one message."""
        if self._circuits is None:
            return None
        verdict = classify(error)
        if verdict.failure != "transient":  # the other side answered
            await self._circuits.report_channel(self._channel_name, None)
            return None
        return await self._circuits.report_channel(self._channel_name, error) if verdict.lasting else None

    def _late(self, delivery: Delivery, delay: Microseconds, words: str) -> Alarm | None:
        """Somebody must hear of a message that will not have got through for long, and of those that wait behind it."""
        if delivery.age + delay <= LATE:
            return None
        text = (
            f"channel {self._channel_name}: delivery {delivery.id} was committed {readable(delivery.age)} ago and does not get "
            f"through ({words[:200]}); the next try is in {readable(delay)}, and those behind it wait. `wakeful deliveries "
            f"replay {delivery.id}` tries it now, `wakeful deliveries discard {delivery.id}` lets the next one go"
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
        """Before anything is taken: a channel whose secret is missing says so now."""
        opened: list[ChannelLane] = []
        try:
            for lane in self._lanes.values():
                opened.append(lane)
                await call(lane.channel.open, (self._around,), {}, what=lane.name)
        except BaseException:  # whoever tries again, with what was missing, finds them as they were
            for lane in opened:
                await lane.close()
            raise

    async def start(self) -> None:
        self._started = True
        for lane in self._lanes.values():
            await lane.start()

    async def stop(self, grace: float = 0.0) -> None:
        """Let what is under way end within `grace` seconds. The rest is delivered by whoever comes next."""
        if self._started:
            self._started = False
            await asyncio.gather(*(lane.finish(grace) for lane in self._lanes.values()))
        for lane in self._lanes.values():
            await lane.close()

    async def die(self) -> None:
        """Carry nothing more and give nothing back, as if the process were gone. For tests."""
        if self._started:
            self._started = False
            for lane in self._lanes.values():
                await lane.stop()
                await lane.close()

    def wake(self, channels: Collection[str] | None = None) -> None:
        """There may be something to deliver: to these channels, or to any."""
        for name in self._lanes if channels is None else channels:
            if name in self._lanes:
                self._lanes[name].wake()

    @property
    def delivered(self) -> int:
        """How many messages went out, all in all."""
        return sum(lane.delivered for lane in self._lanes.values())

    async def drain(self) -> int:
        """Deliver all that is due; returns how many messages went out."""
        before = self.delivered
        await asyncio.gather(*(lane.run_once() for lane in self._lanes.values()))
        return self.delivered - before
