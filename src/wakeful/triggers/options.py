"""Unknown options of triggers are refused when the app is loaded, with the nearest known option."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from wakeful.errors import ConfigError, did_you_mean

P = ParamSpec("P")
T = TypeVar("T")


def refuse_unknown_options(function: Callable[P, T]) -> Callable[P, T]:
    """Raise ConfigError for keyword arguments that the function does not take, before it is called."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> T:
        for name in options:
            if name not in known:
                message = f'{function.__name__}(…): unknown option "{name}".{did_you_mean(name, known)}'
                raise ConfigError(message)
        return function(*args, **options)

    return checked
