"""The work that every store floor does: one kind of run, the same bytes for each database.

    accept ─► claim ─► step ─► step ─► step ─► finish        six rounds, one commit each, for all runs in flight
    accept ─► claim ─► step ─► step ─► step ─► open an effect ─► confirm it ─► finish and send ─► delivered    nine

A run is one event of about 200 bytes handled by one agent in three checkpointed steps. What its identities look like
decides more than anything else, so each floor is measured with both kinds:

- `digest`: an event's key and a run's id are digests, as the engine must have them: the same event is then the same run
  wherever it comes in. At acceptance every row of a batch lands on a page of its own in two indexes. It gets slower as
  the tables grow, so compare only measurements of about the same length. This is the loop to compare with.
- `growing`: both in the order of arrival, which gives up knowing an event again. Neighbours share pages, nothing can be
  faster: the ceiling.

In both, steps and fences find their run by its growing number.
"""

import hashlib
import time
from typing import Literal, NamedTuple

Keys = Literal["digest", "growing"]

AGENT = "floor"
STEPS = ("fetch:0", "judge:0", "summarise:0")
RESULT = '{"value":{"verdict":"looks fine","score":0.93}}'
ARGUMENTS = '[42,"nothing to do"]'
OUTPUT = '{"verdict":"looks fine","score":0.93,"comment":"nothing to do"}'
WARM_UP_CYCLES = 20
"""Cycles before the clock starts, so that statements are prepared and files have their first pages."""
LEAST_CYCLES = 20
"""Cycles that are measured even when the time is up, so that a short measurement on a slow disk means something."""

_ENVELOPE = (
    '{"specversion":"1.0","source":"/bench/floor","id":"%s","type":"bench.ticket.created","subject":"ticket/42",'
    '"time":"2026-11-15T08:00:00Z","data":{"number":42,"title":"printer on fire","severity":3}}'
)


class Arrival(NamedTuple):
    """One event and the identity of the run that it starts."""

    key: str
    run_id: str
    envelope: str


def arrivals(first: int, count: int, keys: Keys) -> list[Arrival]:
    """Make the events `first` to `first + count`, each with an identity that no other has."""
    return [_arrival(number, keys) for number in range(first, first + count)]


def _arrival(number: int, keys: Keys) -> Arrival:
    event_id = f"event-{number:012d}"
    if keys == "growing":
        return Arrival(f"{number:032x}", f"{number:032x}", _ENVELOPE % event_id)
    key = hashlib.blake2b(b"/bench/floor\0" + event_id.encode(), digest_size=16).hexdigest()
    run_id = hashlib.blake2b(b"bench\0floor\0" + key.encode(), digest_size=16).hexdigest()
    return Arrival(key, run_id, _ENVELOPE % event_id)


def operation_ids(first: int, count: int) -> list[str]:
    """The identity of each run's effect: a digest, by which it is known again."""
    return [
        hashlib.blake2b(b"effect" + number.to_bytes(8, "big"), digest_size=13).hexdigest()
        for number in range(first, first + count)
    ]


def now() -> int:
    """Tell the time as the engine stores it: whole microseconds, UTC."""
    return time.time_ns() // 1000
