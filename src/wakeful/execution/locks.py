"""`async with run.lock("name")`: one run at a time, across all workers.

The lock belongs to the run and the token of its claim. So it is free as soon as the run no longer runs under that
token, even if its process died. The lock's own token is the fence: every commit from inside the block carries it, and
is refused once the lock has another holder.

A context variable tells which code is inside the block: a branch of the handler that runs beside the block is not, and
a task that is started inside it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wakeful.clock import SECOND, Duration, Microseconds, duration, readable, seconds
from wakeful.clock import to_text as time_text
from wakeful.errors import ClaimLost, LockTimeout, Persistent
from wakeful.execution.lock_news import wake
from wakeful.stores.verbs.locks import FreeLock, HeldLock, LockHolder, TakeLock

if TYPE_CHECKING:
    from wakeful.execution.attempt import Attempt
    from wakeful.model import Claim

LONGEST_NAME = 200
# How long until a run looks again for a lock that a run of another process holds.
FIRST_LOOK: Microseconds = SECOND // 20
LAST_LOOK: Microseconds = SECOND // 2

_inside: contextvars.ContextVar[tuple[tuple[Claim, HeldLock], ...]] = contextvars.ContextVar(
    "wakeful_locks", default=()
)


def locks_held(claim: Claim) -> tuple[HeldLock, ...]:
    """The locks of this run that the calling code is inside of."""
    held = _inside.get()
    return tuple([lock for owner, lock in held if owner is claim]) if held else ()


class Lock:
    """One use of a lock. `token` rises with every holder: pass it to a system that can refuse writes of an earlier
    holder.
    """

    def __init__(self, attempt: Attempt, name: str, wait: Duration) -> None:
        self.name = checked_name(name)
        self._limit = checked_wait(wait)
        self._attempt = attempt
        self._claim = attempt.claim
        self._held: HeldLock | None = None
        self._entered: contextvars.Token[tuple[tuple[Claim, HeldLock], ...]] | None = None

    @property
    def token(self) -> int:
        """The fence. Available only inside the block."""
        if self._held is None:
            message = f'run.lock("{self.name}"): its token is only known inside `async with`'
            raise Persistent(message)
        return self._held.token

    async def __aenter__(self) -> Self:
        if self._held is not None or self.name in [lock.name for lock in locks_held(self._claim)]:
            message = (
                f'run.lock("{self.name}") inside itself: agent {self._attempt.agent} already holds this lock and would wait for '
                "itself. Take it once, around everything that needs it"
            )
            raise Persistent(message)
        with self._attempt.at_work():
            self._held = await self._take()
        self._entered = _inside.set((*_inside.get(), (self._claim, self._held)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            with contextlib.suppress(
                ValueError
            ):  # the block ends in another task than it began in, where it was never set
                _inside.reset(self._entered)
            self._entered = None
        self._held = None
        await self._let_go()

    async def _take(self) -> HeldLock:
        """Ask for the lock. While another run holds it, wait for a notification that a lock was released, or look again
        after a while.
        """
        attempt = self._attempt
        around, own = attempt.surroundings, attempt.locks_in_use
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = around.later(seconds(self._limit), partial(wake, over))
        rest = FIRST_LOOK
        try:
            while True:
                heard = around.lock_news.listen()
                last = self._limit == 0 or over.done()
                holder: LockHolder | None = None
                if (
                    self.name not in own
                ):  # otherwise another branch of this run has it, and the store would grant it again
                    own.add(self.name)
                    answer = await self._ask(gives_up=last)
                    if isinstance(answer, HeldLock):
                        return answer
                    holder = answer
                    own.discard(self.name)
                if last:
                    raise self._too_late(holder)
                look = around.later(seconds(rest), partial(wake, heard))
                try:
                    with attempt.resting():
                        await asyncio.wait({heard, over}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    look.cancel()
                    heard.cancel()
                rest = min(rest * 2, LAST_LOOK)
        finally:
            timer.cancel()

    async def _ask(self, *, gives_up: bool) -> HeldLock | LockHolder:
        request = TakeLock(self._claim, self._attempt.app, self.name, gives_up)
        try:
            return await self._attempt.surroundings.store.do(request)
        except BaseException:
            # The cancelled request may have got the lock without knowing.
            await self._let_go()
            raise

    async def _let_go(self) -> None:
        """Release the lock. An attempt that is over holds no lock, so nothing is stored then. A cancelled run is
        different: it goes on under the same token to undo its effects, which may take long.
        """
        attempt = self._attempt
        try:
            if attempt.interrupted in {None, "cancelled"}:
                await asyncio.shield(attempt.surroundings.store.do(FreeLock(self._claim, attempt.app, self.name)))
        except ClaimLost:
            attempt.interrupt("lost")
            raise
        finally:
            attempt.locks_in_use.discard(self.name)
            attempt.surroundings.lock_news.tell()

    def _too_late(self, holder: LockHolder | None) -> LockTimeout:
        who = (
            "another branch of this run holds it"
            if holder is None
            else f"run {holder.run} of agent {holder.agent} has held it since {time_text(holder.since)}"
        )
        remedy = "" if holder is None else f"`wakeful why {holder.run}` shows what that run is doing. "
        return LockTimeout(
            f'lock "{self.name}" was not free within {readable(self._limit)}: {who}. {remedy}'
            "Wait longer with run.lock(…, wait=…), or hold it for a shorter time"
        )


def checked_name(name: object) -> str:
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME or "\0" in name:
        message = f"run.lock: a lock's name is a text of at most {LONGEST_NAME} characters, not {name!r}"
        raise Persistent(message)
    return str.__str__(name)


def checked_wait(wait: Duration) -> Microseconds:
    try:
        limit = duration(wait)
    except (TypeError, ValueError) as error:
        message = f"run.lock: wait: {error}"
        raise Persistent(message) from None
    if limit < 0:
        message = f"run.lock: wait must be from 0 up, not {wait!r}"
        raise Persistent(message)
    return limit
