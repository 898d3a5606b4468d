"""Every error of Wakeful. failures.py sorts the errors of other libraries into classes.

WakefulError
├── ConfigError            a declaration is wrong: what, where, did you mean; refused before anything runs
│   ├── PeopleError        (policy/people.py) a people file is wrong: each mistake with its line and column
│   └── PolicyError        (policy/text.py) a policy file is wrong: each mistake with its line and column
├── InvalidEvent           an event that cannot be accepted; names the field, and the index in a batch
│   ├── ReservedName       its source or type is reserved for another way in
│   └── UnsupportedContentType   (intake/cloudevents.py) a body of a kind that carries no event
├── InvalidTime            a time in words that is past, ambiguous or unreadable; says what was understood
├── IdempotencyConflict    an Idempotency-Key that was used before, for another request
├── LinkRefused            a link to an approval is forged, expired, used or foreign
├── TooLate                a reminder that was sent or cancelled can no longer be changed
├── NotFound               no run, event or agent of that name
├── StoreError
│   ├── StoreUnavailable   the database is gone, full or locked: nothing is known to be stored, retrying is safe
│   │   ├── StoreFull      its disk is full, or a size limit is reached
│   │   └── StoreForbidden   its role lacks a right: the message has the GRANT to run
│   ├── SchemaMismatch     the schema is behind or ahead of this version
│   ├── PayloadMissing     a row points to a large payload that is no longer there
│   ├── EncryptionKeyMissing   payloads are encrypted with a key that this process does not have
│   │   └── PayloadTampered    an encrypted payload was changed, moved or replaced outside of Wakeful
│   ├── StateChanged       an agent's state was changed since the run read it: the run is retried
│   ├── CancelAsked        the run was cancelled: it commits nothing more, and its effects are undone
│   ├── NotBegun           an effect was not begun, and nothing was written
│   │   ├── PolicyMoved    another policy is in force than the one that a request was judged by: it is judged again
│   │   └── Halted         a person halted its app, its agent or its action: the run is parked until that is lifted
│   ├── KeyTaken           another run does an effect with the same business key: this run gets its result
│   ├── CountedOn          an undo was refused: another run depends on the effect
│   ├── SourceLost         another process reads the source now: the events of this one were not stored
│   └── ClaimLost          a fenced write was refused: another process owns the run now
└── Failure                raised by a step, an action or a handler to say how it failed
    ├── Transient          may work later: retried with backoff, for a day by default
    │   ├── RateLimited    the other side said how long to wait; uses up no attempt
    │   ├── NotSent        an action that certainly did nothing
    │   ├── StepTimeout    a step exceeded its own time limit
    │   ├── LockTimeout    a lock was not free in time
    │   ├── LockLost       a step was committed under a lock that was released before: nothing was written
    │   ├── CommandFailed  a program of app.command ended with an exit code other than 0, timed out, or did not start
    │   ├── CancelledInside  the code of a handler, a step or a channel cancelled itself
    │   └── Stuck          the run made no progress for too long and was interrupted
    ├── Persistent         a retry would fail the same way: dead at once
    │   ├── InvalidData         the event's data does not fit the handler's model
    │   ├── InvalidKey          key=, priority= or once= has no usable value for the event
    │   ├── NotSerialisable     an argument or result that is not JSON, or is too large
    │   ├── UnfinishedCalls     the handler returned while a run.* call was in flight
    │   ├── DeadlineExceeded    the run's deadline passed
    │   ├── TooManyCrashes      the run was in flight in too many crashed processes
    │   ├── NotAnAction         run.act of something without @action
    │   ├── EffectAbandoned     a person decided that an effect must not happen
    │   ├── TimedOut            an event, answer or run that was waited for did not come in time
    │   ├── ChildFailed         a run started with run.call is dead, denied or cancelled
    │   ├── RunFailed           a run that app.result waited for is dead, denied or cancelled
    │   ├── UnknownChannel      run.send to a channel that is not declared
    │   ├── CommandInterrupted  it is unknown whether a program of app.command finished
    │   ├── InvalidState        the stored state of an agent does not fit its model
    │   └── StepFailed          a stored error whose own class can no longer be found
    └── Denied             policy, or the code itself, says no: no retry, recorded as a policy outcome
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, ClassVar, Literal

from wakeful.clock import Duration, Microseconds, duration

if TYPE_CHECKING:
    from collections.abc import Iterable

FailureClass = Literal["transient", "rate_limited", "persistent", "denied"]


class WakefulError(Exception):
    """The base class: catch this to catch every error of Wakeful."""


class ConfigError(WakefulError):
    """A declaration is wrong. The message says what, where, and what may have been meant."""


class InvalidEvent(WakefulError):
    """An event that cannot be accepted. Nothing of its request was stored."""

    def __init__(self, message: str, *, field: str | None = None, index: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.index = index


class ReservedName(InvalidEvent):
    """The source or type of an event is reserved for another way in. Nothing of its request was stored."""


class InvalidTime(WakefulError):
    """A time in words that is past, ambiguous or unreadable. The message says what was understood."""


class IdempotencyConflict(WakefulError):
    """This Idempotency-Key was used before, for a request with different content."""


class LinkRefused(WakefulError):
    """A link to an approval that cannot be used. `reason` is one word: forged, expired, used or foreign."""

    def __init__(self, reason: Literal["forged", "expired", "used", "foreign"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


class TooLate(WakefulError):
    """The thing to be changed is already over."""


class NotFound(WakefulError):
    """Nothing of that name exists."""


class StoreError(WakefulError):
    """A problem with the database."""


class StoreUnavailable(StoreError):
    """The database did not answer, or has no room. The work may or may not be stored; sending it again is safe.

    `locked`: another process holds the write lock of a SQLite file and does not release it, so nothing was stored. The
    message names that process, and not the file.
    """

    def __init__(self, *words: object, locked: bool = False) -> None:
        super().__init__(*words)
        self.locked = locked


class StoreFull(StoreUnavailable):
    """The database has no room. A person must free some space; work then continues by itself."""


class StoreForbidden(StoreUnavailable):
    """The database's role lacks a right. The message has the GRANT; once it is run, work continues by itself."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one this version works with."""


