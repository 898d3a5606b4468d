"""CEL in the rules of a policy: conditions and values over an event, an action's arguments, facts and the time.

    arguments.amount > 100.0 && facts.owner != data.author && now < timestamp("2027-01-01T00:00:00Z")

An expression either has an answer or is `Unknown`, with the reason: a missing field, another type, a stale fact, an
evaluation error, too little budget. The caller decides what an unknown answer means; nothing here raises for it.

Most of an evaluation's cost is the way into the library and the conversion of values. So the conditions that one
judgement asks are also compiled together, as one list, and are evaluated at once:

    all at once ──► one has no answer ──► one by one, on values that are converted once ──► no answer ──► alone

Only the answer that an expression gives alone, with no more values than it names, can be `Unknown`: what another rule
names changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from wakeful.cel import KEY_NOT_FOUND, OutOfBudget, attributes_of, evaluate, library
from wakeful.cel_budget import Meter
from wakeful.cel_sizes import left_of
from wakeful.cel_text import (
    TIMES,
    Path,
    complaint_about,
    fields_of,
    habit_in,
    meant_by,
    on_one_line,
    paths_of,
    refusal_of,
    tokens_of,
)
from wakeful.clock import to_datetime, to_second
from wakeful.errors import did_you_mean
from wakeful.redaction import redact

# The names that an expression may use, by the place of its rule.
NAMES: dict[str, tuple[str, ...]] = {
    "effect": ("event", "data", "agent", "action", "arguments", "facts", "run", "now"),
    "admission": ("event", "data", "agent", "now"),
    "schedule": ("event", "data", "agent", "arguments", "facts", "run", "now"),
    "decide": ("event", "data", "agent", "facts", "run", "now"),  # a rule of run.decide
}
LONGEST = 10_000  # characters of an expression
MOST_TOGETHER = 100
SHOWN_VALUE = 60
SHOWN_VALUES = 6
REDACTED = "[redacted]"
_UNREADABLE = re.compile(r"(?:Integer value|Non-CEL value type).*? for '(\w+)(?:\['([^']*)'\])?", re.DOTALL)
_NOT_YET: Any = object()

Fields = Mapping[str, tuple[str, ...] | None]  # the named fields of each named root; None: all of it


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression has no answer, because …"""

    why: str
    missing: bool = False  # a field that it names does not exist


