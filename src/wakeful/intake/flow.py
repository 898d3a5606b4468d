"""Order and limits at intake: the key and priority of an event, and how its run relates to other runs of its agent.

An event without a usable key or priority is not refused, because nothing may be lost: it gets a run without a key. The
executor checks again before the handler and makes it a dead letter that shows the expression and the data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic_core import to_json

from wakeful.cel import Expression, OutOfBudget, compile_expression
from wakeful.clock import Microseconds, duration, readable
from wakeful.errors import ConfigError, InvalidKey
from wakeful.model import Event, Flow, Overlap, digest
from wakeful.stored_errors import storable

LONGEST_KEY = 200
SHOWN_DATA = 500
LOWEST, HIGHEST = -10, 10
ONCE_FOR = duration("90d")  # the default: as long as the identities of events are remembered

Source = Expression | Callable[[Event], Any]


class FlowOptions(Protocol):
    """The options of an agent that flow control reads."""

    @property
    def key(self) -> str | Callable[..., Any] | None: ...
    @property
    def concurrency_per_key(self) -> int | None: ...
    @property
    def on_dead(self) -> str: ...
    @property
    def overlap(self) -> Overlap: ...
    @property
    def debounce(self) -> tuple[Microseconds, Microseconds] | None: ...
    @property
    def batch(self) -> tuple[int, Microseconds] | None: ...
    @property
    def priority(self) -> int | str | Callable[..., Any] | None: ...
    @property
    def expires(self) -> Microseconds | None: ...
    @property
    def state(self) -> type[Any] | None: ...
    @property
    def once(self) -> str | Callable[..., Any] | None: ...
    @property
    def once_for(self) -> Microseconds | None: ...


class Flowing(Protocol):
    """The parts of an agent that flow control reads."""

    @property
    def name(self) -> str: ...
    @property
    def flow(self) -> FlowPlan: ...


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What an agent declared about order and limits, with its expressions compiled."""

    agent: str
    options: FlowOptions
    key: Source | None = None
    priority: Source | int | None = None
    once: Source | None = None
    ranked: bool = False  # an agent of the app has a priority, so all runs have a rank

    @property
    def needed(self) -> bool:
        """Whether there is anything to decide for an event. If not, its run is simply inserted."""
        options = self.options
        return (
            self.ranked
            or self.key is not None
            or self.priority is not None
            or options.overlap != "queue"
            or options.debounce is not None
            or options.batch is not None
            or options.expires is not None
            or self.once is not None
        )

    def flow(self, event: Event) -> Flow:
        """The flow of an event's run. No event can make this raise."""
        options = self.options
        try:
            key, priority = self.key_of(event), self.priority_of(event)
            once, note = (None, None) if self.once is None else self.once_of(event)
        except InvalidKey:
            return Flow(priority=0 if self.ranked else None, expires=options.expires)
        if key is None and (options.overlap != "queue" or options.debounce or options.batch):
            key = ""
        ordered = self.key is not None or options.overlap != "queue"
        return Flow(
            key,
            (options.concurrency_per_key or 1) if ordered else None,
            self.key is not None and options.on_dead == "block",
            options.overlap,
            options.debounce,
            options.batch,
            priority,
            options.expires,
            once,
            0 if once is None else options.once_for or ONCE_FOR,
            note,
        )

    def once_of(self, event: Event) -> tuple[str | None, str | None]:
        """The key by which an event is handled once; or None and the reason, and then it is handled like any other.
        Raises InvalidKey if the key is unknown, because the expression exceeded its budget.
        """
        if self.once is None:
            return None, None
        try:
            value = self._ask("once", self.once, event)
            key = "" if value is None else as_key(value)
        except (InvalidKey, ValueError) as error:
            if isinstance(error, InvalidKey) and error.exhausted:  # a second run of a key would be worse than no run
                raise
            words = error.problem if isinstance(error, InvalidKey) else str(error)
            return None, f"once={shown_source(self.once)} gives no key ({words}): it is not compared with other events"
        return (
            (key, None)
            if key
            else (None, f"once={shown_source(self.once)} gives no key: it is not compared with other events")
        )

    def refuse_exhausted(self, event: Event) -> None:
        """Raise InvalidKey if the expression of `once=` exceeded its budget: such a run would not be compared with
        others.
        """
        if isinstance(self.once, Expression):
            self.once_of(event)

    def place(self, event: Event) -> Flow:
        """Like `flow`, for an event that a person submits: it queues, and no other event replaces it."""
        return replace(self.flow(event), overlap="queue", debounce=None, batch=None, expires=None)

    def key_of(self, event: Event) -> str | None:
        """The key of an event; None for an agent without keys. Raises InvalidKey if there is no usable one."""
        if self.key is None:
            return None
        value = self._ask("key", self.key, event)
        try:
            return as_key(value)
        except ValueError as error:
            raise self._refusal("key", self.key, str(error), event) from None

    def priority_of(self, event: Event) -> int | None:
        """The priority of an event; None if no agent of the app has one. Raises InvalidKey if there is no usable one."""
        if self.priority is None or type(self.priority) is int:
            return self.priority if self.priority is not None else 0 if self.ranked else None
        value = self._ask("priority", self.priority, event)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not LOWEST <= value <= HIGHEST:
            words = f"it gives {value!r}, but a priority is a whole number from {LOWEST} to {HIGHEST}"
            raise self._refusal("priority", self.priority, words, event)
        return value

    def _ask(self, option: str, source: Any, event: Event) -> Any:
        try:
            return source.value(event) if isinstance(source, Expression) else source(event)
        except ValueError as error:
            refusal = self._refusal(option, source, str(error) or type(error).__name__, event)
            refusal.exhausted = isinstance(error, OutOfBudget)
            raise refusal from None
        except Exception as error:  # from a user's function, which must not stop intake
            raise self._refusal(option, source, f"{type(error).__name__}: {error}", event) from error

    def _refusal(self, option: str, source: Any, words: str, event: Event) -> InvalidKey:
        data = to_json(event.data, fallback=repr, inf_nan_mode="constants").decode()
        shown = data if len(data) <= SHOWN_DATA else data[:SHOWN_DATA] + "…"
        refusal = InvalidKey(
            f"agent {self.agent}: {option}={shown_source(source)} has no usable value for event {event.id}: {words}. "
            f"Correct the {option}=, or replay it with other data. The data is {shown}"
        )
        refusal.problem = words
        return refusal

    def describe(self) -> dict[str, Any]:
        """The declared options, for listings and JSON."""
        options = self.options
        debounce, batch = options.debounce, options.batch
        return {
            "key": None if self.key is None else shown_source(self.key).strip('"'),
            "concurrency_per_key": (options.concurrency_per_key or 1) if self.key is not None else None,
            "on_dead": options.on_dead if self.key is not None else None,
            "overlap": options.overlap,
            "debounce": None if debounce is None else f"{readable(debounce[0])}, at most {readable(debounce[1])}",
            "batch": None if batch is None else f"up to {batch[0]} within {readable(batch[1])}",
            "priority": self.priority if isinstance(self.priority, int) else _shown_or_none(self.priority),
            "expires": None if options.expires is None else readable(options.expires),
            "once": _shown_or_none(self.once),
            "once_for": None if self.once is None else readable(options.once_for or ONCE_FOR),
        }


