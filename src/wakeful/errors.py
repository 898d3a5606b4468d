"""Every error of Wakeful, and the table that sorts other people's errors into classes.

WakefulError
├── ConfigError            something declared is wrong: what, where, did you mean; refused before anything runs
├── InvalidEvent           an event that cannot be accepted; names the field, and the index in a batch
│   ├── ReservedName       its source or type belongs to another door
│   └── UnsupportedContentType   (intake/cloudevents.py) a body of a kind that carries no event
├── InvalidTime            a time in words that is past, can be read in two ways, or is none; says what was understood
├── IdempotencyConflict    an Idempotency-Key that was used before, for another request
├── TooLate                a reminder that was told or cancelled cannot be changed any more
├── NotFound               no run, event or agent of that name
├── StoreError
│   ├── StoreUnavailable   the database is gone, full or locked: nothing is known to be stored, trying again is safe
│   │   ├── StoreFull      its disk is full, or a limit of its size is reached
│   │   └── StoreForbidden   its role lacks a right: the message has the GRANT that helps
│   ├── SchemaMismatch     the schema is behind or ahead of this version
│   ├── PayloadMissing     a row points to a large payload that is not there any more
│   ├── EncryptionKeyMissing   payloads are encrypted with a key that is not here
│   │   └── PayloadTampered    an encrypted payload was changed, moved or replaced outside of Wakeful
│   ├── StateChanged       an agent's state was changed since the run read it: the run goes again
│   ├── CancelAsked        somebody wants the run to stop: it commits nothing more, and what it did is undone
│   ├── KeyTaken           another run does an effect of the same business key: this one has its result
│   ├── CountedOn          an undo was refused: another run counts on the effect
│   ├── SourceLost         another process reads the source now: what this one brought was not stored
│   └── ClaimLost          a fenced write was refused: somebody else owns the run now
└── Failure                what a step, an action or a handler raises to say how it failed
    ├── Transient          may work later: retried with backoff, for a day unless told otherwise
    │   ├── RateLimited    told to wait: waits as told, uses up no attempt
    │   ├── NotSent        an action that certainly did nothing
    │   ├── StepTimeout    a step's own time limit ran out
    │   ├── LockTimeout    a lock was not free in time
    │   ├── LockLost       a step was committed under a lock that was let go before: nothing was written
    │   ├── CommandFailed  a program of app.command ended with another exit code than 0, too late, or not at all
    │   ├── CancelledInside  the code of a handler, a step or a channel cancelled itself
    │   └── Stuck          the run made no progress for too long, and was interrupted
    ├── Persistent         will not work again: dead at once
    │   ├── InvalidData         the event's data does not fit the handler's model
    │   ├── InvalidKey          key=, priority= or once= cannot be told for the event
    │   ├── NotSerialisable     an argument or result that is not JSON, or is too large
    │   ├── UnfinishedCalls     the handler returned while a run.* call was in flight
    │   ├── DeadlineExceeded    the run's deadline passed
    │   ├── TooManyCrashes      the run took its process with it too often
    │   ├── NotAnAction         run.act of something without @action
    │   ├── EffectAbandoned     a person decided that an effect shall not happen
    │   ├── TimedOut            what a run, or app.result, waited for did not come in time
    │   ├── ChildFailed         a run that was called with run.call did not end well
    │   ├── RunFailed           a run that app.result waited for did not end well
    │   ├── UnknownChannel      run.send to a channel that nobody declared
    │   ├── CommandInterrupted  nobody knows whether a program of app.command finished
    │   ├── InvalidState        what is stored as an agent's state does not fit its model
    │   └── StepFailed          a stored error whose own class cannot be found any more
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
    """The root: catch this to catch everything of Wakeful."""


class ConfigError(WakefulError):
    """Something that was declared is wrong."""


class InvalidEvent(WakefulError):
    """An event that cannot be accepted. Nothing of its request was stored."""

    def __init__(self, message: str, *, field: str | None = None, index: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.index = index


class ReservedName(InvalidEvent):
    """An event with a source, or a type, that belongs to another door. Nothing of its request was stored."""


class InvalidTime(WakefulError):
    """A time in words that is past, or can be read in two ways, or not at all. Says what was understood."""


class IdempotencyConflict(WakefulError):
    """This Idempotency-Key was used before, for a request with other content."""


class TooLate(WakefulError):
    """What was to be changed is over."""


class NotFound(WakefulError):
    """There is nothing of that name."""


class StoreError(WakefulError):
    """Something about the database."""


class StoreUnavailable(StoreError):
    """The database did not answer, or has no room. The work may or may not be stored; sending it again is safe.

    `locked`: another process holds the write lock of a SQLite file and does not let go, so nothing was stored. The text names
    that process, and not the file.
    """

    def __init__(self, *words: object, locked: bool = False) -> None:
        super().__init__(*words)
        self.locked = locked


class StoreFull(StoreUnavailable):
    """The database has no room: a person must make some. Then it goes on by itself."""


class StoreForbidden(StoreUnavailable):
    """The database's role lacks a right. The message has the GRANT; once that was given, it goes on by itself."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one this version works with."""


