"""Conditions in CEL (Common Expression Language). This file and cel_rules.py are the only ones that know cel-expr-python.

    data.severity >= 3 && event.source.startsWith("/shop")

Names are `data` and `event.*` (id, source, type, subject, time, … and extensions). `event.time` and `event.expirytime`
are timestamps. A missing field, a wrong type or any other evaluation error counts as "no match"; the reason says so,
and `misfit` marks it as no real answer. An evaluation that would exceed its budget (cel_budget.py) is different:
`exhausted` means that the answer is unknown, and every caller then takes the safe side and says so. An `Expression`
gives a value instead of true or false (`key="data.customer"`), or says why it has none.

The library converts every value it is given, to any depth, so the cost grows with the payload. Therefore the expression
is parsed once to find the fields it names, and only these are passed. If they cannot be determined, everything is
passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wakeful.cel_budget import ROUNDS, Meter
from wakeful.cel_text import (
    TEXTS,
    TIMES,
    UNDECLARED,
    Path,
    complaint_about,
    fields_of,
    on_one_line,
    paths_of,
    reworded,
    tokens_of,
)
from wakeful.errors import ConfigError, did_you_mean
from wakeful.model import Event

KEY_NOT_FOUND = re.compile(r'Key not found in map : "?(.*?)"?')
_OUT_OF_ROUNDS = "Iteration budget exceeded"  # as the library says it
TOO_MANY_ROUNDS = f"all, exists, filter and map go through at most {ROUNDS:,} elements"


@dataclass(frozen=True, slots=True)
class Match:
    """Whether something matched, and the reason, which `wakeful why` shows unchanged."""

    matched: bool
    reason: str
    misfit: bool = False  # no answer: a field is missing or has another type
    exhausted: bool = False  # no answer within the budget: this is not "no match"


class OutOfBudget(ValueError):
    """Evaluating the expression on this input would exceed the budget: its value is unknown."""


class Condition:
    """A compiled expression. Safe to use from any number of threads at once."""

    __slots__ = ("_data_fields", "_event_fields", "_false", "_meter", "_paths", "_program", "_true", "expression")

    def __init__(self, expression: str, program: Any, paths: list[Path] | None) -> None:
        self.expression = expression
        self._program = program
        self._meter = Meter(program.serialize())
        self._paths = paths or []
        # None: pass everything. Empty: the expression does not name it at all.
        self._data_fields = fields_of("data", paths)
        self._event_fields = fields_of("event", paths)
        self._true = Match(matched=True, reason=f'where "{expression}" was true')
        self._false = Match(matched=False, reason=f'where "{expression}" was false')

    def matches(self, event: Event, values: Any = None) -> Match:
        """Evaluate against an event; no event can make this raise. `values`: further values that the expression may
        name.
        """
        try:
            bindings = self._bindings(event)
            if values is not None:
                bindings["values"] = values
            if (excess := self._meter.excess(bindings)) is not None:
                return self._exhausted(excess)
            result = self._program.eval(data=bindings)
            answer = result.value()
        except Exception as error:  # the library's own failure must not stop intake
            if _OUT_OF_ROUNDS in str(error):
                return self._exhausted(TOO_MANY_ROUNDS)
            reason = f'where "{self.expression}" failed: {error}: counts as no match'
            return Match(matched=False, reason=reason, misfit=True)
        if answer is True:
            return self._true
        if answer is False:
            return self._false
        if _OUT_OF_ROUNDS in str(answer):
            return self._exhausted(TOO_MANY_ROUNDS)
        return Match(matched=False, reason=self._explain(result, event), misfit=True)

    def _exhausted(self, excess: str) -> Match:
        reason = f'where "{self.expression}" ran out of its budget: {excess}'
        return Match(matched=False, reason=reason, misfit=True, exhausted=True)

    def _bindings(self, event: Event) -> dict[str, Any]:
        bindings: dict[str, Any] = {}
        fields = self._data_fields
        if fields is None or (fields and type(event.data) is not dict):
            bindings["data"] = event.data
        elif fields:
            data = event.data
            bindings["data"] = {name: data[name] for name in fields if name in data}
        fields = self._event_fields
        if fields is None or fields:
            bindings["event"] = attributes_of(event, fields)
            # The library takes no datetime inside a map, hence the qualified names.
            if event.time is not None:
                bindings["event.time"] = event.time
            if event.expirytime is not None:
                bindings["event.expirytime"] = event.expirytime
        return bindings

    def _explain(self, result: Any, event: Event) -> str:
        """Why an evaluation gave neither true nor false. Errors come back as values: a code and a text."""
        kind = result.type().name()
        if kind != "ERROR":
            return f'where "{self.expression}" gave {kind.lower()}, not true or false: counts as no match'
        text = str(result.value()).partition(": ")[2]
        if (missing := self._missing(text, event)) is not None:
            return f"no field {missing}: counts as no match"
        return f'where "{self.expression}" could not be evaluated ({text}): counts as no match'

    def _missing(self, text: str, event: Event) -> str | None:
        """The missing field that an error is about, or None for another error."""
        key = KEY_NOT_FOUND.fullmatch(text)
        if key is None and "SELECT" not in text and "No value with name" not in text:
            return None
        return _missing_path(self._paths, event) or (key[1] if key is not None else None)


class Expression(Condition):
    """A compiled expression that gives a value of any kind."""

    __slots__ = ("_field",)

    def __init__(self, expression: str, program: Any, paths: list[Path] | None) -> None:
        super().__init__(expression, program, paths)
        path = self._paths[0] if len(self._paths) == 1 else ()
        # The path below `data`, if the expression is only a field name. A text, which most keys are, is then taken
        # directly.
        self._field = path[1:] if path[:1] == ("data",) and ".".join(path) == expression.strip() else ()

    def value(self, event: Event) -> Any:
        """The value for an event. Raises ValueError if there is none, and its subclass OutOfBudget if that is unknown."""
        if self._field:
            found = event.data
            for name in self._field:
                found = found.get(name) if type(found) is dict else None
            if type(found) is str:
                return found
        found, text = evaluate(self._program, self._meter, self._bindings(event))
        if text is None:
            return found
        missing = self._missing(text, event)
        raise ValueError(text if missing is None else f"no field {missing}")


def compile_condition(expression: str, *, where: str, values: bool = False) -> Condition:
    """Compile an expression; ConfigError says in one line what is wrong with it. `where` names its place in the
    declaration; `values`: whether it may use values that are passed beside the event.
    """
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigError(f'{where}: the condition is empty; write a CEL expression like "data.severity >= 3"')
    program, paths = _compile(expression, where, values=values)
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        message = (
            f'{where}: "{on_one_line(expression)}" gives {kind.lower()}, not true or false; compare it with something'
        )
        raise ConfigError(message)
    return Condition(on_one_line(expression), program, paths)


def named_values(expression: str) -> set[str]:
    """The values an expression needs: each `values.name`, unless it checks first with has()."""
    tokens = [("start", "")] * 2 + (tokens_of(expression) or []) + [("end", "")] * 3
    named: dict[bool, set[str]] = {True: set(), False: set()}
    for position, (_, text) in enumerate(tokens):
        (kind, name), after = tokens[min(position + 2, len(tokens) - 1)], tokens[min(position + 3, len(tokens) - 1)][1]
        if text != "values" or tokens[position - 1][1] == "." or tokens[position + 1][1] != "." or kind != "name":
            continue
        if after != "(":
            named[(tokens[position - 2][1], tokens[position - 1][1]) == ("has", "(")].add(name)
    return named[False] - named[True]


def compile_expression(expression: str, *, where: str) -> Expression:
    """Like compile_condition, for an expression that may give any value."""
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigError(f'{where}: the expression is empty; write a CEL expression like "data.customer"')
    program, paths = _compile(expression, where)
    return Expression(on_one_line(expression), program, paths)


def compile_arguments(expression: str, names: Collection[str], *, where: str) -> Callable[[Mapping[str, Any]], Any]:
    """An expression over the arguments of a call, like "arguments.invoice", as a function of the arguments by name.
    That function raises ValueError if there is no value. ConfigError for an invalid expression or an unknown argument.
    """
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigError(f'{where}: the expression is empty; write a CEL expression like "arguments.invoice"')
    shown = on_one_line(expression)
    try:
        program = _environment_of_arguments().compile(expression)
    except RuntimeError as error:
        undeclared = UNDECLARED.search(str(error))
        if undeclared is not None:
            guess = did_you_mean(f"arguments.{undeclared[1]}", [f"arguments.{name}" for name in names])
            raise ConfigError(f'{where}: "{shown}" names "{undeclared[1]}", which does not exist.{guess}') from None
        raise ConfigError(f'{where}: "{shown}" {reworded(str(error), expression)}') from None
    tokens = [*(tokens_of(expression) or []), ("end", ""), ("end", "")]
    for position, (_, text) in enumerate(tokens[:-2]):
        kind, name = tokens[position + 2]
        if text == "arguments" and tokens[position + 1][1] == "." and kind == "name" and name not in names:
            guess = did_you_mean(name, names)
            raise ConfigError(f'{where}: "{shown}" names arguments.{name}, but there is no such parameter.{guess}')

    meter = Meter(program.serialize())

    def ask(arguments: Mapping[str, Any]) -> Any:
        found, problem = evaluate(program, meter, {"arguments": dict(arguments)})
        if problem is None:
            return found
        raise ValueError(problem)

    return ask


def evaluate(program: Any, meter: Meter, bindings: dict[str, Any]) -> tuple[Any, str | None]:
    """The value of an expression, or None and the library's error. Raises OutOfBudget, or ValueError if the library
    fails.
    """
    if (excess := meter.excess(bindings)) is not None:
        raise OutOfBudget(f"it ran out of its budget: {excess}")
    try:
        result = program.eval(data=bindings)
        if result.type().name() != "ERROR":
            return result.plain_value(), None  # plain Python maps and lists, to any depth
        problem = str(result.value())
    except Exception as error:  # the library's own failure
        if _OUT_OF_ROUNDS not in str(error):
            raise ValueError(str(error)) from None
        problem = str(error)
    if _OUT_OF_ROUNDS in problem:
        raise OutOfBudget(f"it ran out of its budget: {TOO_MANY_ROUNDS}")
    return None, problem.partition(": ")[2]


@lru_cache(maxsize=1)
def _environment_of_arguments() -> Any:
    cel, extensions = library()
    return cel.NewEnv(variables={"arguments": cel.Type.DYN}, extensions=extensions)


def _compile(expression: str, where: str, *, values: bool = False) -> tuple[Any, list[Path] | None]:
    tokens = tokens_of(expression)
    paths = None if tokens is None else paths_of(tokens)
    complaint = complaint_about(tokens or [], paths or [])
    if complaint is not None:
        raise ConfigError(f'{where}: "{on_one_line(expression)}" {complaint}')
    try:
        return _environment(values=values).compile(expression), paths
    except RuntimeError as error:
        raise ConfigError(f'{where}: "{on_one_line(expression)}" {reworded(str(error), expression)}') from None


@lru_cache(maxsize=2)
def _environment(*, values: bool = False) -> Any:
    cel, extensions = library()
    variables = {"data": cel.Type.DYN, "event": cel.Type.DYN}
    variables |= {f"event.{name}": cel.Type.TIMESTAMP for name in TIMES}
    variables |= {"values": cel.Type.DYN} if values else {}
    return cel.NewEnv(variables=variables, extensions=extensions)


def library() -> tuple[Any, list[Any]]:
    """The library and its extensions. ConfigError where it cannot be imported."""
    # Imported here because it takes 50 ms, and most programs that import Wakeful have no condition.
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_strings
    except ImportError as error:
        message = (
            "conditions and keys in CEL need the package cel-expr-python, which cannot be loaded here; it has wheels for glibc, macOS and "
            f"Windows, and Python up to 3.14 ({error})"
        )
        raise ConfigError(message) from None
    return cel, [ext_strings.ExtStrings()]


def attributes_of(event: Event, names: tuple[str, ...] | None) -> dict[str, Any]:
    """The attributes that an event has, as CEL sees them under `event`."""
    attributes: dict[str, Any] = {}
    for name in TEXTS if names is None else names:
        value = getattr(event, name) if name in TEXTS else event.extensions.get(name)
        if value is not None:
            attributes[name] = value
    if names is None:
        attributes.update(event.extensions)
        attributes.update({name: moment.isoformat() for name in TIMES if (moment := getattr(event, name)) is not None})
    if names is None or "data" in names:
        attributes["data"] = event.data
    return attributes


def _missing_path(paths: list[Path], event: Event) -> str | None:
    """The first path of an expression that does not exist in this event."""
    for path in paths:
        value: Any = event.data if path[0] == "data" else attributes_of(event, None)
        for depth, name in enumerate(path[1:], start=2):
            if not isinstance(value, dict) or name not in value:
                return ".".join(path[:depth])
            value = value[name]
    return None
