"""Values as JSON text: the stored form of arguments, results and outputs. Made by pydantic, never pickle.

A value looks the same on the first run as on a resume: it is always read from the stored text, through the return
annotation if there is one. So a difference shows in the first test, not at 2 a.m.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, get_type_hints

# pydantic itself is imported where an annotation or a model needs it: commands that only show values need just its
# core.
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json, to_jsonable_python

from wakeful.errors import NotSerialisable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RESULT_LIMIT = 64 * 1024 * 1024
_SCALARS = frozenset({str, int, bool, float, type(None)})
PLAIN = (
    None,
    type(None),
    str,
    int,
    bool,
    float,
    dict,
    list,
)  # results that need no reader: JSON returns them unchanged


def to_text(value: Any, *, what: str, passed: bool = False, limit: int = RESULT_LIMIT) -> str:
    """JSON text of a value. `what` names it in the error ("the result of step fetch"); `passed`: it is passed, as an
    argument or a message, and not returned.
    """
    try:
        raw = to_json(value)
        text = raw.decode()
    except (PydanticSerializationError, UnicodeError, ValueError, TypeError, RecursionError) as error:
        message = (
            f"{what} cannot be stored as JSON ({str(error).splitlines()[0][:200]}): "
            f"{'pass' if passed else 'return'} plain values, a dataclass or a pydantic model"
        )
        raise NotSerialisable(message) from None
    if len(raw) > limit:
        message = (
            f"{what} is {len(raw):,} bytes of JSON, over the limit of {limit:,}: "
            "keep large things elsewhere (a file, a bucket, a table) and pass their address"
        )
        raise NotSerialisable(message)
    return text


def from_text(
    text: str, returns: TypeAdapter[Any] | None = None, *, step: str = "", of: str = "", strict: bool | None = None
) -> Any:
    """The value of a JSON text, as the declared type. For the error: `step` is the name of a step, or `of` describes it
    ("action pay").
    """
    if returns is None:
        return from_json(text)
    try:
        return returns.validate_json(text, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = (
            f"the result of {of or f'step {step}'} does not fit its return annotation ({place + ': ' if place else ''}{first['msg']}): "
            "return what is declared, or declare what is returned"
        )
        raise NotSerialisable(message) from None


def read_back(value: Any, text: str, returns: TypeAdapter[Any] | None, *, step: str = "", of: str = "") -> Any:
    """The value as a resume would read it from `text`. Scalars without an annotation need no reading."""
    if returns is None and type(value) in _SCALARS:
        return value
    return from_text(text, returns, step=step, of=of)


@lru_cache(maxsize=4096)
def returns_of(function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    """The reader of a function's results, by its return annotation; None if plain JSON will do."""
    annotation = _returned_by(function)
    if annotation is Any or annotation in PLAIN:
        return None
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(annotation)
    except Exception:
        return None


@lru_cache(maxsize=4096)
def schema_of_result(function: Callable[..., Any]) -> str | None:
    """The JSON schema of a function's results, by its return annotation; None if anything fits."""
    annotation = _returned_by(function)
    if annotation is Any:
        return None
    from pydantic import TypeAdapter

    try:
        return to_json(TypeAdapter(annotation).json_schema()).decode()
    except Exception:  # an annotation without a schema
        return None


def given_result(text: str, function: Callable[..., Any], *, of: str) -> Any:
    """A result that a person gave, as the type that the function declares. Plain types are checked too: it is
    unverified.
    """
    returns, annotation = returns_of(function), _returned_by(function)
    if returns is not None or annotation not in PLAIN:
        return from_text(text, returns, of=of)
    from pydantic import TypeAdapter

    return from_text(text, TypeAdapter(annotation), of=of, strict=True)


def _returned_by(function: Callable[..., Any]) -> Any:
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True).get("return", Any)
    except (NameError, TypeError, AttributeError):  # names that are imported only for type checkers
        return Any


def digest_of_arguments(
    arguments: tuple[Any, ...], keywords: Mapping[str, Any], *, step: str = "", of: str = ""
) -> tuple[str, str]:
    """A digest of a call's arguments, and their JSON text. For the error: `step` is the name of a step, or `of`
    describes it ("action pay").

    Canonical: the order of keywords, mappings and sets does not matter. The order of a set differs between processes,
    so without this a resumed run would not find its step again.
    """
    if not arguments and not keywords:
        return "", "[]"
    what = f"the arguments of {of or f'step {step}'}"
    try:
        plain: Any = [_canonical(argument) for argument in arguments]
        # Keywords come last, under a name that no keyword can have. If the last argument looks like them, they are
        # always added.
        if keywords or (plain and isinstance(plain[-1], dict) and "**" in plain[-1]):
            plain.append({"**": _canonical(dict(keywords))})
    except (PydanticSerializationError, TypeError, RecursionError) as error:
        message = f"{what} cannot be stored as JSON ({str(error).splitlines()[0][:200]}): pass plain values"
        raise NotSerialisable(message) from None
    text = to_text(plain, what=what, passed=True)
    return blake2b(text.encode(), digest_size=9).hexdigest(), text


def plain(text: str) -> str:
    """Text that every database can store."""
    return text.replace("\0", "�")


def arguments_of(stored: Any) -> str:
    """The stored arguments of a call as in code: ("Ada", 3, colour="red")."""
    if not isinstance(stored, list):
        return "" if stored is None else f"({stored})"
    keywords: dict[str, Any] = {}
    if stored and isinstance(stored[-1], dict) and list(stored[-1]) == ["**"]:
        *stored, last = stored
        keywords = last["**"]
    parts = [_written(one) for one in stored] + [f"{name}={_written(one)}" for name, one in keywords.items()]
    return f"({', '.join(parts)})"


def _written(value: Any) -> str:
    return to_json(value, inf_nan_mode="strings").decode()


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: _canonical(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple | deque):
        return [_canonical(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_canonical(item) for item in value), key=to_json)
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return _canonical(value.model_dump())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _canonical(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Iterator):  # reading it would use it up and leave nothing for the function
        message = f"{kind.__name__} is an iterator, make it a list"
        raise TypeError(message)
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, TypeError):
        return value  # to_text names it in its error
