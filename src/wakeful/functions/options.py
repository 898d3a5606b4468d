"""The options of agents and steps, and the `@step` decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, ParamSpec, TypeVar, cast, get_args, overload

from wakeful.clock import SECOND, Duration, Microseconds, duration
from wakeful.errors import ConfigError, did_you_mean
from wakeful.functions.emits import Emits, read_emits
from wakeful.model import Overlap
from wakeful.rate import Rate

P = ParamSpec("P")
T = TypeVar("T")

MARK = "__wakeful_step__"
LONGEST_DEBOUNCE = 10  # times its wait, by default
MOST_IN_A_BATCH = 10_000
# Without `attempts=`: attempts for an error of an unknown kind. An outage is retried for a day.
UNKNOWN_ATTEMPTS_OF_A_STEP = 3
UNKNOWN_ATTEMPTS = 5
PRIORITIES = range(-10, 11)
CHOICES: dict[str, tuple[str, ...]] = {
    "on_dead": ("block", "skip"),
    "on_failure": ("keep", "undo"),
    "overlap": get_args(Overlap),
    "on_stuck": ("alarm", "cancel", "retry"),
    "on_change": ("continue", "restart", "hold"),
    # of channels
    "repeats": ("known", "find", "doubt"),
    "on_doubt": ("repeat", "hold"),
}


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts: a random time up to `first` × `factor` ** (tries − 1), never over `cap`.

    >>> Backoff(first="1s", cap="5m")
    Backoff(first='1s', factor=2.0, cap='5m')
    """

    first: Duration = "1s"
    factor: float = 2.0
    cap: Duration = "5m"

    def ceiling(self, tries: int) -> Microseconds:
        """The longest wait after this many tries."""
        try:
            return min(duration(self.cap), round(duration(self.first) * self.factor ** min(tries - 1, 60)))
        except OverflowError:  # larger than any cap
            return duration(self.cap)


def as_backoff(value: Backoff | Duration, *, where: str) -> Backoff:
    """A Backoff, or one that starts at the given duration."""
    backoff = value if isinstance(value, Backoff) else Backoff(first=value)
    try:
        sensible = duration(backoff.first) >= 0 and duration(backoff.cap) >= 0 and backoff.factor >= 1
    except (TypeError, ValueError, OverflowError) as error:
        message = f"{where}: backoff: {error}"
        raise ConfigError(message) from None
    if not sensible:
        message = f"{where}: backoff: {backoff} needs a first wait and a cap of at least 0, and a factor of at least 1"
        raise ConfigError(message)
    return backoff


@dataclass(frozen=True, slots=True)
class StepOptions:
    """The options of a step. A plain function has the defaults."""

    name: str | None = None
    key: Callable[..., Any] | None = None
    timeout: Microseconds | None = None
    attempts: int | None = None  # None: an outage is retried for a day, an unknown kind of error a few times
    backoff: Backoff = field(default_factory=lambda: Backoff(first="500ms", cap="5m"))
    dependency: str | None = None


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of an agent, apart from its triggers."""

    owner: str | None = None
    attempts: int | None = None  # as for a step
    backoff: Backoff = field(default_factory=Backoff)
    deadline: Microseconds | None = None
    concurrency: int | None = None
    max_crashes: int = 5
    deliver: str | None = None
    checks: tuple[Callable[..., Any], ...] = ()  # of the output; with a second parameter, also of the run
    expects_output: bool = False  # a run that returns None is held
    state: type[Any] | None = None
    emits: Emits | None = None  # the types of events that its runs may emit; None: any
    # order and limits
    key: str | Callable[..., Any] | None = None
    concurrency_per_key: int | None = None
    on_dead: Literal["block", "skip"] = "block"
    rate: Rate | None = None
    debounce: tuple[Microseconds, Microseconds] | None = None
    batch: tuple[int, Microseconds] | None = None
    priority: int | str | Callable[..., Any] | None = None
    expires: Microseconds | None = None
    overlap: Overlap = "queue"
    once: str | Callable[..., Any] | None = None
    once_for: Microseconds | None = None
    # runs in flight
    stuck_after: Microseconds | None = 3600 * SECOND
    on_stuck: Literal["alarm", "cancel", "retry"] = "alarm"
    version: str | None = None
    on_change: Literal["continue", "restart", "hold"] = "continue"
    drain: Microseconds = 600 * SECOND
    retention: Microseconds | None = None
    on_failure: Literal["keep", "undo"] = "keep"
    # an agent whose runs die one after the other
    alarm_after: int | None = 3
    pause_after: int | None = 10
    # how long a run may be ready before an alarm is raised
    starts_within: Microseconds | None = 300 * SECOND


DEFAULT_STEP = StepOptions()


@overload
def step(function: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def step(
    *,
    name: str | None = None,
    key: Callable[..., Any] | None = None,
    timeout: Duration | None = None,
    attempts: int | None = ...,
    backoff: Backoff | Duration = ...,
    dependency: str | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a function as a step: `@step`, `@step(timeout="30s", attempts=5)`, or inline for a closure:
    `run.step(step(name="total")(lambda: sum(rows)))`. The function itself is unchanged and can be called.
    """
    if function is not None:
        return _mark(function, {})
    return lambda decorated: _mark(decorated, options)


