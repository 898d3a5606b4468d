"""Does some data fit an agent? Asked before its handler runs, and before a person's edited data is stored."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from wakeful.errors import InvalidData

SHOWN_VALIDATION_ERRORS = 20


class Taker(Protocol):
    """What this needs to know of an agent."""

    @property
    def name(self) -> str: ...
    @property
    def data_model(self) -> TypeAdapter[Any] | None: ...


def read_data(data: Any, agent: Taker, *, what: str) -> Any:
    """The data as the agent's handler takes it. InvalidData names the fields that do not fit."""
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
