"""Checks handlers before they run: their source is read, and nothing of it is executed.

    agents ──► the module each is written in ──► its handler, and functions of that module that get its run
                    └──► calls of run.* with literal values: do these agents, conditions and durations exist?

Only certain mistakes are reported. Values that are computed, imported or passed around are left to the run itself.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from wakeful.clock import duration, readable
from wakeful.errors import ConfigError, Persistent, did_you_mean
from wakeful.execution.run import Run
from wakeful.execution.waiting import LONGEST
from wakeful.functions.emits import Emits, refuse_attributes
from wakeful.functions.retry import WAITS_IN_PLACE
from wakeful.intake.matching import condition_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OWN_SCOPE = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
WAITS = frozenset({"sleep", "sleep_until", "wait_for", "call", "ask"})
ALLOWED_INSIDE = frozenset({"event", "attempt", "log", "agent", "app", "id"})  # of a run, in a transaction
UNKNOWN = object()


def foresee(
    agents: Mapping[str, Callable[..., Any]],
    channels: Collection[str] | None = None,
    emits: Mapping[str, Emits] | None = None,
) -> list[str]:
    """The mistakes in the handlers of an app, each with file and line. `channels`: the app's channels; None: unknown.
    `emits`: for agents that may emit only certain types.
    """
    modules: dict[str, _Module | None] = {}
    problems: list[str] = []
    calls: dict[str, dict[str, str]] = {}  # agent: the agents it calls, and where
    for name, function in agents.items():
        handler = inspect.unwrap(function)
        file = getattr(getattr(handler, "__code__", None), "co_filename", None)
        if file is None:
            continue
        if file not in modules:
            modules[file] = _read(file)
        module = modules[file]
        node = None if module is None else module.written_at(handler.__code__.co_firstlineno, handler.__code__.co_name)
        if module is None or node is None or not node.args.args:
            continue
        reading = _Handler(name, module, agents, handler.__globals__, channels, (emits or {}).get(name))
        reading.read(node, node.args.args[0].arg)
        problems += reading.problems
        calls[name] = reading.calls
    return [*dict.fromkeys(problems), *_circles(calls)]


def _read(file: str) -> _Module | None:
    try:
        return _Module(file, ast.parse(Path(file).read_text(encoding="utf-8")))
    except (OSError, SyntaxError, ValueError):  # typed into an interpreter, or changed since it was loaded
        return None


@dataclass
class _Module:
    file: str
    tree: ast.Module

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions at module level, by name, without those that are defined twice."""
        found = [node for node in self.tree.body if isinstance(node, FUNCTIONS)]
        names = [node.name for node in found]
        return {node.name: node for node in found if names.count(node.name) == 1}

    def written_at(self, line: int, name: str) -> Function | None:
        for node in ast.walk(self.tree):
            if not isinstance(node, FUNCTIONS) or node.name != name:
                continue
            if line in {node.lineno, *(one.lineno for one in node.decorator_list)}:
                return node
        return None