class CelMistake(ValueError):
    """An expression that cannot be used. Line and column count from 1 inside of it; 0 if the place is not known."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Needs:
    """What several expressions need together."""

    fields: Fields
    small: int  # an input of up to this size is within the budget of each
    together: Any  # the program of all of them; None if there are too few or too many
    places: Mapping[str, int]  # of each expression in its result

    @classmethod
    def of(cls, place: str, expressions: Iterable[RuleExpression]) -> Needs:
        every = list({one.source: one for one in expressions}.values())
        fields: dict[str, tuple[str, ...] | None] = {}
        for one in every:
            for root, names in one.fields.items():
                before = fields.get(root, ())
                fields[root] = None if names is None or before is None else tuple(dict.fromkeys((*before, *names)))
        places = {one.source: number for number, one in enumerate(every)}
        return cls(fields, min((one.small for one in every), default=0), _together(place, every), places)


NOTHING_SHARED = Needs({}, 0, None, {})


def _together(place: str, expressions: list[RuleExpression]) -> Any:
    if not 1 < len(expressions) <= MOST_TOGETHER:
        return None
    # A line break ends the comment that an expression may end with.
    parts = [f"({one.source}\n)" for one in expressions]
    try:
        return _environment(place).compile(f"[{', '.join(parts)}]")
    except RuntimeError:  # too long for the library: one by one
        return None


class Given:
    """The values that the expressions of one judgement may name. `event` is the event itself, `now` is in microseconds;
    `stale` are the facts that are too old, each with its age in words.
    """

    __slots__ = ("_activation", "_answers", "_needs", "_place", "stale", "values")

    def __init__(
        self, place: str, values: Mapping[str, Any], stale: Mapping[str, str], needs: Needs = NOTHING_SHARED
    ) -> None:
        self._place = place
        self.values = values
        self.stale = stale
        self._needs = needs
        self._activation: Any = None
        self._answers: Any = None if needs.together is None else _NOT_YET

    def answer(self, expression: RuleExpression) -> Any:
        """The value of one of the expressions that share their values. None if it is not one of them, if they may be
        too large for it, or if it has no value.
        """
        if self._answers is _NOT_YET:
            self._share()
        if self._answers is not None:
            return self._answers[self._needs.places[expression.source]]
        if self._activation is not None and expression.source in self._needs.places:
            return expression.program.eval(activation=self._activation).value()
        return None

    def _share(self) -> None:
        self._answers = None
        bindings = self.bindings(self._needs.fields)
        if left_of(self._needs.small, bindings) < 0:
            return
        self._activation = _environment(self._place).Activation(data=bindings)
        found = self._needs.together.eval(activation=self._activation)
        if found.type().name() != "ERROR":
            self._answers = found.plain_value()

    def bindings(self, fields: Fields) -> dict[str, Any]:
        """The values of these fields, as the library takes them."""
        made: dict[str, Any] = {}
        for root, names in fields.items():
            value = self.values[root]
            if root == "event":
                made[root] = attributes_of(value, names)
                for name in TIMES:  # the library takes no datetime inside a map, hence the qualified names
                    if (names is None or name in names) and (moment := getattr(value, name)) is not None:
                        made[f"event.{name}"] = moment
            elif root == "now":
                made[root] = to_datetime(value)
            elif names is None or type(value) is not dict:
                made[root] = value
            else:
                made[root] = {name: value[name] for name in names if name in value}
        return made


class RuleExpression:
    """A compiled expression of a rule. Safe to use from any number of threads at once."""

    __slots__ = ("_direct", "_hidden", "_meter", "expression", "fields", "paths", "program", "small", "source")

    def __init__(self, expression: str, program: Any, paths: list[Path] | None, place: str, *, hidden: bool) -> None:
        self.source = expression
        self.expression = on_one_line(expression)
        self.paths = list(dict.fromkeys(paths or []))
        self.program = program
        self._meter = Meter(program.serialize())
        self._hidden = hidden  # it reads values that are not to be shown
        named = NAMES[place] if paths is None else [root for root in NAMES[place] if fields_of(root, paths) != ()]
        self.fields: Fields = {root: fields_of(root, paths) for root in named}
        self.small = self._meter.small
        path = self.paths[0] if len(self.paths) == 1 else ()
        # The path, if the expression is nothing else. A text, which most subjects are, is then taken directly.
        self._direct = path if path[:1] != ("event",) and ".".join(path) == expression.strip() else ()

    def truth(self, given: Given) -> bool | Unknown:
        """Whether the condition is true."""
        try:
            answer = given.answer(self)
            if answer is True or answer is False:
                return bool(answer)
        except Exception:  # noqa: S110 its own values decide
            pass
        found = self._alone(given)
        if isinstance(found, bool | Unknown):
            return found
        return Unknown(f'"{self.expression}" gives {_kind(found)}, not true or false')

    def value(self, given: Given) -> Any:
        """The value of the expression, or Unknown."""
        if self._direct:
            found: Any = given.values
            for name in self._direct:
                found = found.get(name) if isinstance(found, Mapping) else None
            if type(found) is str:
                return found
        return self._alone(given)

    def _alone(self, given: Given) -> Any:
        try:
            found, problem = evaluate(self.program, self._meter, given.bindings(self.fields))
        except OutOfBudget as error:
            return Unknown(f'"{self.expression}": {error}')
        except Exception as error:  # the library's own failure, or a value that it cannot take
            found, problem = None, str(error)
        return found if problem is None else self._unknown(problem, given)

    def _unknown(self, problem: str, given: Given) -> Unknown:
        """Why there is no answer, without the values that the library's text may hold."""
        key = KEY_NOT_FOUND.fullmatch(problem)
        if key is not None or "SELECT" in problem or "No value with name" in problem:
            path = self._missing(given) or ((key[1],) if key is not None else ())
            if path[:1] == ("facts",) and len(path) > 1 and path[1] in given.stale:
                return Unknown(f"facts.{path[1]} is stale: {given.stale[path[1]]}", missing=True)
            if path:
                return Unknown(f"no field {'.'.join(path)}", missing=True)
        if (unreadable := _UNREADABLE.search(problem)) is not None:
            return Unknown(f"{'.'.join(part for part in unreadable.groups() if part)} has a value that CEL cannot read")
        told = "" if self._hidden else f" ({redact(problem)})"
        return Unknown(f'"{self.expression}" could not be evaluated{told}')

    def _missing(self, given: Given) -> Path | None:
        """The first of its paths that does not exist."""
        for path in self.paths:
            value: Any = given.values.get(path[0])
            value = attributes_of(value, None) if path[0] == "event" else value
            for depth, name in enumerate(path[1:], start=2):
                if not isinstance(value, Mapping) or name not in value:
                    return path[:depth]
                value = value[name]
        return None

    def shown(self, values: Mapping[str, Any]) -> str:
        """Some of the values that it names, for people: ' (arguments.amount: 50)'."""
        parts = []
        for path in self.paths[:SHOWN_VALUES]:
            value: Any = values.get(path[0])
            value = attributes_of(value, None) if path[0] == "event" else value
            for name in path[1:]:
                if value == REDACTED:
                    break
                value = value[name] if isinstance(value, Mapping) and name in value else _NOT_YET
            if value is _NOT_YET:
                continue
            parts.append(f"{'.'.join(path)}: {to_second(value) if path == ('now',) else _short(value)}")
        return f" ({', '.join(parts)})" if parts else ""


