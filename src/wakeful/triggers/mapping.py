"""`data=`: replaces the data that a sender sent. A CEL expression over `data` and `event.*`, or a function of the data.

It is evaluated once, before the event is stored, so the new data is what is stored, shown and replayed.
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
    """A `data=` as a function from an event to its new data; None if there is none. `where` names its place in messages."""
    if data is None:
        return None
    if isinstance(data, str):
        expression = compile_expression(data, where=f"{where}: data")
        return lambda event: plain(expression.value(event))
    if not callable(cast("object", data)):
        message = f'{where}: data must be a CEL expression, like "data.after", or a function of the data, not {data!r}'
        raise ConfigError(message)
    if is_async(data):
        message = f"{where}: data is an async function, but intake does not wait: give a plain function"
        raise ConfigError(message)
    function = data
    return lambda event: plain(function(event.data))


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it returns an awaitable."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 an object's own


def apply_mapping(mapping: Callable[[Event], Any] | None, event: Event) -> None:
    """Replace the event's data. Raises InvalidEvent if the mapping fails."""
    if mapping is None:
        return
    try:
        value = mapping(event)
        refuse_faults(value, depth=DEPTH_LIMIT, inside=("data",))
    except InvalidEvent:
        raise
    except Exception as error:  # the user's function may raise anything
        message = f"data= failed for event {event.id}: {type(error).__name__}: {words_of(error)}"
        raise InvalidEvent(message, field="data") from error
    event.data = value


def plain(value: Any) -> Any:
    """The value after a round trip through JSON: the stored value is what the handler gets."""
    return from_json(to_json(value, inf_nan_mode="strings"))


def name_of_mapping(data: Mapping | None) -> str:
    """A name that tells two mappings apart, stable across processes."""
    if data is None or isinstance(data, str):
        return repr(data)
    return f"{getattr(data, '__module__', '')}.{getattr(data, '__qualname__', repr(type(data)))}"