class PayloadMissing(StoreError):
    """A row points to a large payload that is not in the store any more."""


class EncryptionKeyMissing(StoreError):
    """Payloads in the store are encrypted with a key that was not given."""


class PayloadTampered(EncryptionKeyMissing):
    """An encrypted payload was changed, moved to another row or replaced by plain text outside of Wakeful."""


class StateChanged(StoreError):
    """A compare-and-set of an agent's state found another version."""


class KeyTaken(StoreError):
    """An effect was about to be called, and another run has its business key by now."""


class CountedOn(StoreError):
    """An effect was about to be undone, and another run has its result by its business key."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} has the same key and counts on it")
        self.run = run


class CancelAsked(StoreError):
    """Somebody wants this run to stop, and was first: what it would have committed was not written."""

    def __init__(self, run: str, by: str, note: str | None = None) -> None:
        super().__init__(f"run {run} is to stop: cancelled by {by}" + (f": {note}" if note else ""))
        self.run = run
        self.by = by
        self.note = note


class SourceLost(StoreError):
    """Another process reads the source now. What this one brought was not stored."""


class ClaimLost(StoreError):
    """A fenced write was refused: this process no longer owns the run. Nothing was written."""


class Failure(WakefulError):
    """How a piece of work failed."""


class Transient(Failure):
    """It may work later. Retried with backoff, or after `retry_after`.

    `lasting`: this kind is known to go away by itself, so it is retried for a day by default. A subclass that says False has a
    bounded number of attempts, as an exception of an unknown kind has.
    """

    lasting: ClassVar[bool] = True

    def __init__(self, *args: object, retry_after: Duration | None = None) -> None:
        super().__init__(*args)
        self.retry_after: Microseconds | None = None if retry_after is None else duration(retry_after)


class RateLimited(Transient):
    """The other side said how long to wait. Waits as told and uses up no attempt."""

    def __init__(self, *args: object, retry_after: Duration = "1s") -> None:
        super().__init__(*(args or ("rate limited",)), retry_after=retry_after)


class NotSent(Transient):
    """An action that certainly did nothing: trying it again repeats nothing."""


class StepTimeout(Transient, TimeoutError):
    """A step's own time limit ran out."""


class LockTimeout(Transient):
    """A lock had another holder for as long as the run was to wait."""


class LockLost(Transient):
    """What was to be committed inside a lock came when the lock was not held any more. Nothing was written."""

    lasting = False


class Stuck(Transient):
    """No step, no log line and no other sign of progress for longer than `stuck_after`: the attempt was interrupted."""

    lasting = False


class CommandFailed(Transient):
    """A program of `app.command` could not be started, took too long, or ended with another exit code than 0."""

    lasting = False


class CancelledInside(Transient):
    """The code of a handler, a step or a channel was cancelled by itself, not by Wakeful."""

    lasting = False


class Persistent(Failure):
    """Trying again would fail the same way."""


class InvalidData(Persistent):
    """The event's data does not fit the model of the handler; the handler did not start."""


class InvalidKey(Persistent):
    """What `key=`, `priority=` or `once=` says of an event is no key or priority, or is not known; the handler did not start."""

    problem: str = ""  # what is wrong, without the event
    exhausted: bool = False  # the expression ran out of its budget


class NotSerialisable(Persistent):
    """An argument or a result cannot be stored as JSON, or is over the limit."""


class UnfinishedCalls(Persistent):
    """The handler returned while a `run.*` call was still in flight."""


class DeadlineExceeded(Persistent):
    """The run's deadline passed before it finished."""


class TooManyCrashes(Persistent):
    """The run was in flight in too many processes that died."""


class StepFailed(Persistent):
    """A step's stored error, when its own class cannot be found any more."""


class EffectAbandoned(Persistent):
    """A person decided that an effect is not to happen any more."""


class TimedOut(Persistent):
    """What a run waited for (an event, a person's answer, another run) did not come in time; or the end of a run that
    `app.result` waited for.
    """


class ChildFailed(Persistent):
    """A run that was called with `run.call` is dead, denied or cancelled."""


class RunFailed(Persistent):
    """A run whose result was waited for is dead, denied or cancelled: `run` is its id, `state` which of these, and `error`
    the exception that it ended with, None where there was none.
    """

    def __init__(self, *args: object, run: str = "", state: str = "", error: Exception | None = None) -> None:
        super().__init__(*args)
        self.run = run
        self.state = state
        self.error = error


class UnknownChannel(Persistent):
    """run.send to a channel that nobody declared."""


class CommandInterrupted(Persistent):
    """A program of `app.command` was under way when its process died or stopped: nobody knows whether it finished."""


class InvalidState(Persistent):
    """What is stored as the state of an agent does not fit its model."""


class NotAnAction(Persistent):
    """`run.act` or `run.stage` was given something that is not declared with `@action`."""


class Denied(Failure):
    """Not allowed. Never retried; recorded as a policy outcome."""


MOST_NAMES = 16


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean "x"?' when something close is known, else the list of what is known."""
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f' Did you mean "{close[0]}"?'
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
    return f" Known: {shown}."
