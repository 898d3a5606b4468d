from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from wakeful.shell.life import fast_loop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> Mapping[str, LoopFactory]:
    """The HTTP server is tried on the loop of asyncio, and on the one that `wakeful serve` has where there is one."""
    fast = fast_loop()
    return {"asyncio": asyncio.SelectorEventLoop, **({} if fast is None else {"uvloop": fast})}
