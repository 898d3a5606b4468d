"""The business key of a use of an action, computed from its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, from_json, to_jsonable_python

from wakeful.errors import Persistent
from wakeful.intake.flow import as_key, shown_source
from wakeful.stored_errors import words_of

if TYPE_CHECKING:
    from wakeful.execution.actions import Action


def key_of(action: Action[..., Any], text: str) -> str | None:
    """The business key of a use of an action, from its stored arguments. None: it has no key and is performed like any
    other. Raises Persistent if the key cannot be computed: an effect that should happen once must not be repeated by
    mistake.
    """
    once = action.options.once
    if once is None:
        return None
    try:
        if action.key_reader is not None:
            value = action.key_reader(arguments_by_name(action, text))
        else:
            arguments, keywords = action.read(text)
            value = once(*arguments, **keywords)  # type: ignore[operator]  # a text has a reader
        return None if value is None else as_key(value) or None
    except Exception as error:  # a user's function may raise anything
        shown = f'"{once}"' if isinstance(once, str) else shown_source(once)
        words = words_of(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {words_of(error)}"
        message = f"action {action.name}: once={shown} cannot be computed for these arguments: {words}"
        raise Persistent(message) from error


def arguments_by_name(action: Action[..., Any], text: str) -> dict[str, Any]:
    """The stored arguments by parameter name, with defaults for those that were not given."""
    stored = from_json(text)
    keywords = stored.pop()["**"] if stored and isinstance(stored[-1], dict) and "**" in stored[-1] else {}
    parameters = list(action.signature.parameters.values())[1:]
    named: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.default is not parameter.empty:
            try:
                named[parameter.name] = to_jsonable_python(parameter.default)
            except PydanticSerializationError:
                continue
    named |= {parameter.name: value for parameter, value in zip(parameters, stored, strict=False)}
    return named | keywords


def arguments_as_called(action: Action[..., Any], text: str) -> dict[str, Any]:
    """The arguments by parameter, as the action gets them: a rule that denies 666 denies "666" for an int too."""
    return {name: action.as_called(name, value) for name, value in arguments_by_name(action, text).items()}
