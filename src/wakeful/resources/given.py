"""The parameters of a noun's functions, taken from their signatures: what a surface offers, and how it parses the values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from typing_extensions import get_type_hints

from wakeful.errors import did_you_mean
from wakeful.resources.parameters import NEEDED, Param

Kind = Literal["text", "flag", "number", "choice", "json"]
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Given:
    """One parameter, as surfaces use it."""

    name: str
    kind: Kind
    default: Any
    param: Param
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def needed(self) -> bool:
        """Whether the command line requires it."""
        return self.required or self.in_shell is NEEDED

    @property
    def http(self) -> str:
        return self.param.http or self.name

    @property
    def flag(self) -> str:
        return self.param.flag or f"--{self.name.replace('_', '-')}"

    @property
    def metavar(self) -> str:
        return self.param.metavar or self.name.upper().replace("_", "-")

    @property
    def in_shell(self) -> Any:
        """The default on the command line; UNSET: the function's own."""
        return self.param.in_shell

    @property
    def help(self) -> str:
        return f"{self.param.help}, like {self.param.example}" if self.param.example else self.param.help

    def text(self, text: str) -> Any:
        """Parse a text. Raises ValueError whose message completes a sentence about the parameter."""
        if self.kind == "choice" and text not in self.choices:
            message = f'no {self.param.what or self.http} "{text[:80]}".{did_you_mean(text, self.choices)}'
            raise ValueError(message)
        if self.kind == "number":
            return self.whole(text)
        return text if self.param.read is None else self.param.read(text)

    def whole(self, text: str) -> int:
        """A whole number within its bounds."""
        plain = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 10
        least, most = self.param.least, self.param.most
        if not plain or int(text) < least or (most is not None and int(text) > most):
            message = f'"{text[:80]}" is not a whole number {self.reach}'
            raise ValueError(message)
        return int(text)

    @property
    def reach(self) -> str:
        least, most = self.param.least, self.param.most
        return f"from {least} up" if most is None else f"from {least} to {most}"


@cache
def parameters_of(function: Callable[..., Any]) -> tuple[Given, ...]:
    """The keyword-only parameters of a function, in order."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        _given(one, hints[one.name])
        for one in inspect.signature(function).parameters.values()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    )


def returned_by(function: Callable[..., Any]) -> Any:
    """The type that a function returns, without None."""
    hint = get_type_hints(function, include_extras=True)["return"]
    kinds = [one for one in get_args(hint) if one is not NoneType] if get_origin(hint) in {Union, UnionType} else [hint]
    return Union[tuple(kinds)]  # noqa: UP007 the union is built at run time


def _given(parameter: inspect.Parameter, hint: Any) -> Given:
    marks: tuple[Any, ...] = ()
    while get_origin(hint) is Annotated:
        hint, *inner = get_args(hint)
        marks += tuple(inner)
    param = next((mark for mark in marks if isinstance(mark, Param)), None)
    if param is None:
        message = f"{parameter.name}: a keyword-only parameter of a noun's function must be Annotated[…, Param(…)]"
        raise TypeError(message)
    kinds = [one for one in get_args(hint) if one is not NoneType] if get_origin(hint) in {Union, UnionType} else [hint]
    kind = kinds[0] if len(kinds) == 1 else Any
    if get_origin(kind) is Literal:
        return Given(parameter.name, "choice", parameter.default, param, tuple(get_args(kind)))
    known: dict[Any, Kind] = {str: "text", bool: "flag", int: "number"}
    found = known.get(kind, "json")
    if (found == "json" and param.read is not None) or (param.read is not None and found == "number"):
        found = "text"
    return Given(parameter.name, found, parameter.default, param)
