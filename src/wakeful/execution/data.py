"""Checks whether data fits an agent: before its handler runs, and before edited data is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import ValidationError

from wakeful.clock import Microseconds
from wakeful.errors import InvalidData
from wakeful.model import Event

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SHOWN_VALIDATION_ERRORS = 20


class BatchOptions(Protocol):
    @property
    def batch(self) -> tuple[int, Microseconds] | None: ...


class Taker(Protocol):
    """The parts of an agent that this module reads."""

    @property
    def name(self) -> str: ...
    @property
    def data_model(self) -> TypeAdapter[Any] | None: ...


class BatchTaker(Taker, Protocol):
    """Also whether it takes several events at once."""

    @property
    def options(self) -> BatchOptions: ...


def edit(events: list[Event], data: Any, agent: BatchTaker) -> None:
    """Replace the events' data by a person's. An agent with batch= takes a list, one entry for each event."""
    if agent.options.batch is None:
        events[0].data = data
        return
    if not isinstance(data, list) or len(data) != len(events):
        message = f"the edited data must be a list of {len(events)} for agent {agent.name}: one entry for each event"
        raise InvalidData(message)
    for event, one in zip(events, data, strict=True):
        event.data = one


def read_events(events: list[Event], agent: BatchTaker) -> Any:
    """The handler's second argument: the data of its event, or with batch= a list with the data of all its events."""
    if agent.options.batch is None:
        return read_data(events[0].data, agent, what=f"the data of {events[0].type}")
    what = f"the data of {len(events)} event{'' if len(events) == 1 else 's'}, {events[0].type} first,"
    return read_data([event.data for event in events], agent, what=what)


def read_data(data: Any, agent: Taker, *, what: str) -> Any:
    """The data as the handler takes it. InvalidData names the fields that do not fit."""
    if agent.data_model is None:
        return data
    try:
        return agent.data_model.validate_python(data)
    except ValidationError as error:
        lines = [
            f"{'.'.join(str(part) for part in one['loc']) or 'data'}: {one['msg']}"
            for one in error.errors(include_url=False, include_input=False)[:SHOWN_VALIDATION_ERRORS]
        ]
        message = f"{what} does not fit agent {agent.name}: " + "; ".join(lines)
        raise InvalidData(message) from None
