"""A fixed moment for commands and servers that run in this process, whichever way they read the time."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from pydantic_core import core_schema

from wakeful.clock import Microseconds, SystemClock

REAL = dt.datetime


class AlsoReal(type(REAL)):  # type: ignore[misc]
    """An instance of the real class counts as one of the frozen class."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, REAL)


@contextlib.contextmanager
def frozen(moment: Microseconds) -> Iterator[None]:
    """Let the time stand still at this moment. Deadlines of asyncio and of threads go on: they use the monotonic clock."""
    at = REAL(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=moment)

    class Frozen(REAL, metaclass=AlsoReal):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return at.astimezone(tz).replace(tzinfo=tz)

        @classmethod
        def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
            return core_schema.datetime_schema()  # a model that is declared meanwhile has the usual field

    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(SystemClock, "now", lambda _: moment))
        stack.enter_context(patch.object(SystemClock, "for_database", lambda _: moment))
        stack.enter_context(patch.object(time, "time", lambda: moment / 1_000_000))
        stack.enter_context(patch.object(time, "time_ns", lambda: moment * 1000))
        stack.enter_context(patch.object(dt, "datetime", Frozen))
        for name, module in list(sys.modules.items()):
            if name.startswith("wakeful") and getattr(module, "datetime", None) is REAL:
                stack.enter_context(patch.object(module, "datetime", Frozen))
        yield
        # A module that was loaded meanwhile has taken the frozen class with it.
        for name, module in list(sys.modules.items()):
            if name.startswith("wakeful") and module.__dict__.get("datetime") is Frozen:
                module.__dict__["datetime"] = REAL