class PayloadMissing(StoreError):
    """A row points to a large payload that is no longer in the store."""


class EncryptionKeyMissing(StoreError):
    """Payloads in the store are encrypted with a key that was not given."""


class PayloadTampered(EncryptionKeyMissing):
    """An encrypted payload was changed, moved to another row or replaced by plain text outside of Wakeful."""


class StateChanged(StoreError):
    """A compare-and-set of an agent's state found another version."""


class NotBegun(StoreError):
    """An effect was about to begin and was refused inside the transaction. Nothing was written."""


class Halted(NotBegun):
    """A person halted the app, the agent or the action of an effect. The run is parked until the halt is lifted."""

    def __init__(self, place: tuple[str, str, str], by: str, note: str | None = None) -> None:
        super().__init__(f"halted by {by}" + (f": {note}" if note else ""))
        self.place = place  # of the halt: app, agent, action


class PolicyMoved(NotBegun):
    """The policy in force is another one than the request was judged by. Nothing was written: judge again."""

    def __init__(self, app: str, version: str | None) -> None:
        super().__init__(f"app {app}: another policy is in force now ({version or 'none'}): nothing was written")
        self.version = version


class KeyTaken(StoreError):
    """An effect was about to be called, but another run has taken its business key."""


class CountedOn(StoreError):
    """An effect was about to be undone, but another run uses its result under the same business key."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} has the same key and counts on it")
        self.run = run


class CancelAsked(StoreError):
    """The run was cancelled before this write: nothing of the write was committed."""

    def __init__(self, run: str, by: str, note: str | None = None) -> None:
        super().__init__(f"run {run} is to stop: cancelled by {by}" + (f": {note}" if note else ""))
        self.run = run
        self.by = by
        self.note = note


class SourceLost(StoreError):
    """Another process reads the source now. The events that this process brought were not stored."""


class ClaimLost(StoreError):
    """A fenced write was refused: this process no longer owns the run. Nothing was written."""


class Failure(WakefulError):
    """How a piece of work failed."""


class Transient(Failure):
    """The work may succeed later. Retried with backoff, or after `retry_after`.

    `lasting`: this kind of failure is known to go away by itself, so it is retried for a day by default. A subclass
    with False has a bounded number of attempts, like an exception of an unknown kind.
    """

    lasting: ClassVar[bool] = True

    def __init__(self, *args: object, retry_after: Duration | None = None) -> None:
        super().__init__(*args)
        self.retry_after: Microseconds | None = None if retry_after is None else duration(retry_after)


class RateLimited(Transient):
    """The other side said how long to wait. The wait uses up no attempt."""

    def __init__(self, *args: object, retry_after: Duration = "1s") -> None:
        super().__init__(*(args or ("rate limited",)), retry_after=retry_after)


class NotSent(Transient):
    """An action that certainly did nothing: retrying it repeats nothing."""


class StepTimeout(Transient, TimeoutError):
    """A step exceeded its own time limit."""


class LockTimeout(Transient):
    """A lock was held by another run for as long as this run was to wait."""


class LockLost(Transient):
    """The lock was no longer held when the work inside it was to be committed. Nothing was written."""

    lasting = False


class Stuck(Transient):
    """No step, no log line and no other sign of progress for longer than `stuck_after`: the attempt was interrupted."""

    lasting = False


class CommandFailed(Transient):
    """A program of `app.command` could not be started, timed out, or ended with an exit code other than 0."""

    lasting = False


class CancelledInside(Transient):
    """The code of a handler, a step or a channel cancelled itself; Wakeful did not."""

    lasting = False


class Persistent(Failure):
    """A retry would fail the same way."""


class InvalidData(Persistent):
    """The event's data does not fit the model of the handler; the handler did not start."""