def compile_rule(
    expression: str,
    place: str,
    *,
    boolean: bool,
    hides: Collection[Path] = (),
    parameters: Collection[str] | None = None,
) -> RuleExpression:
    """Compile an expression of a rule at a place. CelMistake says in one line what is wrong, and where.

    `boolean`: it must give true or false. `hides` are paths whose values are not to be shown. `parameters`: the only
    names that may follow `arguments`; None if they are not known.
    """
    if not expression.strip():
        raise CelMistake('is empty: write a CEL expression like "arguments.amount > 100.0"')
    if len(expression) > LONGEST:
        raise CelMistake(f"has {len(expression):,} characters; at most {LONGEST:,} are allowed")
    names = NAMES[place]
    tokens = tokens_of(expression)
    paths = None if tokens is None else paths_of(tokens, names)
    if (complaint := complaint_about(tokens or [], paths or [])) is not None:
        raise CelMistake(complaint)
    try:
        program = _environment(place).compile(expression)
        kind = program.return_type().name()
        if boolean and kind not in ("BOOL", "DYN"):
            raise CelMistake(f"gives {kind.lower()}, not true or false: compare it with something")
        _check_parameters(expression, paths or [], parameters)
        hidden = paths is None or any(_overlap(path, one) for path in paths for one in hides)
        return RuleExpression(expression, program, paths, place, hidden=hidden and bool(hides))
    except RecursionError:
        raise CelMistake("is nested too deeply") from None
    except RuntimeError as error:
        line, column, name, problem = refusal_of(str(error))
        if name is None:
            raise CelMistake(f"is not a CEL expression: {problem}.{habit_in(expression)}", line, column) from None
        column = _begin_of(name, expression, line, column)
        raise CelMistake(_undeclared(name, expression, place, parameters), line, column) from None


def _undeclared(name: str, expression: str, place: str, parameters: Collection[str] | None) -> str:
    root = name.partition(".")[0]
    if root in NAMES["effect"] and root not in NAMES[place]:
        return f'names "{root}", which a rule at: {place} does not have. Known: {", ".join(sorted(NAMES[place]))}.'
    if name in (parameters or ()):
        return f'names "{name}", which does not exist. Did you mean "arguments.{name}"?'
    near = get_close_matches(name, NAMES[place], n=1, cutoff=0.8)
    guess = f' Did you mean "{near[0]}"?' if near else meant_by(name, expression, NAMES[place])
    return f'names "{name}", which does not exist.{guess}'


def _begin_of(name: str, expression: str, line: int, column: int) -> int:
    """The column where a name begins: the library tells that of its last dot."""
    before = "".join(expression.split("\n")[line - 1 : line])[: column - 1 + len(name)]
    return max((found.start() + 1 for found in re.finditer(re.escape(name), before)), default=column)


def _check_parameters(expression: str, paths: Collection[Path], parameters: Collection[str] | None) -> None:
    for path in paths:
        if parameters is None or path[0] != "arguments" or len(path) == 1 or path[1] in parameters:
            continue
        found = re.search(rf"\barguments\s*(?:\.\s*|\[\s*[\"']){re.escape(path[1])}", expression)
        before = expression[: found.start()] if found is not None else ""
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        guess = did_you_mean(path[1], parameters)
        raise CelMistake(f"names arguments.{path[1]}, but there is no such parameter.{guess}", line, column)


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


@lru_cache(maxsize=len(NAMES))
def _environment(place: str) -> Any:
    cel, extensions = library()
    kinds = {"agent": cel.Type.STRING, "action": cel.Type.STRING, "now": cel.Type.TIMESTAMP}
    variables = {name: kinds.get(name, cel.Type.DYN) for name in NAMES[place]}
    variables |= {f"event.{name}": cel.Type.TIMESTAMP for name in TIMES}
    return cel.NewEnv(variables=variables, extensions=extensions)


def _kind(value: Any) -> str:
    kinds = {dict: "a map", list: "a list", str: "a text", int: "a number", float: "a number", type(None): "null"}
    return kinds.get(type(value), "another value")


def text_of(value: Any) -> str:
    """A value as text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else _json(value)


def _short(value: Any) -> str:
    """A value for people."""
    told = redact(_json(value))
    return told if len(told) <= SHOWN_VALUE else told[:SHOWN_VALUE] + "…"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, a value inside itself
        return f"a {type(value).__name__}"