def _mark(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    where = f"@step on {name_of(function)}"
    checked = read_options(StepOptions, options, where=where)
    try:
        setattr(function, MARK, checked)
    except AttributeError:  # a bound method or a builtin cannot carry an attribute
        inner = function

        def carrier(*arguments: Any, **keywords: Any) -> Any:
            return inner(*arguments, **keywords)

        carrier.__name__ = name_of(function)
        setattr(carrier, MARK, checked)
        return carrier
    return function


def options_of(function: Callable[..., Any]) -> StepOptions:
    """The step options of a function."""
    return cast("StepOptions", getattr(function, MARK, DEFAULT_STEP))


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, to show."""
    return getattr(function, "__name__", None) or type(function).__name__


def read_options(kind: type[T], given: dict[str, Any], *, where: str) -> T:
    """Options as given by a user, checked: unknown names, durations, numbers."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            message = f'{where}: unknown option "{name}".{did_you_mean(name, known)}'
            raise ConfigError(message)
        values[name] = _read(name, value, where, kind)
    return kind(**values)


def _read(name: str, value: Any, where: str, kind: type[Any] = StepOptions) -> Any:
    if name == "backoff":
        return as_backoff(value, where=where)
    if name in {
        "timeout",
        "deadline",
        "expires",
        "stuck_after",
        "retention",
        "starts_within",
        "drain",
        "once_for",
        "settle",
    }:
        if value is None and name == "drain":
            message = f'{where}: drain must be the time that runs keep the code they belong to, like "10m"'
            raise ConfigError(message)
        return read_duration(name, value, where)
    if name in {"rate", "debounce", "batch", "priority"} or name in CHOICES:
        return _read_flow(name, value, where)
    if name in {"attempts", "concurrency", "max_crashes", "most", "concurrency_per_key", "alarm_after", "pause_after"}:
        optional = name in {"attempts", "concurrency", "concurrency_per_key", "alarm_after", "pause_after"}
        if not (
            (optional and value is None) or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)
        ):
            message = f"{where}: {name} must be a whole number from 1 up, not {value!r}"
            raise ConfigError(message)
    if name == "checks":
        if not isinstance(value, list | tuple) or not all(callable(one) for one in value):
            message = f"{where}: checks must be a list of functions of the output, not {value!r}"
            raise ConfigError(message)
        return tuple(value)
    if name == "expects_output" and not isinstance(value, bool):
        message = f"{where}: expects_output must be True or False, not {value!r}"
        raise ConfigError(message)
    if name == "emits":
        return read_emits(value, where=where)
    if name == "state" and value is not None:
        _refuse_state(value, where)
    if name in {"name", "owner", "deliver", "dependency", "version"} and not (
        value is None or (isinstance(value, str) and value)
    ):
        message = f"{where}: {name} must be a non-empty text, not {value!r}"
        raise ConfigError(message)
    if name in {"key", "once"} and kind is AgentOptions:
        if not (value is None or callable(value) or (isinstance(value, str) and value.strip())):
            message = f"{where}: {name} must be a CEL expression or a function of the event, not {value!r}"
            raise ConfigError(message)
    elif name == "key" and not (value is None or callable(value)):
        message = f"{where}: key must be a function of the step's arguments, not {value!r}"
        raise ConfigError(message)
    return value