def plan_flow(agent: str, options: FlowOptions, *, where: str) -> FlowPlan:
    """Read what an agent declared. ConfigError for an invalid expression, and for options that contradict each other."""
    refuse_contradictions(options, where)
    priority = options.priority
    return FlowPlan(
        agent,
        options,
        _source("key", options.key, where),
        priority if type(priority) is int else _source("priority", priority, where),
        _source("once", options.once, where),
    )


def flows_of(agents: Mapping[str, Flowing]) -> dict[str, FlowPlan]:
    """The flow plans that intake needs, by agent. If one agent has a priority, the runs of all others are ranked too."""
    ranked = any(agent.flow.priority is not None for agent in agents.values())
    plans = {name: replace(agent.flow, ranked=ranked) for name, agent in agents.items()}
    return {name: plan for name, plan in plans.items() if plan.needed}


def as_key(value: Any) -> str:
    """A key in stored form: text of limited length. ValueError for a value that cannot be a key.

    >>> as_key(7), as_key(7.0), as_key(True), as_key("shop")
    ('7', '7', 'true', 'shop')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        text = storable(str.__str__(value))
        return text if len(text) <= LONGEST_KEY else f"{text[: LONGEST_KEY // 2]}…{digest(text)}"
    message = f"it gives {type(value).__name__}, but a key is a text, a number, true or false"
    raise ValueError("it gives nothing" if value is None else message)


def shown_source(source: Any) -> str:
    if isinstance(source, Expression):
        return f'"{source.expression}"'
    return str(getattr(source, "__name__", None) or type(source).__name__)


def _shown_or_none(source: Source | None) -> str | None:
    return None if source is None else shown_source(source).strip('"')


def _source(option: str, value: Any, where: str) -> Source | None:
    if value is None:
        return None
    if isinstance(value, str):
        return compile_expression(value, where=f"{where}: {option}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004 looked up, not tested
        message = f"{where}: {option}={shown_source(value)} is async: it is called at intake and must be a plain def"
        raise ConfigError(message)
    function: Callable[[Event], Any] = value
    return function


def refuse_contradictions(options: FlowOptions, where: str) -> None:
    """Raise ConfigError for options that contradict each other: which, and why."""
    many = options.concurrency_per_key is not None and options.concurrency_per_key > 1
    complaints = (
        (
            options.concurrency_per_key is not None and options.key is None,
            "concurrency_per_key counts the runs of one key: give the agent a key=, or use concurrency=",
        ),
        (
            options.on_dead == "skip" and options.key is None,
            'on_dead="skip" is about the runs behind a dead letter of their key: give the agent a key=',
        ),
        (
            many and options.state is not None,
            "concurrency_per_key over 1 and state= exclude each other: the state of a key has one run at a time",
        ),
        (
            options.debounce is not None and options.batch is not None,
            "debounce= keeps only the newest of several events and batch= keeps all of them: choose one",
        ),
        (
            options.overlap != "queue" and options.batch is not None,
            f'overlap="{options.overlap}" and batch= exclude each other: a batch takes all events, and drops none',
        ),
        (
            options.overlap != "queue" and options.debounce is not None,
            f'overlap="{options.overlap}" and debounce= exclude each other: debounce= already keeps the newest of those that wait',
        ),
        (
            options.overlap != "queue" and many,
            f'overlap="{options.overlap}" and concurrency_per_key over 1 exclude each other: only one run of a key is open',
        ),
        (
            options.once_for is not None and options.once is None,
            "once_for= says how long a key is known: give the agent a once=",
        ),
        (
            options.once is not None and (options.batch is not None or options.debounce is not None),
            "once= and batch= or debounce= exclude each other: once= keeps the first event of a key, the others take several",
        ),
        (
            options.once is not None and options.overlap != "queue",
            f'once= and overlap="{options.overlap}" exclude each other: the run of a key must not give way to another key',
        ),
    )
    for wrong, words in complaints:
        if wrong:
            message = f"{where}: {words}"
            raise ConfigError(message)
