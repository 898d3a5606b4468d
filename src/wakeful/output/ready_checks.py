"""Checks that are ready to use: `@app.agent(checks=[fresh("report.as_of", "1h"), did(post_comment)])`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from wakeful.clock import Duration, duration, from_datetime, readable, to_second, written
from wakeful.errors import ConfigError
from wakeful.output.checks import RunToCheck

Check = Callable[[Any, RunToCheck], str | None]
COUNTS = frozenset({"confirmed", "staged"})
_MISSING: Any = object()


def fresh(path: str, max_age: Duration) -> Check:
    """The output has a time at `path`, like "report.as_of", that is at most `max_age` old. A path goes through mappings, models and,
    by number, lists. A missing value, or one that is no time, does not pass.
    """
    if not isinstance(path, str) or not all(path.split(".")):
        message = f'fresh({path!r}): give the place of a time in the output, like "report.as_of"'
        raise ConfigError(message)
    try:
        limit = duration(max_age)
    except (TypeError, ValueError) as error:
        message = f"fresh({path!r}, {max_age!r}): {error}"
        raise ConfigError(message) from None
    if limit <= 0:
        message = f"fresh({path!r}, {max_age!r}): the age must be longer than nothing"
        raise ConfigError(message)

    def check(output: Any, run: RunToCheck) -> str | None:
        found = _at(output, path.split("."))
        if found is _MISSING or found is None:
            return f"the output has no {path}"
        moment = _moment(found)
        if moment is None:
            return f"{path} is no time: {found!r:.60}"
        age = from_datetime(run.now) - moment
        if age > limit:
            return f"{path} is {to_second(moment)}, {readable(age)} old: at most {written(limit)} is allowed"
        return None

    return _named(check, f"fresh({path})")


def did(action: Any, at_least: int = 1) -> Check:
    """The run has used an action, given as itself or by its name: at least so many effects of it are confirmed or staged."""
    name = action if isinstance(action, str) else getattr(action, "name", None)
    if not isinstance(name, str) or not name:
        message = f"did({action!r}): give an action, or its name"
        raise ConfigError(message)
    if not isinstance(at_least, int) or isinstance(at_least, bool) or at_least < 1:
        message = f"did({name}, at_least={at_least!r}): give a whole number from 1 up"
        raise ConfigError(message)

    def check(_: Any, run: RunToCheck) -> str | None:
        count = sum(one.name == name and one.state in COUNTS for one in run.effects)
        if count >= at_least:
            return None
        if at_least == 1:
            return f"the run has not used action {name}"
        return f"the run has used action {name} {count} times, and at least {at_least} are expected"

    return _named(check, f"did({name})")


def _named(check: Check, name: str) -> Check:
    check.__name__ = check.__qualname__ = name
    return check


def _at(value: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(value, Mapping):
            value = value.get(part, _MISSING)
        elif isinstance(value, list | tuple) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else _MISSING
        else:
            value = getattr(value, part, _MISSING)
        if value is _MISSING:
            return _MISSING
    return value


def _moment(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    return from_datetime(value) if isinstance(value, datetime) else None
