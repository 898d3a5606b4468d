"""A declared agent: its function, triggers and options, and what its signature says about data and output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_origin, get_type_hints

from pydantic import TypeAdapter

from wakeful.errors import ConfigError
from wakeful.execution.command import ProgramCommand
from wakeful.execution.versions import version_of
from wakeful.functions.options import AgentOptions, name_of
from wakeful.intake.flow import FlowPlan
from wakeful.triggers.base import Trigger


@dataclass(frozen=True, slots=True)
class Agent:
    """A named function that handles one kind of event."""

    name: str
    function: Callable[..., Any]
    triggers: tuple[Trigger, ...]
    options: AgentOptions
    takes_data: bool
    data_model: TypeAdapter[Any] | None
    written_at: str
    flow: FlowPlan
    returns: TypeAdapter[Any] | None = None

    def describe(self) -> dict[str, Any]:
        """The agent for listings and JSON."""
        return {
            "name": self.name,
            "owner": self.options.owner,
            "triggers": [trigger.describe() for trigger in self.triggers],
            "attempts": self.options.attempts,
            "concurrency": self.options.concurrency,
            "rate": None if self.options.rate is None else str(self.options.rate),
            **self.flow.describe(),
            "deliver": self.options.deliver,
            "checks": [name_of(check) for check in self.options.checks],
            "state": None if self.options.state is None else self.options.state.__name__,
            "emits": None if self.options.emits is None else list(self.options.emits.patterns),
            "version": version_of(self.function, self.options),
            "written_at": self.written_at,
            **({"command": self.function.shown} if isinstance(self.function, ProgramCommand) else {}),
        }


def read_returns(function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    """A validator for the handler's declared return type. None if there is none or it cannot be read: output is not
    checked.
    """
    try:
        annotation = get_type_hints(function, include_extras=True).get("return", Any)
        return None if annotation is Any else TypeAdapter(annotation)
    except Exception:
        return None


def read_signature(
    function: Callable[..., Any], triggers: tuple[Trigger, ...], where: str, *, lists: bool = False
) -> tuple[bool, TypeAdapter[Any] | None]:
    """Whether the handler takes the event's data, and the validator for it. ConfigError for a signature that cannot be
    called. `lists`: the handler takes the data of several events at once.
    """
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
    ]
    if not parameters or len(required) > 2 or any(one.kind == one.KEYWORD_ONLY for one in required):
        message = f"{where}: a handler takes (run) or (run, data), not {inspect.signature(function)}"
        raise ConfigError(message)
    if len(parameters) == 1:
        return False, None
    data = parameters[1]
    try:
        annotation = get_type_hints(function, include_extras=True).get(data.name, Any)
    except NameError as error:
        message = f"{where}: the type of {data.name} cannot be found: {error}. Import it outside TYPE_CHECKING"
        raise ConfigError(message) from None
    if annotation is Any:
        return True, None
    if lists and get_origin(annotation) not in {list, Sequence} and annotation is not list:
        message = f"{where}: {data.name} must be a list with batch=, one entry for each event: write list[…]"
        raise ConfigError(message)
    without = [trigger.describe() for trigger in triggers if not trigger.carries_data]
    if without:
        message = f"{where}: {data.name} is typed, but {without[0]} brings no data. Take only (run), or give it a trigger with data"
        raise ConfigError(message)
    try:
        return True, TypeAdapter(annotation)
    except Exception as error:
        message = f"{where}: {data.name}: {annotation!r} cannot be validated: {str(error).splitlines()[0]}"
        raise ConfigError(message) from None
