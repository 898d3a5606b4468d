"""`wakeful state`: what an agent keeps from run to run, shown and changed by a person.

A run that has read the state and would save its own change over a person's is done again with the person's.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from wakeful.cli.arguments import Command, Parser, UsageError, add_json, add_store, operator_of, read_data
from wakeful.cli.opening import changing, chosen_store, read
from wakeful.cli.terminal import Cell, ago, now, plain, print_json, print_table, terminal, value
from wakeful.errors import NotFound, did_you_mean
from wakeful.loading import load_app
from wakeful.stores.base import ChangeState, RecordOperation
from wakeful.stores.reading import Reader
from wakeful.values import to_text

WORDS = ("show", "set", "clear")
KEY = ""


def declare(parser: Parser) -> None:
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="show [AGENT] (the default), set AGENT JSON, or clear AGENT"
    )
    parser.add_argument("--app", metavar="APP", help="file.py or module:app: checks the JSON against the agent's model")
    parser.add_argument("--of", metavar="NAME", help="the app's name, where several apps have an agent of that name")
    parser.add_argument("--note", metavar="TEXT", help="why, for the record")
    add_json(parser)
    add_store(parser)


def execute(arguments: argparse.Namespace) -> int:
    verb, *rest = arguments.words or ["show"]
    if verb not in WORDS:
        message = f'there is no "state {verb}".{did_you_mean(verb, WORDS)}'
        raise UsageError(message)
    takes = {"show": (0, 1), "set": (2, 2), "clear": (1, 1)}[verb]
    if not takes[0] <= len(rest) <= takes[1]:
        message = {"show": "state show takes at most one AGENT", "clear": "state clear takes an AGENT"}.get(
            verb, "state set takes an AGENT and JSON (or @file)"
        )
        raise UsageError(message)
    if verb == "show":
        return _show(arguments, rest[0] if rest else None)
    text = to_text(read_data(rest[1]), what="the state") if verb == "set" else None
    if text is not None and arguments.app is not None:
        _refuse_misfit(arguments.app, rest[0], text)
    return _change(arguments, verb, rest[0], text)


state_command = Command(declare, execute, "An agent has a state with @app.agent(…, state=Model).")


def _show(arguments: argparse.Namespace, agent: str | None) -> int:
    states: list[dict[str, Any]] = read(chosen_store(arguments), lambda reader: reader.states(agent))
    if arguments.of is not None:
        states = [one for one in states if one["app"] == arguments.of]
    if agent is not None and not states:
        message = f"agent {plain(agent)} keeps no state here yet: see `wakeful state`"
        raise NotFound(message)
    if arguments.json:
        print_json({"states": states})
        return 0
    if not states:
        print("no agent keeps a state here yet. It takes one with @app.agent(…, state=Model).")
        return 0
    out, present = terminal(), now()
    rows: list[list[Cell]] = [
        [
            plain(one["app"]),
            plain(one["agent"]),
            str(one["version"]),
            plain(one["changed_by"] or "–"),
            ago(one["changed_at"], present) if one["changed_at"] else "–",
            value(one["value"]),
        ]
        for one in states
    ]
    print_table(out, ["app", "agent", "version", "changed by", "changed", "state"], rows, flexible="state")
    return 0


def _change(arguments: argparse.Namespace, verb: str, agent: str, text: str | None) -> int:
    operator = operator_of(arguments)
    app = read(chosen_store(arguments), lambda reader: _app_of(reader, agent, arguments))

    async def change() -> int:
        async with changing(chosen_store(arguments)) as store:
            version = await store.change_state(ChangeState(app, agent, KEY, text, operator))
            await store.record_operation(RecordOperation(operator, f"state {verb}", app, agent, arguments.note))
            return version

    version = asyncio.run(change())
    if arguments.json:
        print_json({"app": app, "agent": agent, "version": version})
    else:
        print(f"state of {agent} (app {app}): {'set' if text is not None else 'cleared'}, version {version}")
    return 0


async def _app_of(reader: Reader, agent: str, arguments: argparse.Namespace) -> str:
    """Which app's agent is meant: the one that is named, or the only one that has been seen here."""
    if arguments.of is not None:
        return str(arguments.of)
    if arguments.app is not None:
        return load_app(arguments.app).name
    seen = {one["app"] for one in await reader.states(agent)} | set(await reader.apps_of_agent(agent))
    if len(seen) == 1:
        return next(iter(seen))
    if seen:
        message = f"agent {plain(agent)} is in several apps ({', '.join(sorted(seen))}): say which with --of NAME"
        raise UsageError(message)
    known = [one["agent"] for one in await reader.states()]
    message = f"no agent {plain(agent)} has run here.{did_you_mean(agent, known)} With --app APP or --of NAME it is set all the same"
    raise NotFound(message)


def _refuse_misfit(app: str, agent: str, text: str) -> None:
    """A state that the next run could not read."""
    from pydantic import TypeAdapter, ValidationError

    from wakeful.execution.state import first_words

    agents = load_app(app).agents
    if agent not in agents:
        message = f"app {app} has no agent {plain(agent)}.{did_you_mean(agent, agents)}"
        raise NotFound(message)
    model = agents[agent].options.state
    if model is None:
        message = f"agent {agent} has no state: it is declared with @app.agent(…, state=Model)"
        raise NotFound(message)
    try:
        TypeAdapter(model).validate_json(text)
    except ValidationError as error:
        message = f"that does not fit {model.__name__}: {first_words(error)}"
        raise UsageError(message) from None
