"""`data=`: what an agent gets instead of what a sender sent. A CEL expression over `data` and `event.*`, or a function of the data.

It is asked once, before the event is stored: so what is stored, shown and replayed is the normal form.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from pydantic_core import from_json, to_json

from wakeful.cel import compile_expression
from wakeful.errors import ConfigError, InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, refuse_faults
from wakeful.model import Event
from wakeful.stored_errors import words_of

Mapping = str | Callable[[Any], Any]


def read_mapping(data: Mapping | None, *, where: str) -> Callable[[Event], Any] | None:
    """A `data=` as something that gives an event's new data; None if there is none. `where` names the place it stands at."""
    if data is None:
        return None
    if isinstance(data, str):
        expression = compile_expression(data, where=f"{where}: data")
        return lambda event: plain(expression.value(event))
    if not callable(cast("object", data)):
        message = f'{where}: data must be a CEL expression, like "data.after", or a function of the data, not {data!r}'
        raise ConfigError(message)
    if is_async(data):
        message = f"{where}: data is an async function, and nothing waits while an event is taken in: give a plain one"
        raise ConfigError(message)
    function = data
    return lambda event: plain(function(event.data))


def is_async(function: Callable[..., Any]) -> bool:
    """Does it give something to wait for?"""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 an object's own


def apply_mapping(mapping: Callable[[Event], Any] | None, event: Event) -> None:
    """Give an event its new data. InvalidEvent says why there is none."""
    if mapping is None:
        return
    try:
        value = mapping(event)
        refuse_faults(value, depth=DEPTH_LIMIT, inside=("data",))
    except InvalidEvent:
        raise
    except Exception as error:  # a user's function
        message = f"data= could not be told of event {event.id}: {type(error).__name__}: {words_of(error)}"
        raise InvalidEvent(message, field="data") from error
    event.data = value


def plain(value: Any) -> Any:
    """A value as JSON has it: what is stored is what the handler gets."""
    return from_json(to_json(value, inf_nan_mode="strings"))


def name_of_mapping(data: Mapping | None) -> str:
    """By which two mappings are told apart, in this process and the next."""
    if data is None or isinstance(data, str):
        return repr(data)
    return f"{getattr(data, '__module__', '')}.{getattr(data, '__qualname__', repr(type(data)))}"
