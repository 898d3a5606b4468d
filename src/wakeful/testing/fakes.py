"""Stand-ins for steps, actions and channels that record their calls.

A fake replaces only the function: the step keeps its name, arguments and identity, the result passes through the same
JSON and return annotation, and an action keeps its safety and its ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from wakeful.clock import Duration, Microseconds, duration, readable, seconds
from wakeful.errors import ConfigError, Persistent, StepTimeout
from wakeful.execution.actions import Action, Operation
from wakeful.functions.call import call
from wakeful.functions.options import name_of, options_of
from wakeful.output.channels.base import Channel, Message
from wakeful.testing.cassette import Cassette
from wakeful.testing.time import VirtualTime

NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its arguments, and for an action the operation it was called for."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    operation: Operation | None = None


class Fake:
    """Replaces a step, an action, its find or a channel, from its creation to the end of its block or its world."""

    def __init__(
        self,
        stands_for: Callable[..., Any] | Action[..., Any] | Channel | str,
        *,
        returns: Any = NOTHING,
        raises: BaseException | type[BaseException] | None = None,
        answers: Sequence[Any] | None = None,
        calls: Callable[..., Any] | None = None,
        record: str | Path | None = None,
        takes: Duration | None = None,
        remove: Callable[[Fake], None] = lambda _: None,
    ) -> None:
        if not (isinstance(stands_for, str | Channel) or callable(cast("object", stands_for))):
            message = (
                f"fake({stands_for!r}): pass a step's function, an action, a channel, or the name shown in the trace"
            )
            raise ConfigError(message)
        self._stands_for = stands_for
        self.name = stands_for if isinstance(stands_for, str) else name_known_by(stands_for)
        given = {
            "returns": returns is not NOTHING,
            "raises": raises is not None,
            "answers": answers is not None,
            "calls": calls is not None,
            "record": record is not None,
        }
        if sum(given.values()) > 1:
            chosen = ", ".join(f"{one}=" for one, is_given in given.items() if is_given)
            message = f"fake of {self.name}: {chosen} exclude each other. Give one of them"
            raise ConfigError(message)
        if not any(given.values()) and takes is None:
            message = f"fake of {self.name}: give returns=, raises=, answers=[…], calls= or record="
            raise ConfigError(message)
        if raises is not None and not is_error(raises):
            message = (
                f'fake of {self.name}: raises={raises!r} is not an error. Give an exception, like Transient("502")'
            )
            raise ConfigError(message)
        if calls is not None and not callable(cast("object", calls)):
            message = f"fake of {self.name}: calls={calls!r} cannot be called. Give a function, or returns= for a value"
            raise ConfigError(message)
        self._returns = None if returns is NOTHING else returns
        self._raises = raises
        self._answers = None if answers is None else list(answers)
        self._instead = calls
        self._cassette = None if record is None else Cassette(Path(record))
        self._takes: Microseconds = 0 if takes is None else duration(takes)
        self._remove = remove
        self.calls: list[Call] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<fake of {self.name}, called {len(self.calls)} times>"

    def remove(self) -> None:
        """Restore the real function. Safe to call twice."""
        self._remove(self)

    def stands_for(self, declared: Any) -> bool:
        """Whether this fake replaces that step, action or find."""
        if isinstance(self._stands_for, str):
            return self._stands_for == name_known_by(declared)
        return bool(self._stands_for == declared)

    def stands_for_channel(self, name: str, channel: Channel) -> bool:
        """Whether this fake is called before a message to that channel counts as delivered."""
        return self._stands_for == name if isinstance(self._stands_for, str) else self._stands_for is channel

    async def answer(
        self,
        declared: Any,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        time: VirtualTime,
    ) -> Any:
        """Answer a call, after the virtual time it takes."""
        operation = arguments[0] if arguments and isinstance(arguments[0], Operation) else None
        plain = arguments[1:] if operation is not None else arguments
        self.calls.append(Call(self.name, plain, keywords, operation))
        number = len(self.calls)
        await self._take_time(declared, time)
        if self._raises is not None:
            raise self._raises
        if self._answers is not None:
            return self._given(number)
        if self._instead is not None:
            return await call(self._instead, arguments, keywords, what=f"the fake of {self.name}")
        if self._cassette is not None:

            async def real() -> Any:
                return await call(function, arguments, keywords, what=self.name)

            return await self._cassette.answer(self.name, plain, keywords, real)
        return self._returns

    def _given(self, number: int) -> Any:
        answers = self._answers or []
        if number > len(answers):
            message = f"fake of {self.name}: called {number} times, but it has {len(answers)} answers"
            raise Persistent(message)
        answer = answers[number - 1]
        if is_error(answer):
            raise answer
        return answer

    async def _take_time(self, declared: Any, time: VirtualTime) -> None:
        """Sleep in virtual time, at most for the declared time limit, which otherwise counts in real time."""
        if not self._takes:
            return
        limit = declared.options.timeout if isinstance(declared, Action) else options_of(declared).timeout
        if limit is None or self._takes <= limit:
            await time.sleep(seconds(self._takes))
            return
        await time.sleep(seconds(limit))
        what = "action" if isinstance(declared, Action) else "step"
        message = f"{what} {self.name} took longer than its time limit of {readable(limit)}"
        raise StepTimeout(message)


def is_error(value: Any) -> bool:
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def name_known_by(declared: Any) -> str:
    """The name of a step or an action, as the trace shows it."""
    if isinstance(declared, Channel):
        return repr(declared)
    if isinstance(declared, Action):
        return declared.name
    return options_of(declared).name or name_of(declared)


def refuse_for_channel(channel: object, *, record: str | Path | None, takes: Duration | None) -> None:
    """Refuse options that channels do not support: no real call is made to record, and a lane does not wait by the
    virtual clock.
    """
    given = "record=" if record is not None else "takes=" if takes is not None else None
    if given is not None:
        message = f"fake of channel {channel}: {given} is for steps and actions. Give raises=, answers=[…] or calls="
        raise ConfigError(message)


def ignore(_message: Message) -> None:
    """The function that a fake of a channel replaces."""
