"""check: show what an app declares and what is wrong with it. Runs no agent and opens no store; only tests whether the
sources can be read.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from wakeful.errors import ConfigError, WakefulError
from wakeful.secrets import Env
from wakeful.settings import encryption_keys, shown_store, sqlite_path, token
from wakeful.shell.arguments import Command, Parser, add_app, add_json, add_store
from wakeful.shell.opening import chosen_store
from wakeful.shell.terminal import Cell, plain, print_json, print_table, say, terminal
from wakeful.undeclared import unknown_agents, unknown_channels

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.functions.child_environment import ChildEnvironment


def declare(parser: Parser) -> None:
    add_app(parser)
    add_store(parser)
    parser.add_argument("--host", metavar="HOST", help="also check whether `serve --host HOST` would be allowed")
    parser.add_argument("--port", metavar="PORT", help=argparse.SUPPRESS)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from wakeful.loading import load_app

    problems: list[str] = []
    app: Declarations | None = None
    try:
        app = load_app(arguments.app)
    except ConfigError as error:
        problems.append(str(error))
    problems += (
        []
        if app is None
        else [
            *unknown_channels(app),
            *unknown_agents(app),
            *handler_problems(app),
            *environment_problems(app),
            *schedule_problems(app),
            *webhook_problems(app),
        ]
    )
    problems += [] if app is None else source_problems(app)
    heartbeats, unreadable = ([], []) if app is None else read_heartbeats(app)
    problems += unreadable
    asked = (store_problem(arguments, app), key_problem(app), host_problem(arguments.host))
    problems += [problem for problem in asked if problem]
    found = {**report(arguments, app, problems), "heartbeats": heartbeats}
    found["notes"] += [f"{one['file']} has no checks: it does nothing" for one in heartbeats if not one["checks"]]
    if arguments.json:
        print_json(found)
    else:
        show(found)
    return 1 if problems else 0


check_command = Command(declare, execute)


def report(arguments: argparse.Namespace, app: Declarations | None, problems: list[str]) -> dict[str, Any]:
    return {
        "app": None if app is None else app.name,
        "store": shown_store(chosen_store(arguments, app)),
        "agents": [] if app is None else [agent.describe() for agent in app.agents.values()],
        "schedules": [] if app is None else schedules_of(app),
        "channels": [] if app is None else [{"name": name, **one.describe()} for name, one in app.channels.items()],
        "problems": problems,
        "notes": [] if app is None else notes(app),
    }


def schedules_of(app: Declarations) -> list[dict[str, Any]]:
    """The schedules of the app's agents with their next occurrence, by this machine's clock."""
    from wakeful.clock import SystemClock
    from wakeful.triggers.occurrences import moment_summary, zone_of
    from wakeful.triggers.schedules import code_schedules

    try:
        declared = code_schedules(app.everything)
    except ConfigError:
        return []  # reported as a problem
    present = SystemClock().now()
    shown = []
    for name, (agent, schedule, _) in declared.items():
        occurrence = schedule.rule.next(present)
        upcoming = None if occurrence is None else moment_summary(occurrence, zone_of(schedule))
        rule = schedule.describe()
        shown.append({"name": name, "agent": agent, "rule": rule, "zone": zone_of(schedule), "next": upcoming})
    return shown


def schedule_problems(app: Declarations) -> list[str]:
    """Schedules that share a name."""
    from wakeful.triggers.schedules import code_schedules

    try:
        code_schedules(app.everything)
    except ConfigError as error:
        return [str(error)]
    return []


def webhook_problems(app: Declarations) -> list[str]:
    """Agents that declare one path differently."""
    from wakeful.loading import shorter_paths
    from wakeful.triggers.endpoint import endpoint_problems

    return [shorter_paths(problem) for problem in endpoint_problems(app.everything.values())]


def source_problems(app: Declarations) -> list[str]:
    """Reasons why a source of the app cannot be read."""
    from wakeful.operations.sources import problems_of

    return problems_of(app.name, {name: agent.triggers for name, agent in app.agents.items()})


def in_the_past(app: Declarations) -> list[str]:
    return [
        f"schedule {one['name']} of agent {one['agent']}: {one['rule']} is in the past; it will not fire again"
        for one in schedules_of(app)
        if one["next"] is None
    ]


def read_heartbeats(app: Declarations) -> tuple[list[dict[str, Any]], list[str]]:
    """The checks in the heartbeat files, and the problems of those files."""
    from wakeful.triggers.heartbeats import content_of

    found, problems = [], []
    for one in app.heartbeats.values():
        content = content_of(one)
        if isinstance(content, str):
            problems.append(f"heartbeat {one.name}: {one.shown} cannot be read: {content}")
            continue
        try:
            file = one.understood(content, app.probes)
        except ConfigError as error:
            problems.append(f"heartbeat {one.name}: {error}")
            continue
        checks = [
            {"name": f"{one.name}/{section.name}", "every": section.schedule.describe(), "session": section.session}
            for section in file.sections
        ]
        found.append({"name": one.name, "file": one.shown, "deliver": one.deliver, "checks": checks})
    return found, problems


def handler_problems(app: Declarations) -> list[str]:
    """Problems found in the source code of the handlers."""
    from wakeful.execution.foreseen import foresee
    from wakeful.loading import shorter_paths

    emits = {name: one.options.emits for name, one in app.agents.items() if one.options.emits is not None}
    found = foresee({name: agent.function for name, agent in app.agents.items()}, app.channels, emits)
    return [shorter_paths(problem) for problem in found]


def environment_problems(app: Declarations) -> list[str]:
    """Child processes that would get a secret as a plain setting. Can only be known once everything is declared."""
    return [f"{where}: {words}" for where, one in environments(app).items() if (words := one.problem())]


def environments(app: Declarations) -> dict[str, ChildEnvironment]:
    """The environments of the child processes of commands and heartbeats, by their owner."""
    from wakeful.execution.command import ProgramCommand as Program

    given = {
        **{
            f"command {name}": one.function.environment
            for name, one in app.agents.items()
            if isinstance(one.function, Program)
        },
        **{f"heartbeat {name}": one.environment for name, one in app.heartbeats.items()},
    }
    return {where: one for where, one in given.items() if one is not None}


def store_problem(arguments: argparse.Namespace, app: Declarations | None) -> str | None:
    """The reason why a store with this address could not be opened, or None."""
    try:
        path = sqlite_path(chosen_store(arguments, app))
        if path is not None:
            from wakeful.stores.sqlite_connecting import refuse_network_file_system

            refuse_network_file_system(path)
        else:
            from wakeful.stores.postgres_connections import driver

            driver()
    except WakefulError as error:
        return str(error)
    return None


def key_problem(app: Declarations | None) -> str | None:
    """The reason why an encryption key is invalid, or None. Keys that are not set here are not checked."""
    from wakeful.stores.keyring import read_keys

    given = None if app is None else app.encryption
    here = None if given is None else [key for key in given if not isinstance(key, Env) or os.environ.get(key.name)]
    try:
        read_keys(here, encryption_keys())
    except ConfigError as error:
        return str(error)
    return None


def host_problem(host: str | None) -> str | None:
    if host is None:
        return None
    from wakeful.http.security import ApiSettings, refuse_open_binding

    try:
        refuse_open_binding(ApiSettings.of_environment(host))
    except ConfigError as error:
        return str(error)
    return None


def notes(app: Declarations) -> list[str]:
    """Declarations that are allowed but may be mistakes. Missing secrets are among them: the machine that runs the app
    may have them.
    """
    if not app.agents and not app.heartbeats:
        return [f'app {app.name} has no agents: declare one with @app.agent(on("type"))', *missing(app)]
    return [*missing(app), *without_trigger(app), *in_the_past(app), *without_token(app)]


def without_token(app: Declarations) -> list[str]:
    """Approvals that no command could answer if the app were started with the current settings."""
    from wakeful.operations.guarding import REMEDY, unguarded

    words = None if token() is not None else unguarded(app)
    return [] if words is None else [f"{words}: {REMEDY}"]


def missing(app: Declarations) -> list[str]:
    """Secrets and settings of channels, webhooks, the store and child programs that are not set here. `serve` refuses
    to start without those of the first three.
    """
    from wakeful.triggers.endpoint import Endpoint, missing_secrets, webhooks_of

    channels = [f"channel {name}: {words}" for name, channel in app.channels.items() for words in channel.missing()]
    keys = [
        f"encryption: the environment variable {key.name} is not set here"
        for key in app.encryption or ()
        if isinstance(key, Env) and not os.environ.get(key.name)
    ]
    children = [f"{where}: {words}" for where, one in environments(app).items() for words in one.missing()]
    named = webhooks_of(app.everything.values()).values()
    webhooks = missing_secrets(Endpoint([one for _, one in several]) for several in named)
    return channels + keys + webhooks + children


def without_trigger(app: Declarations) -> list[str]:
    return [
        f"agent {agent.name} has no trigger: only `wakeful run`, `app.start` and `run.call` start it"
        for agent in app.agents.values()
        if not agent.triggers
    ]


def show(found: dict[str, Any]) -> None:
    from wakeful.loading import shorter_paths

    if found["app"] is not None:
        out = terminal()
        count = len(found["agents"])
        out.print(Text(f"app {found['app']}, {count} agent{'' if count == 1 else 's'}, store {found['store']}"))
        rows = [
            [
                agent["name"],
                plain(", ".join(agent["triggers"])) or "–",
                plain(agent["owner"] or "–"),
                "a day" if agent["attempts"] is None else str(agent["attempts"]),
                plain(agent["version"]),
                Text(shorter_paths(agent["written_at"]), style="dim"),
            ]
            for agent in found["agents"]
        ]
        if rows:
            print_table(
                out, ("agent", "wakes on", "owner", "attempts", "version", "written at"), rows, flexible="wakes on"
            )
        show_schedules(out, found)
        show_output(out, found)
        rows = [
            [plain(check["name"]), plain(check["every"]), plain(check["session"]), plain(one["deliver"])]
            for one in found["heartbeats"]
            for check in one["checks"]
        ]
        if rows:
            print_table(out, ("check", "runs", "session", "delivers to"), rows, flexible="runs")
        for note in found["notes"]:
            out.print(Text(f"note: {note}", style="yellow"))
        if not found["problems"]:
            out.print(Text("no problems", style="green"))
    for problem in found["problems"]:
        say(plain(problem))


def show_schedules(out: Console, found: dict[str, Any]) -> None:
    """Print the schedules and their next occurrences."""
    from wakeful.resources.schedule_words import WIDE, wall

    wide = out.width >= WIDE
    rows: list[list[Cell]] = [
        [
            plain(one["name"]),
            plain(one["agent"]),
            plain(one["rule"]),
            "never" if one["next"] is None else wall(one["next"]) + (f" ({one['next']['at']})" if wide else ""),
        ]
        for one in found["schedules"]
    ]
    if rows:
        print_table(out, ("schedule", "agent", "rule", "next"), rows, flexible="rule")


def show_output(out: Console, found: dict[str, Any]) -> None:
    """Print channels, and for each agent its channel, state, checks, order and limits. The channel `log` alone is not
    worth a table.
    """
    used = {agent["deliver"] for agent in found["agents"]}
    rows: list[list[Cell]] = [
        [plain(one["name"]), plain(one.get("kind", "–")), Text(plain(details_of(one)), style="dim")]
        for one in found["channels"]
        if one["name"] != "log" or "log" in used or len(found["channels"]) > 1
    ]
    if rows:
        print_table(out, ("channel", "kind", "details"), rows, flexible="details")
    rows = [
        [
            plain(agent["name"]),
            plain(agent["deliver"] or "–"),
            plain(agent["state"] or "–"),
            plain(", ".join(agent["checks"]) or "–"),
        ]
        for agent in found["agents"]
        if agent["deliver"] or agent["state"] or agent["checks"]
    ]
    if rows:
        print_table(out, ("agent", "delivers to", "keeps", "checks"), rows, flexible="checks")
    rows = [[plain(agent["name"]), plain(words)] for agent in found["agents"] if (words := order_of(agent))]
    if rows:
        print_table(out, ("agent", "order and limits"), rows, flexible="order and limits")


def order_of(agent: dict[str, Any]) -> str:
    """The flow control of an agent in words: `key data.order, one at a time, dead letters block`."""
    told = []
    if agent["key"] is not None:
        many = agent["concurrency_per_key"]
        told += [f"key {agent['key']}", "one at a time" if many == 1 else f"{many} at a time"]
        told.append("dead letters block" if agent["on_dead"] == "block" else "dead letters are passed over")
    told += [f"{agent['concurrency']} at once"] if agent["concurrency"] is not None else []
    told += [f"rate {agent['rate']}"] if agent["rate"] is not None else []
    told += [f"overlap {agent['overlap']}"] if agent["overlap"] != "queue" else []
    told += [f"once per {agent['once']} within {agent['once_for']}"] if agent["once"] is not None else []
    told += [
        f"{name} {agent[name]}" for name in ("debounce", "batch", "priority", "expires") if agent[name] is not None
    ]
    return ", ".join(told)


def details_of(channel: dict[str, Any]) -> str:
    """The settings that a channel has, without those it lacks: `url https://…, signed`."""
    told = []
    for name, fact in channel.items():
        if name in {"name", "kind"} or not fact:
            continue
        words = fact if isinstance(fact, str) else ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)
        told.append(name.replace("_", " ") if fact is True else f"{name} {words}")
    return ", ".join(told)