@dataclass
class _Handler:
    """One agent's handler, and the functions it passes its run to."""

    agent: str
    module: _Module
    agents: Mapping[str, Callable[..., Any]]
    known: Mapping[str, Any]  # the current names of its module
    channels: Collection[str] | None = None
    emits: Emits | None = None
    problems: list[str] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def read(self, node: Function, run: str) -> None:
        """Check a function in which `run` is the run."""
        if (id(node), run) in self._seen or _assigns(node, run):
            return
        self._seen.add((id(node), run))
        local = _local_names(node)
        for call in _calls(node):
            method = _method(call, run)
            if method is not None:
                self._check(call, method, node, run, local)
            elif isinstance(call.func, ast.Name) and call.func.id not in local:
                self._follow(call, run)
        for block in _locks(node, run):
            self._refuse_waits(block, run)

    def _follow(self, call: ast.Call, run: str) -> None:
        """Check a function of the same module that is given the run."""
        called = self.module.functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        given = _parameter_of(call.args, run)
        if called is not None and given is not None and given < len(called.args.args):
            self.read(called, called.args.args[given].arg)

    def _check(self, call: ast.Call, method: str, node: Function, run: str, local: set[str]) -> None:
        options = {one.arg: _plain(one.value) for one in call.keywords}
        first = _plain(call.args[0]) if call.args else UNKNOWN
        self._check_options(call, method, [name for name in options if name is not None])
        match method:
            case "sleep":
                self._check_span(call, "run.sleep", first)
            case "wait_for":
                self._check_wait(call, first, options.get("where", UNKNOWN))
            case "emit":
                self._check_emit(call, options.get("type", first), [name for name in options if name is not None])
            case "send":
                self._check_send(call, options.get("channel", first))
            case "ask":
                self._check_ask(call, options.get("to", UNKNOWN), "run.ask(to=")
            case "decide":
                self._check_ask(call, options.get("ask", UNKNOWN), "run.decide(ask=")
                if options.get("timeout") is not None:
                    self._check_span(call, "run.decide: timeout", options.get("timeout", UNKNOWN))
            case "call" if call.args:
                self._check_call(call, call.args[0], local)
            case "transaction" if call.args:
                self._check_transaction(call, node, run, local)
        if method in WAITS and options.get("timeout") is not None:
            self._check_span(call, f"run.{method}: timeout", options.get("timeout", UNKNOWN))

    def _check_options(self, at: ast.AST, method: str, given: list[str]) -> None:
        """Report unknown options. A method that takes any keywords passes them on, to a step or an action."""
        function = getattr(Run, method, None)
        if not inspect.isfunction(function):
            return
        parameters = inspect.signature(function).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return
        names = [one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY and one.name != "self"]
        for name in given:
            if name not in names:
                self._tell(at, f'run.{method}: unknown option "{name}".{did_you_mean(name, names)}')

    def _check_span(self, at: ast.AST, what: str, span: Any) -> None:
        if span is UNKNOWN:
            return
        try:
            length = duration(span)
        except (TypeError, ValueError) as error:
            self._tell(at, f"{what}: {error}")
            return
        if not 0 <= length <= LONGEST:
            self._tell(at, f"{what}: from 0 to {readable(LONGEST)}, not {span!r}")

    def _check_wait(self, at: ast.AST, type_: Any, where: Any) -> None:
        if type_ is not UNKNOWN and (not isinstance(type_, str) or not type_.strip() or "*" in type_):
            self._tell(at, f"run.wait_for({type_!r}): give exactly one type to wait for, without *")
        if isinstance(where, str):
            try:
                condition_of(where)
            except ConfigError as error:
                self._tell(at, f"run.wait_for: where: {str(error).removeprefix('run.wait_for: ')}")

    def _check_emit(self, at: ast.AST, type_: Any, given: list[str]) -> None:
        if type_ is UNKNOWN or not isinstance(type_, str):
            return
        try:
            refuse_attributes(self.agent, type_, dict.fromkeys(given))
        except Persistent as error:
            self._tell(at, str(error).removeprefix(f"agent {self.agent}: "))
        if self.emits is not None and not self.emits.allows(type_):
            self._tell(at, f"run.emit({type_!r}): {self.emits.refusal(type_)}")

    def _check_send(self, at: ast.AST, channel: Any) -> None:
        if channel is UNKNOWN or self.channels is None or (isinstance(channel, str) and channel in self.channels):
            return
        hint = did_you_mean(str(channel), self.channels)
        self._tell(at, f"run.send({channel!r}): the app has no such channel.{hint}")

    def _check_ask(self, at: ast.AST, to: Any, call: str) -> None:
        """The addressee must be a channel: otherwise the approval goes to the agent's owner, and not to the person who was
        meant.
        """
        if to is UNKNOWN or to is None or self.channels is None or (isinstance(to, str) and to in self.channels):
            return
        hint = did_you_mean(str(to), self.channels)
        self._tell(at, f"{call}{to!r}): the app has no such channel.{hint}")

    def _check_call(self, at: ast.AST, whom: ast.expr, local: set[str]) -> None:
        name = self._called(whom, local)
        if name is None:
            return
        if name not in self.agents:
            self._tell(at, f"run.call({name!r}): there is no such agent.{did_you_mean(name, self.agents)}")
        else:
            self.calls.setdefault(name, self._place(at))

    def _called(self, whom: ast.expr, local: set[str]) -> str | None:
        """The name of the called agent, if it is written there: as text, or as a function of this module."""
        given = _plain(whom)
        if isinstance(given, str):
            return given
        if not isinstance(whom, ast.Name) or whom.id in local:
            return None
        function = self.known.get(whom.id)
        if not inspect.isfunction(function):
            return None
        return next((name for name, one in self.agents.items() if one is function), whom.id)

    def _check_transaction(self, call: ast.Call, node: Function, run: str, local: set[str]) -> None:
        """Report `run.*` in code that runs inside the transaction."""
        given = call.args[0]
        inside: ast.AST | None = None
        inner = run
        if isinstance(given, ast.Lambda):
            inside = given
        elif isinstance(given, ast.Name):
            own = [
                one for one in ast.walk(node) if isinstance(one, FUNCTIONS) and one.name == given.id and one is not node
            ]
            if len(own) == 1:
                inside = own[0]
            elif given.id not in local:
                inside = self.module.functions.get(given.id)
                place = _parameter_of(call.args[1:], run)
                names = [] if inside is None else [one.arg for one in self.module.functions[given.id].args.args]
                if place is None or place + 1 >= len(names):
                    return
                inner = names[place + 1]  # the first is the connection
        if inside is None or (inner == run and _assigns(inside, run)):
            return
        for use in ast.walk(inside):
            if not isinstance(use, ast.Attribute) or use.attr in ALLOWED_INSIDE:
                continue
            if isinstance(use.value, ast.Name) and use.value.id == inner:
                message = f"{inner}.{use.attr} inside run.transaction: its value would differ on resume"
                self._tell(use, f"{message}. Pass it in as an argument")

    def _refuse_waits(self, block: ast.AsyncWith, run: str) -> None:
        for call in _calls(block):
            method = _method(call, run)
            if method not in WAITS or (method == "sleep" and not self._is_long(call)):
                continue
            message = f"run.{method} inside run.lock: a waiting run leaves memory and would lose the lock"
            self._tell(call, f"{message}. Wait before the block, or after it")

    @staticmethod
    def _is_long(call: ast.Call) -> bool:
        """Whether a sleep is certainly long. A short one happens in place, and a computed one may be short."""
        span: Any = _plain(call.args[0]) if call.args else UNKNOWN
        try:
            return span is not UNKNOWN and duration(span) > WAITS_IN_PLACE
        except (TypeError, ValueError):
            return False

    def _tell(self, at: ast.AST, what: str) -> None:
        self.problems.append(f"agent {self.agent}: {what} ({self._place(at)})")

    def _place(self, at: ast.AST) -> str:
        return f"{self.module.file}:{getattr(at, 'lineno', '?')}"


