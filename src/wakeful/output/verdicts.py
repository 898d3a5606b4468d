"""What becomes of a delivery after a call of its channel: pure decisions, which the lane stores.

                          known        find                     doubt
    it arrived            delivered    delivered                delivered
    certainly not sent    again        again                    again
    refused (4xx)         dead         dead                     dead
    in doubt              again        looked for, then again   again, or unknown (`on_doubt`)
    given up in doubt     dead         dead, or unknown         dead, or unknown
                                       (`on_doubt`)

Certainly not sent: the connection was refused, 429, `NotSent`. In doubt: the process died, a timeout, a lost connection, 5xx, an error of
unknown kind.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from pydantic_core import from_json, to_json

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.errors import NotSent, RateLimited
from wakeful.failures import TOO_MANY_REQUESTS, classify, http_status
from wakeful.functions.retry import GiveUp, cause_of_dead, decide, signature, streak_of
from wakeful.model import Delivery
from wakeful.output.channels.base import UNKNOWN_ATTEMPTS, Handling, Sent
from wakeful.stored_errors import by_wakeful, describe, in_one_line, words_of
from wakeful.stores.alarm import Alarm, late_alarm, unknown_alarm
from wakeful.stores.verbs.circuits import StoredCircuit
from wakeful.stores.verbs.outbox import CLOSES, Delivered

# A message that has not been delivered for this long needs a person, and so do those behind it.
LATE: Microseconds = 15 * 60 * SECOND
# Even if the other side asks for more: an hour later its answer may differ.
LONGEST_WAIT: Microseconds = 3600 * SECOND
# Errors of clients that never got a connection, by the names of their classes (httpx, aiohttp, smtplib and others).
NO_CONNECTION = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "ConnectionTimeoutError",
        "ClientConnectorError",
        "PoolTimeout",
        "SMTPConnectError",
    }
)
CAUSES_FOLLOWED = 8
DIED = "the process that delivered it died before it stored the answer"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the decisions know of a lane."""

    app: str
    channel: str
    handling: Handling
    chance: Random
    owners: Mapping[str, str | None]

    def owner(self, delivery: Delivery) -> str | None:
        return self.owners.get(delivery.agent)


def certainly_not_sent(error: BaseException) -> bool:
    """Whether the message certainly did not arrive: its channel says so, there was no connection, or it was turned away for now."""
    if isinstance(error, NotSent | RateLimited) or http_status(error) == TOO_MANY_REQUESTS:
        return True
    seen: BaseException | None = error
    for _ in range(CAUSES_FOLLOWED):
        if seen is None:
            return False
        if isinstance(seen, ConnectionRefusedError | socket.gaierror | NotSent):
            return True
        if any(one.__name__ in NO_CONNECTION for one in type(seen).__mro__):
            return True
        seen = seen.__cause__
    return False


def arrived(delivery: Delivery, facts: Facts, sent: Sent | None = None) -> Delivered:
    return Delivered(
        delivery.seq,
        "delivered",
        delivery.tries + 1,
        resolves=_no_longer_late(delivery, facts),
        evidence=_evidence(sent),
        closes=_closes(sent),
    )


def arrived_before(delivery: Delivery, facts: Facts, sent: Sent | None) -> Delivered:
    """The other side has it from an earlier try, whose answer was lost."""
    reason = "found there: an earlier try had arrived"
    resolves, evidence = _no_longer_late(delivery, facts), _evidence(sent)
    return Delivered(
        delivery.seq,
        "delivered",
        delivery.tries,
        reason=reason,
        resolves=resolves,
        evidence=evidence,
        closes=_closes(sent),
    )


def look_later(delivery: Delivery, settle: Microseconds) -> Delivered | None:
    """The other side cannot be asked yet for a message of a call that has just been made. None: it can."""
    left = (delivery.doubt_at or 0) + settle - _now(delivery)
    if left <= 0:
        return None
    reason = "an earlier try may have arrived: it is looked for first"
    return Delivered(delivery.seq, "pending", delivery.tries, left, delivery.error, reason, doubtful=True)


def unknown_after_crash(delivery: Delivery, facts: Facts) -> Delivered:
    """It may have arrived, and this channel repeats nothing in doubt."""
    return _unknown(delivery, facts, delivery.tries, delivery.error, DIED)


