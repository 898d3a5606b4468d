"""The outbox: committed deliveries go to their channels.

    a run's commit ──► deliveries ──► lane (two for each channel) ──► channel ──► delivered
                                        │  ▲
                                        │  └── transient: retried after a wait; those behind it wait too
                                        ├───── in doubt: looked for, repeated, or left to a person (verdicts.py)
                                        └───── persistent: a dead letter, and the next one goes

Urgent deliveries have a lane of their own. Within a lane messages arrive in the order of their commits; those of a thread only in the order
of their thread. One process at a time owns a lane, and each lane is a service of its own, so that one in trouble blocks no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING

from wakeful.functions.call import call
from wakeful.output.channels.base import Channel, Surroundings
from wakeful.output.lane import ChannelCircuits, ChannelLane
from wakeful.stores.verbs.outbox import lane_of

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore


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
            lane_of(name, urgent=urgent): ChannelLane(
                app,
                name,
                channel,
                store,
                process,
                urgent=urgent,
                chance=chance,
                time_for_calls=time_for_calls,
                time_passes=time_passes,
                owners=owners,
                circuits=circuits,
            )
            for name, channel in channels.items()
            for urgent in (False, True)
        }
        self._channels = {name: self._lanes[name] for name in channels}  # the lane that opens and closes each channel
        self._started = False

    async def open(self) -> None:
        """Open all channels before a message is claimed: a channel whose secret is missing fails now."""
        opened: list[ChannelLane] = []
        try:
            for lane in self._channels.values():
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
        for lane in self._channels.values():
            await lane.close()

    async def die(self) -> None:
        """Deliver nothing more and release nothing, like a killed process. For tests."""
        if self._started:
            self._started = False
            for lane in self._lanes.values():
                await lane.stop()
            for lane in self._channels.values():
                await lane.close()

    def wake(self, channels: Collection[str] | None = None) -> None:
        """There may be messages to deliver: to these channels, or to any."""
        for name in self._channels if channels is None else channels:
            if name in self._channels:
                self._lanes[name].wake()
                self._lanes[lane_of(name, urgent=True)].wake()

    def wake_lanes(self, lanes: Collection[str]) -> None:
        """Deliveries of these lanes were committed."""
        for name in lanes:
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