def _circles(calls: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Agents that call one another in a circle; each circle once."""
    told: set[frozenset[str]] = set()

    def walk(path: list[str]) -> Iterator[str]:
        for name, place in calls.get(path[-1], {}).items():
            if name in path:
                circle = path[path.index(name) :]
                if frozenset(circle) not in told:
                    told.add(frozenset(circle))
                    yield (
                        f"agent {path[-1]}: run.call({name!r}) closes a circle: {' → '.join([*circle, name])}. "
                        f"Each would wait for the next for ever; pass the work on with run.emit instead ({place})"
                    )
            elif name not in done:
                yield from walk([*path, name])
        done.add(path[-1])

    done: set[str] = set()
    for agent in calls:
        if agent not in done:
            yield from walk([agent])


# parsing


def _plain(node: ast.expr) -> Any:
    """A literal value, or UNKNOWN."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def _method(call: ast.Call, run: str) -> str | None:
    """The method of the run that is called: `sleep` for `run.sleep(…)`."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == run:
        return function.attr
    return None


def _parameter_of(given: list[ast.expr], run: str) -> int | None:
    """The position of the run among the arguments; None if that is not certain."""
    if any(isinstance(one, ast.Starred) for one in given):
        return None
    return next((place for place, one in enumerate(given) if isinstance(one, ast.Name) and one.id == run), None)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or a block itself, without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, OWN_SCOPE):
            yield child
            yield from _own(child)


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in _own(node) if isinstance(one, ast.Call))


def _locks(node: ast.AST, run: str) -> Iterator[ast.AsyncWith]:
    for one in _own(node):
        if isinstance(one, ast.AsyncWith) and any(
            isinstance(item.context_expr, ast.Call) and _method(item.context_expr, run) == "lock" for item in one.items
        ):
            yield one


def _local_names(node: ast.AST) -> set[str]:
    """Names that a function defines itself."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    names |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    names |= {one.name for one in ast.walk(node) if isinstance(one, (*FUNCTIONS, ast.ClassDef)) and one is not node}
    for one in ast.walk(node):
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in one.names}
        elif isinstance(one, ast.ExceptHandler) and one.name:
            names.add(one.name)
    return names


def _assigns(node: ast.AST, name: str) -> bool:
    """Whether the name gets another meaning inside. A parameter of the function itself does not count."""
    if any(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in ast.walk(node)):
        return True
    nested = [one for one in ast.walk(node) if isinstance(one, ast.arg) and one.arg == name]
    own = [] if not isinstance(node, FUNCTIONS) else [one for one in node.args.args if one.arg == name]
    return len(nested) > len(own)