def after(
    delivery: Delivery, error: BaseException, facts: Facts, *, circuit: StoredCircuit | None, called: bool = True
) -> Delivered:
    """The result of a call that failed: retry and when, unknown, or dead letter. Without `attempts=` an open circuit decides when.
    `called` is False if the message was only looked for.
    """
    handling, tries = facts.handling, delivery.tries + called
    now = _now(delivery)
    earlier = from_json(delivery.error) if delivery.error else {}
    trouble = streak_of(earlier, delivery.tries)
    if circuit is not None and circuit.opened_at is not None and not trouble.failing:
        # It waited behind others for as long. A day of retries counts for all of them together, not for one after the other.
        began = max(delivery.due_at, circuit.opened_at)
        trouble = replace(trouble, since=trouble.since or began, failing=began)
    trouble = trouble.more(error, now)
    doubt = _doubt(delivery, error, handling, called=called)
    stored = describe(error)
    described = to_json({**stored, **trouble.as_json(handling.attempts)}).decode()
    words = f"{type(error).__name__}: {words_of(error)}"
    if doubt == "new" and handling.repeats == "doubt" and handling.on_doubt == "hold":
        return _unknown(delivery, facts, tries, described, words)
    decision = decide(
        error,
        failures=max(1, tries),
        attempts=handling.attempts,
        backoff=handling.backoff,
        chance=facts.chance,
        unknown_attempts=UNKNOWN_ATTEMPTS,
        trouble=trouble,
        now=now,
    )
    if isinstance(decision, GiveUp):
        # A look that fails for good, or was not made: it may be there, so a dead letter would say too much.
        if handling.repeats == "find" and handling.on_doubt == "hold" and (doubt == "new" or not called):
            return _unknown(delivery, facts, tries, described, words)
        return _dead(delivery, facts, tries, described, decision.reason, words, doubtful=doubt != "none")
    counted = tries if decision.counts else delivery.tries
    delay = min(decision.delay, LONGEST_WAIT)
    if circuit is not None and circuit.next_at is not None and handling.attempts is None:
        delay = max(0, circuit.next_at - circuit.now)
    if doubt == "new" and handling.repeats == "find":
        delay = max(delay, handling.settle)
    late = _late(delivery, facts, delay, words) if circuit is None else None  # the circuit has its own alarm
    return Delivered(
        delivery.seq, "pending", counted, delay, described, decision.reason, alarm=late, doubtful=doubt != "none"
    )


Doubt = Literal["none", "earlier", "new"]


def _doubt(delivery: Delivery, error: BaseException, handling: Handling, *, called: bool) -> Doubt:
    """Whether a call may have delivered the message: this one, or an earlier one."""
    if handling.repeats == "known":
        return "none"
    refused = classify(error).failure in {"persistent", "denied"}
    if called and not refused and not certainly_not_sent(error):
        return "new"
    return "none" if delivery.doubt_at is None else "earlier"


def _unknown(delivery: Delivery, facts: Facts, tries: int, error: str | None, words: str) -> Delivered:
    text = (
        f"channel {facts.channel}: delivery {delivery.id} may have arrived, and is not repeated ({words[:200]}). Look there, then "
        f"`wakeful deliveries confirm {delivery.id}`, or `wakeful deliveries replay {delivery.id}` sends it again"
    )
    key = unknown_alarm(facts.app, facts.channel)
    alarm = Alarm(facts.app, key, text, delivery.agent, facts.owner(delivery))
    reason = f"it may have arrived: {words[:200]}"
    return Delivered(
        delivery.seq,
        "unknown",
        tries,
        error=error,
        reason=reason,
        alarm=alarm,
        resolves=_no_longer_late(delivery, facts),
        doubtful=True,
    )


def _dead(
    delivery: Delivery, facts: Facts, tries: int, error: str, reason: str, words: str, *, doubtful: bool
) -> Delivered:
    stored = from_json(error)
    kind, _, message = words.partition(": ")
    told = signature(kind, in_one_line(message))
    reason = f"{reason}; an earlier try may have arrived" if doubtful else reason
    text = f"channel {facts.channel}: delivery {delivery.id} is a dead letter ({told}); {reason}"
    key = f"delivery/{facts.app}/{facts.channel}/{cause_of_dead(stored)}"
    ours = stored["kind"] if by_wakeful(stored) else None
    alarm = Alarm(facts.app, key, text, delivery.agent, facts.owner(delivery), error=ours)
    return Delivered(
        delivery.seq,
        "dead",
        tries,
        error=error,
        reason=reason,
        alarm=alarm,
        resolves=_no_longer_late(delivery, facts),
        doubtful=doubtful,
    )


def _late(delivery: Delivery, facts: Facts, delay: Microseconds, words: str) -> Alarm | None:
    """The alarm about a delivery that is late, and about those that wait behind it."""
    if delivery.age + delay <= LATE:
        return None
    text = (
        f"channel {facts.channel}: delivery {delivery.id} was committed {readable(delivery.age)} ago and is still not "
        f"delivered ({words[:200]}); the next try is in {readable(delay)}, and the deliveries behind it wait. `wakeful "
        f"deliveries replay {delivery.id}` retries it now, `wakeful deliveries discard {delivery.id}` gives it up, and the next "
        "one follows"
    )
    return Alarm(facts.app, late_alarm(facts.app, facts.channel), text, delivery.agent, facts.owner(delivery))


def _no_longer_late(delivery: Delivery, facts: Facts) -> str | None:
    """The alarm to resolve now that the lane moves on. Only if it may have been blocked for long, because this is a write."""
    return None if delivery.age <= LATE else late_alarm(facts.app, facts.channel)


def _evidence(sent: Sent | None) -> str | None:
    return None if sent is None else to_json({"id": sent.id, "url": sent.url}).decode()


def _closes(sent: Sent | None) -> int:
    return CLOSES.get(sent.closes, 0) if sent is not None and isinstance(sent.closes, str) else 0


def _now(delivery: Delivery) -> Microseconds:
    """The store's time when the delivery was taken."""
    return delivery.committed_at + delivery.age