class InvalidKey(Persistent):
    """`key=`, `priority=` or `once=` has no usable value for an event; the handler did not start."""

    problem: str = ""  # the reason, without the event
    exhausted: bool = False  # the expression exceeded its budget


class NotSerialisable(Persistent):
    """An argument or a result cannot be stored as JSON, or is over the limit."""


class UnfinishedCalls(Persistent):
    """The handler returned while a `run.*` call was still in flight."""


class DeadlineExceeded(Persistent):
    """The run's deadline passed before it finished."""


class TooManyCrashes(Persistent):
    """The run was in flight in too many processes that died."""


class StepFailed(Persistent):
    """A step's stored error, when its own class can no longer be found."""


class EffectAbandoned(Persistent):
    """A person decided that an effect must not happen any more."""


class TimedOut(Persistent):
    """A wait of a run (for an event, an answer or another run) timed out, or `app.result` did while the run went on."""


class ChildFailed(Persistent):
    """A run that was started with `run.call` is dead, denied or cancelled."""


class RunFailed(Persistent):
    """A run that `app.result` waited for is dead, denied or cancelled. `run` is its id, `state` one of these states,
    and `error` the exception that it ended with, or None.
    """

    def __init__(self, *args: object, run: str = "", state: str = "", error: Exception | None = None) -> None:
        super().__init__(*args)
        self.run = run
        self.state = state
        self.error = error


class UnknownChannel(Persistent):
    """run.send to a channel that is not declared."""


class CommandInterrupted(Persistent):
    """A program of `app.command` was running when its process died or stopped: it is unknown whether it finished."""


class InvalidState(Persistent):
    """The stored state of an agent does not fit its model."""


class NotAnAction(Persistent):
    """`run.act` or `run.stage` was given something that is not declared with `@action`."""


class Denied(Failure):
    """Not allowed. Never retried; recorded as a policy outcome."""

    stored: bool = False  # a rule of policy said so, and its decision is stored already


MOST_NAMES = 16


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean "x"?' if a known word is close, else the list of known words."""
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f' Did you mean "{close[0]}"?'
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
    return f" Known: {shown}."
