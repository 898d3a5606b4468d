"""Calls a user's function, sync or async: the only place that uses a thread for it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from wakeful.clock import SECOND, Microseconds, readable, seconds
from wakeful.errors import NotSent, StepTimeout, Transient

# How long a cancelled call may take to notice it.
CANCELLED_WITHIN = 0.5
# How long one check of arguments or of an output may take.
CHECK_LIMIT = 30 * SECOND


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it returns an awaitable."""
    try:
        return _is_async(function)
    except TypeError:  # an unhashable object cannot be cached
        return _is_async.__wrapped__(function)


@lru_cache(maxsize=4096)
def _is_async(function: Callable[..., Any]) -> bool:
    inner = function
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


async def call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    *,
    what: str,
    limit: Microseconds | None = None,
) -> Any:
    """The function's result. A sync function runs in a thread; past `limit` the thread is abandoned, since a thread cannot be
    stopped, and its result is dropped.
    """
    if limit is None:
        return await _call(function, arguments, keywords)
    scope = asyncio.timeout(seconds(limit))
    try:
        async with scope:
            return await _call(function, arguments, keywords)
    except TimeoutError:
        if not scope.expired():
            raise  # a TimeoutError of the function itself
        message = f"{what} took longer than its time limit of {readable(limit)}"
        raise StepTimeout(message) from None


async def _call(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if not is_async(function):
        value = await in_thread(function, arguments, keywords)
        if not inspect.isawaitable(value):
            return value
        return await value  # a plain function that returned a coroutine, such as a lambda around an async one
    try:
        return await function(*arguments, **keywords)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling() == 0:  # this task was not cancelled: the function raised it
            message = "the function was cancelled from inside"
            raise Transient(message) from error
        raise


async def in_thread(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a sync function in a thread of its own. The thread is a daemon, so that a hanging one does not keep a worker from
    stopping.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def resolve(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(function, *arguments, **keywords)
        except StopIteration as stop:  # cannot be set on a future
            error = RuntimeError(f"StopIteration: {stop.value}")
        except BaseException as caught:
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(resolve, value, error)

    threading.Thread(target=work, name=f"wakeful {getattr(function, '__name__', 'function')}", daemon=True).start()
    return await future


async def within_lease(
    made: Awaitable[Any], limit: Microseconds, time_for_calls: Callable[[], float], *, what: str
) -> Any:
    """Wait for a call that changes the outside world, at most until its limit and the end of the lease, which is checked again as
    it is renewed. A process that was paused so long that its lease may have expired does not start the call.
    """
    if time_for_calls() <= 0:
        if inspect.iscoroutine(made):
            made.close()
        message = f"the lease of this process may have expired: {what} was not started"
        raise NotSent(message)
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(without_exit(made))
    ends = loop.time() + seconds(limit)
    try:
        while True:
            await asyncio.wait({task}, timeout=max(0.0, min(ends - loop.time(), time_for_calls())))
            if task.done():
                return task.result()
            if loop.time() >= ends:
                message = f"{what} took longer than its time limit of {readable(limit)}"
                raise StepTimeout(message)
            if time_for_calls() <= 0:
                message = f"the lease of this process could not be renewed while {what} was in progress"
                raise Transient(message)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCELLED_WITHIN)


async def without_exit(made: Awaitable[Any]) -> Any:
    """Turn SystemExit and other BaseExceptions into Transient: asyncio would let sys.exit() end the whole process, and error handlers
    would miss the others. It is unknown how much the function had done by then.
    """
    try:
        return await made
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except SystemExit as error:
        message = f"the function called sys.exit({error.code!r})"
        raise Transient(message) from error
    except BaseException as error:
        message = f"{type(error).__name__}: {error}"
        raise Transient(message) from error
