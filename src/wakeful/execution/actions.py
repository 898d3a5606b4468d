"""Declarations of functions that change the outside world: `@action`, and the `Operation` that an action is given.

An action says how safe a retry is, because only its author knows; `effects.py` acts on that.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args, get_type_hints, overload

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from wakeful.cel import compile_arguments
from wakeful.clock import SECOND, Duration, Microseconds, duration
from wakeful.errors import ConfigError, InvalidData, did_you_mean
from wakeful.functions.options import Backoff, as_backoff, location, name_of
from wakeful.intake.flow import ONCE_FOR
from wakeful.model import Safety

P = ParamSpec("P")
T = TypeVar("T")

Risk = Literal["low", "medium", "high"]
SHORTEST = SECOND // 1000
PLAIN = frozenset({str, int, bool, float, type(None)})
# Actions by name, so that effects that an earlier process left open can be settled. Declarations, not state.
_declared: dict[str, Action[..., Any]] = {}
_used: dict[tuple[str | None, str], Action[..., Any]] = {}


@dataclass(frozen=True, slots=True)
class Operation:
    """One use of an action by a run. `id` stays the same over all tries: pass it on as the deduplication key."""

    id: str
    action: str
    run: str
    tries: int
    cause: str = ""  # as `run.cause`


@dataclass(frozen=True, slots=True)
class ActionOptions:
    """The settings of an action."""

    name: str | None = None
    safety: Safety = "at_most_once"
    risk: Risk = "low"
    find: Callable[..., Any] | None = None
    settle: Microseconds = 30 * SECOND
    idempotent_for: Microseconds = 86400 * SECOND
    timeout: Microseconds = 30 * SECOND
    attempts: int | None = None  # as for a step
    backoff: Backoff = field(default_factory=Backoff)
    checks: tuple[Callable[..., Any], ...] = ()
    dependency: str | None = None
    undo: Callable[..., Any] | None = None
    once: str | Callable[..., Any] | None = None
    once_for: Microseconds = ONCE_FOR


class Action(Generic[P, T]):
    """A declared action. Called directly it is the plain function, for tests: `await post(Operation(…), 7)`."""

    def __init__(self, function: Callable[..., Any], options: ActionOptions) -> None:
        self.function = function
        self.options = options
        self.name = options.name or name_of(function)
        self.reference = f"{module_of(function)}:{function.__qualname__}" + (f"#{options.name}" if options.name else "")
        self.signature = inspect.signature(function)
        self.written_at = location(function)
        self._parameters = _parameters(function)
        self.key_reader: Callable[[Mapping[str, Any]], Any] | None = None  # set where once= is an expression
        _declared[self.reference] = self

    def __call__(self, operation: Operation, *arguments: P.args, **keywords: P.kwargs) -> Awaitable[T]:
        result: Awaitable[T] = self.function(operation, *arguments, **keywords)
        return result

    def __repr__(self) -> str:
        return f"<action {self.name} at {self.written_at}>"

    def read(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Read arguments from their stored text, as the types that the function declares. The first call reads them
        this way too, so that later calls get the same values.
        """
        stored = from_json(text)
        keywords = stored.pop()["**"] if stored and isinstance(stored[-1], dict) and "**" in stored[-1] else {}
        positional = [name for name in self._parameters if name != "**"]
        arguments = [
            self._read(positional[place] if place < len(positional) else "", value)
            for place, value in enumerate(stored)
        ]
        return arguments, {name: self._read(name, value) for name, value in keywords.items()}

    def as_called(self, name: str, value: Any) -> Any:
        """A stored argument as JSON of what the function gets: "80" for an int is 80, and "no" for a bool is false. The argument itself if
        its type cannot be read, or if what was read cannot be written as JSON that is read as the same.
        """
        reader = self._parameters.get(name)
        if reader is None:
            return value
        try:
            found = reader.validate_python(value)
            if type(found) is type(value) and type(found) in PLAIN:
                return found
            for by_alias in (True, False):
                written = reader.dump_python(found, mode="json", by_alias=by_alias, warnings=False)
                if _reads_as(reader, written, found):
                    return written
        except Exception:  # a user's type may raise anything
            return value
        return value

    def _read(self, name: str, value: Any) -> Any:
        reader = self._parameters.get(name)
        if reader is None:
            return value
        try:
            return reader.validate_python(value)
        except ValidationError as error:
            message = f"action {self.name}: {name} does not fit: {error.errors(include_url=False)[0]['msg']}"
            raise InvalidData(message) from None


def _reads_as(reader: TypeAdapter[Any], written: Any, wanted: Any) -> bool:
    try:
        return bool(reader.validate_python(written) == wanted)
    except ValidationError:
        return False