def _read_flow(name: str, value: Any, where: str) -> Any:
    """Read options about order and limits."""
    if value is None and name not in CHOICES:
        return None
    try:
        if name == "rate":
            return value if isinstance(value, Rate) else Rate.read(value)
        if name == "debounce":
            return _read_debounce(value)
        if name == "batch":
            return _read_batch(value)
    except (TypeError, ValueError) as error:
        message = f"{where}: {name}: {error}"
        raise ConfigError(message) from None
    if name == "priority":
        if not (callable(value) or isinstance(value, str) or (type(value) is int and value in PRIORITIES)):
            message = f"{where}: priority must be a whole number from -10 to 10, a CEL expression or a function of the event, not {value!r}"
            raise ConfigError(message)
        return value
    if value not in CHOICES[name]:
        message = f'{where}: {name} "{value}".{did_you_mean(str(value), CHOICES[name])}'
        raise ConfigError(message)
    return value


def _read_debounce(value: Any) -> tuple[Microseconds, Microseconds]:
    if isinstance(value, tuple | list):
        if len(value) != 2:
            message = f'{value!r}: give the wait for a newer event, and the longest wait: ("30s", "5m")'
            raise ValueError(message)
        wait, longest = duration(value[0]), duration(value[1])
    else:
        wait = duration(value)
        longest = wait * LONGEST_DEBOUNCE
    if not 0 < wait <= longest:
        message = f"{value!r}: the wait must be longer than zero, and the longest wait not shorter than it"
        raise ValueError(message)
    return wait, longest


def _read_batch(value: Any) -> tuple[int, Microseconds]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        message = f'{value!r}: give the largest number of events, and how long to wait for them: (50, "10s")'
        raise ValueError(message)
    most, wait = value[0], duration(value[1])
    if type(most) is not int or not 1 <= most <= MOST_IN_A_BATCH or wait <= 0:
        message = f"{value!r}: from 1 to {MOST_IN_A_BATCH:,} events, and a wait longer than zero"
        raise ValueError(message)
    return most, wait


def _refuse_state(model: Any, where: str) -> None:
    """Raise ConfigError unless `Model()` works and is JSON: that is how a state begins."""
    if not isinstance(model, type):
        message = f"{where}: state must be a class, a pydantic model or a dataclass, not {model!r}"
        raise ConfigError(message)
    try:
        from pydantic import TypeAdapter

        TypeAdapter(model).dump_json(model())
    except Exception as error:
        message = (
            f"{where}: state={model.__name__} cannot be created without arguments ({str(error).splitlines()[0]}): "
            "give each of its fields a default, with which the first run begins"
        )
        raise ConfigError(message) from None


def read_duration(name: str, value: Any, where: str) -> Microseconds | None:
    """A duration as given by a user; None stays None."""
    if value is None:
        return None
    try:
        span = duration(value)
    except (TypeError, ValueError) as error:
        message = f"{where}: {name}: {error}"
        raise ConfigError(message) from None
    if span < SECOND // 1000:
        message = f"{where}: {name} must be at least 1ms, not {value!r}"
        raise ConfigError(message)
    return span


def location(function: Callable[..., Any]) -> str:
    """Where a function was defined, for error messages: file:line."""
    if isinstance(told := getattr(function, "written_at", None), str):
        return told
    inner: Any = inspect.unwrap(function)
    while hasattr(inner, "func"):  # functools.partial
        inner = inspect.unwrap(inner.func)
    code = getattr(inner, "__code__", None) or getattr(getattr(type(inner), "__call__", None), "__code__", None)  # noqa: B004 looked up, not tested
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "?"


def one_of(name: str, known: Iterable[str], *, what: str) -> None:
    """Raise ConfigError for an unknown name."""
    if name not in set(known):
        message = f'no {what} "{name}".{did_you_mean(name, known)}'
        raise ConfigError(message)
