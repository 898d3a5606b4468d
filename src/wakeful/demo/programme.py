"""The programme: what comes in, and when. A steady mix, and what each round adds to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from wakeful.demo.feeder import Feeder
from wakeful.demo.stage import Stage

ROUND = 40.0
FEED_EVERY = 0.75
LAST_RUNS = 5.0  # what the last runs need after the last event


class Programme:
    """Has events fed in, until shortly before the end."""

    def __init__(self, feeder: Feeder, stage: Stage, seconds: float | None, pace: float) -> None:
        self._feeder = feeder
        self._stage = stage
        self._last = math.inf if seconds is None else max(1.0, seconds - LAST_RUNS * pace)
        self._pace = pace
        self.over = asyncio.Event()

    async def play(self) -> None:
        specials = self._specials()
        next_special, send_special = next(specials)
        next_regular = 0.0
        while min(next_regular, next_special) < self._last:
            await asyncio.sleep(max(0.0, min(next_regular, next_special) - self._stage.elapsed))
            if next_special <= next_regular:
                await send_special()
                next_special, send_special = next(specials)
            else:
                await self._feeder.regular()
                next_regular += FEED_EVERY * self._pace
        self.over.set()

    def _specials(self) -> Iterator[tuple[float, Callable[[], Awaitable[None]]]]:
        """What comes in beside the steady mix: when, and what."""
        number = 0
        while True:
            for at, what in (
                (0.2, partial(self._feeder.refund, "transfer")),
                (1.2, self._drop_a_file),
                (1.4, self._send_webhook),
                (1.6, self._send_unmatched),
                (2.0, partial(self._feeder.refund, "card")),
                (2.6, self._feeder.poison),
                (3.2, partial(self._feeder.refund, "cheque")),
                (3.8, self._feeder.unknown_host),
                (4.2, self._send_forged_webhook),
                (5.0, self._send_again),
                (6.4, self._feeder.payment),
                (6.5, self._feeder.payment),
                (6.7, self._feeder.payment),
                (6.8, self._feeder.payment),
            ):
                yield (number * ROUND + at) * self._pace, what
            number += 1

    async def _drop_a_file(self) -> None:
        self._stage.say(f"{self._feeder.file()} was dropped into inbox/: an agent wakes on it.", minor=True)

    async def _send_webhook(self) -> None:
        asked, status = await self._feeder.webhook()
        self._stage.say(f"GitHub calls a webhook about {asked}: signed, stored, answered {status}.", minor=True)

    async def _send_forged_webhook(self) -> None:
        status = await self._feeder.forged_webhook()
        self._stage.say(f"A webhook with a wrong signature: answered {status}, kept in quarantine.", minor=True)

    async def _send_unmatched(self) -> None:
        kind = await self._feeder.unmatched()
        self._stage.say(f"No agent handles {kind}: it is kept and shown, not dropped.", minor=True)

    async def _send_again(self) -> None:
        payment = await self._feeder.again()
        if payment is not None:
            self._stage.say(f"Payment {payment} was delivered a second time: still one run.", minor=True)