class Declares(Protocol):
    """The decorator that `@action(…)` returns: makes an action of a function, async or not."""

    @overload
    def __call__(self, function: Callable[Concatenate[Operation, P], Awaitable[T]], /) -> Action[P, T]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Operation, P], T], /) -> Action[P, T]: ...


def find_action(reference: str, app: str | None = None) -> Action[..., Any] | None:
    """The action declared under a reference, or None. If one function made several apps, each with its own action of
    that reference, the one that this app uses.
    """
    return _used.get((app, reference)) or _declared.get(reference)


def action_named(name: str) -> Action[..., Any] | None:
    """The only action of this name that this process has declared; None if there is none, or more than one."""
    found = [one for one in _declared.values() if one.name == name]
    return found[0] if len(found) == 1 else None


def parameters_by_action() -> dict[str, frozenset[str]]:
    """All actions that this process has declared, and their undos, with the names of their parameters."""
    found: dict[str, frozenset[str]] = {}
    for one in _declared.values():
        names = frozenset(list(one.signature.parameters)[1:])
        for name in (one.name, *([] if one.options.undo is None else [f"undo {one.name}"])):
            found[name] = found.get(name, frozenset()) | names
    return found


def uses(app: str, action: Action[..., Any]) -> None:
    """Record that an app uses an action."""
    _used[app, action.reference] = action


def module_of(function: Callable[..., Any]) -> str:
    """The name of the function's module; for a file that is run as a program, the file's name."""
    if function.__module__ != "__main__":
        return function.__module__
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).stem if file else "__main__"


@overload
def action(function: Callable[Concatenate[Operation, P], Awaitable[T]], /) -> Action[P, T]: ...
@overload
def action(function: Callable[Concatenate[Operation, P], T], /) -> Action[P, T]: ...
@overload
def action(
    *,
    name: str | None = None,
    safety: Safety = ...,
    risk: Risk = ...,
    find: Callable[..., Any] | None = None,
    settle: Duration = ...,
    idempotent_for: Duration = ...,
    timeout: Duration = ...,
    attempts: int | None = ...,
    backoff: Backoff | Duration = ...,
    checks: list[Callable[..., Any]] = ...,
    dependency: str | None = None,
    undo: Callable[..., Any] | None = None,
    once: str | Callable[..., Any] | None = None,
    once_for: Duration = ...,
) -> Declares: ...
def action(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a function as an action: `@action`, or `@action(safety="idempotent", risk="low")`.

    Its first parameter is the `Operation`. The others are the arguments of `run.act(fn, …)` and `run.stage(fn, …)`.

    Options: name; safety (idempotent, reconcile or at_most_once, the default); risk (low, medium, high); find and
    settle (for reconcile); idempotent_for; timeout; attempts; backoff; checks; dependency; undo; once and once_for (a
    business key).
    """
    if function is not None:
        return _declare(function, {})
    return lambda decorated: _declare(decorated, options)


def _declare(function: Callable[..., Any], given: dict[str, Any]) -> Action[..., Any]:
    where = f"@action on {name_of(function)} ({location(function)})"
    _refuse_without_operation(function, where)
    options = read_action_options(given, where=where)
    _refuse_unfit_undo(function, options.undo, where)
    declared: Action[..., Any] = Action(function, options)
    if options.once is not None:
        _read_key(declared, options.once, where)
    return declared


def _read_key(declared: Action[..., Any], once: str | Callable[..., Any], where: str) -> None:
    """Check once=: a text is CEL over the arguments; a function takes the action's arguments without the operation."""
    parameters = list(declared.signature.parameters.values())[1:]
    if isinstance(once, str):
        declared.key_reader = compile_arguments(once, [one.name for one in parameters], where=f"{where}: once")
        return
    if inspect.iscoroutinefunction(once):
        message = f"{where}: once={name_of(once)} is async: it is called before the action and must be a plain def"
        raise ConfigError(message)
    kinds = inspect.Parameter
    given = [one.name for one in parameters if one.kind in {kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD}]
    keywords = {one.name: None for one in parameters if one.kind is kinds.KEYWORD_ONLY}
    try:
        inspect.signature(once).bind(*given, **keywords)
    except TypeError as error:
        message = (
            f"{where}: once={name_of(once)} does not take what {declared.name} takes: {error}. It is called with the same "
            "arguments, without the Operation"
        )
        raise ConfigError(message) from None
    except ValueError:
        pass  # a builtin without a readable signature


def _refuse_without_operation(function: Callable[..., Any], where: str) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].kind in {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }:
        first = parameters[0]
        try:
            annotation = get_type_hints(function).get(first.name, first.annotation)
        except (NameError, TypeError):
            annotation = first.annotation
        if annotation in (Operation, inspect.Parameter.empty, "Operation"):
            return
    message = (
        f"{where}: an action's first parameter is its Operation, whose id lets the service recognise a repetition. "
        f"Write async def {name_of(function)}(op: Operation, …)"
    )
    raise ConfigError(message)


def takes_result(undo: inspect.Signature, undone: inspect.Signature) -> bool:
    """Whether an undo wants the result of the undone effect. Not if one of the arguments is itself called `result`."""
    return "result" in undo.parameters and "result" not in undone.parameters


def _refuse_unfit_undo(function: Callable[..., Any], undo: Any, where: str) -> None:
    """Refuse an undo that cannot be called with an Operation and the arguments of the undone action."""
    if undo is None:
        return
    inner = undo.function if isinstance(undo, Action) else undo
    _refuse_without_operation(inner, f"{where}: undo={name_of(inner)} ({location(inner)})")
    own, other = inspect.signature(function), inspect.signature(inner)
    kinds = inspect.Parameter
    given = [one for one in own.parameters.values() if one.kind in {kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD}]
    keywords = dict.fromkeys(one.name for one in own.parameters.values() if one.kind is kinds.KEYWORD_ONLY)
    if takes_result(other, own):
        keywords["result"] = None
    try:
        other.bind(*given, **keywords)
    except TypeError as error:
        message = (
            f"{where}: undo={name_of(inner)} ({location(inner)}) does not take what {name_of(function)} takes: {error}. "
            "It is called with an Operation of its own and the same arguments, and with result= if it has that parameter"
        )
        raise ConfigError(message) from None


def read_action_options(given: dict[str, Any], *, where: str) -> ActionOptions:
    """Check the given settings. ConfigError for an unknown or unfit one."""
    known = {one.name for one in fields(ActionOptions)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            message = f'{where}: unknown option "{name}".{did_you_mean(name, known)}'
            raise ConfigError(message)
        values[name] = _read_option(name, value, where)
    options = ActionOptions(**values)
    if "once_for" in values and options.once is None:
        message = f"{where}: once_for= says how long a key is known: give the action a once="
        raise ConfigError(message)
    if (options.safety == "reconcile") != (options.find is not None):
        message = f"{where}: " + (
            'safety="reconcile" needs find=, a function that checks whether the call was done'
            if options.find is None
            else f'find= is for safety="reconcile", this one is {options.safety}'
        )
        raise ConfigError(message)
    return options


def _read_option(name: str, value: Any, where: str) -> Any:
    if name in {"safety", "risk"}:
        choices = get_args(Safety if name == "safety" else Risk)
        if value not in choices:
            message = f'{where}: {name} "{value}".{did_you_mean(str(value), choices)}'
            raise ConfigError(message)
    elif name == "once" and not (value is None or callable(value) or (isinstance(value, str) and value.strip())):
        message = f'{where}: once must be a CEL expression like "arguments.invoice" or a function of the arguments, not {value!r}'
        raise ConfigError(message)
    elif name in {"settle", "idempotent_for", "timeout", "once_for"}:
        try:
            value = duration(value)
        except (TypeError, ValueError) as error:
            message = f"{where}: {name}: {error}"
            raise ConfigError(message) from None
        if value < (SHORTEST if name in {"timeout", "once_for"} else 0):
            message = f"{where}: {name} must be longer than that"
            raise ConfigError(message)
    elif name == "backoff":
        return as_backoff(value, where=where)
    elif name == "attempts":
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            message = f"{where}: attempts must be a whole number from 1 up, not {value!r}"
            raise ConfigError(message)
    elif name == "checks":
        if not isinstance(value, list | tuple) or not all(callable(one) for one in value):
            message = f"{where}: checks must be a list of functions, not {value!r}"
            raise ConfigError(message)
        return tuple(value)
    elif name == "dependency" and not (value is None or (isinstance(value, str) and value)):
        message = f"{where}: dependency must be a non-empty text, not {value!r}"
        raise ConfigError(message)
    elif name in {"find", "undo"} and not (value is None or callable(value)):
        message = f"{where}: {name} must be a function, not {value!r}"
        raise ConfigError(message)
    return value


def _parameters(function: Callable[..., Any]) -> dict[str, TypeAdapter[Any] | None]:
    """The parameters after the operation, each with a reader for its annotation, or None."""
    names = list(inspect.signature(function).parameters)[1:]
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    found: dict[str, TypeAdapter[Any] | None] = {}
    for name in names:
        try:
            found[name] = TypeAdapter(hints[name]) if name in hints else None
        except Exception:  # pydantic cannot read this annotation: pass the value on unchecked
            found[name] = None
    return found
