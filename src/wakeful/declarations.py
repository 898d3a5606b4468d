"""The declarations of an app: agents, channels, expectations and heartbeats. Nothing runs here.

Every part that works for an app reads its declarations. `App`, in app.py, adds what needs the whole runtime: running
and HTTP.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from wakeful.agent import Agent, read_returns, read_signature
from wakeful.app_options import (
    ALARM_REPEAT,
    APP_OPTIONS,
    BACKLOG,
    DEDUPLICATION,
    DRAIN,
    LAG_WITHIN,
    QUARANTINE,
    QUARANTINE_FOR,
)
from wakeful.clock import SECOND, Clock, Duration
from wakeful.errors import ConfigError, did_you_mean
from wakeful.execution.circuits import Circuit, read_circuits
from wakeful.execution.command import agent_options, read_command
from wakeful.execution.telling import tell as tell_reminder
from wakeful.functions.options import AgentOptions, location, name_of, read_duration, read_options
from wakeful.intake.flow import plan_flow
from wakeful.intake.people_files import file_of
from wakeful.intake.policy_files import files_of
from wakeful.model import OWN_AGENTS
from wakeful.output.channels.base import Channel, handling_of
from wakeful.output.channels.log import Log
from wakeful.policy.decide import DEFAULT_RULES, Rule
from wakeful.policy.loops import read_limits
from wakeful.secrets import Env, Secret
from wakeful.size import read_size
from wakeful.stores.connections import budget_of
from wakeful.stores.request import Actor
from wakeful.triggers.base import Trigger
from wakeful.triggers.lags import read_lags
from wakeful.triggers.reminders import AGENT as REMINDER
from wakeful.watch.expectations import Expectation, read_expectation
from wakeful.watch.ping import read_ping
from wakeful.watch.telling import TELLER
from wakeful.watch.telling import tell as tell_alarm

if TYPE_CHECKING:
    from wakeful.execution.results import RunResults
    from wakeful.intake.accept import Door
    from wakeful.model import Receipt
    from wakeful.triggers.heartbeat import Heartbeat
    from wakeful.triggers.reminders import Reminder, Reminders

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}$")


class Working(Protocol):
    """The parts of a runtime that an app calls."""

    @property
    def door(self) -> Door: ...

    @property
    def results(self) -> RunResults: ...

    @property
    def reminders(self) -> Reminders: ...


class Declarations:
    """Agents that belong together, under one name and on one store. Users write `App`, the subclass."""

    def __init__(
        self,
        name: str,
        *,
        store: str | None = None,
        listen_store: str | None = None,
        connections: int | None = None,
        in_flight: int = 64,
        clock: Clock | None = None,
        rules: tuple[Rule, ...] = DEFAULT_RULES,
        policy: str | Path | Sequence[str | Path] | None = None,
        people: str | Path | None = None,
        channels: Mapping[str, Channel] | None = None,
        circuits: Mapping[str, Circuit] | None = None,
        retention: Duration | None = None,
        deduplication: Duration = DEDUPLICATION,
        keep_operations: Duration | None = None,
        archive: str | Path | None = None,
        encryption: Sequence[Secret] | None = None,
        ping: Secret | None = None,
        watch_every: Duration = "1m",
        alarms: str | None = None,
        alarm_repeat: Duration | None = ALARM_REPEAT,
        alarm_after: int | None = 3,
        pause_after: int | None = 10,
        drain: Duration = DRAIN,
        backlog: int | None = BACKLOG,
        lag_within: Duration | Mapping[str, Duration | None] | None = LAG_WITHIN,
        chain_depth: int | None = 25,
        chain_rate: str | None = "60/m",
        quarantine: int | str | None = QUARANTINE,
        quarantine_for: Duration | None = QUARANTINE_FOR,
        programs_may_answer: bool = False,
        **unknown: Any,
    ) -> None:
        for option in unknown:
            message = f'App({name!r}): unknown option "{option}".{did_you_mean(option, APP_OPTIONS)}'
            raise ConfigError(message)
        if not isinstance(name, str) or not _NAME.match(name):
            message = f"App({name!r}): a name is letters, digits, _ . and -, at most 100 of them"
            raise ConfigError(message)
        if not isinstance(in_flight, int) or in_flight < 1:
            message = f"App({name!r}): in_flight must be a whole number from 1 up, not {in_flight!r}"
            raise ConfigError(message)
        self.name = str.__str__(name)  # accepts a member of a str Enum; plain text from here on
        self.store = store
        self.listen_store = listen_store
        try:
            budget_of(connections)
        except ConfigError as error:
            raise ConfigError(f"App({name!r}): {error}") from None
        self.connections = connections
        self.in_flight = in_flight
        self.clock = clock
        self.rules = rules
        caller = sys._getframe(1).f_code.co_filename  # noqa: SLF001 the only way to find the caller's file
        self.policy = files_of(policy, caller=caller, where=f"App({name!r})")
        self.people = file_of(people, caller=caller, where=f"App({name!r})")
        self.circuits = read_circuits(circuits or {}, where=f"App({name!r})")
        self.agents: dict[str, Agent] = {}
        self.inner: dict[str, Agent] = {}  # Wakeful's own agents
        self.heartbeats: dict[str, Heartbeat] = {}
        self.probes: dict[str, Callable[..., Any]] = {}
        self.channels: dict[str, Channel] = {}
        self.channel("log", Log())
        if not isinstance(cast("object", channels or {}), Mapping):
            message = f'App({name!r}): channels must be names and channels, like {{"ops": log()}}, not {channels!r}'
            raise ConfigError(message)
        for channel, kind in (channels or {}).items():
            self.channel(channel, kind)
        self.retention = read_duration("retention", retention, f"App({name!r})")
        window = read_duration("deduplication", deduplication, f"App({name!r})")
        if window is None:
            message = f'App({name!r}): deduplication must be how long identities are kept, like "90d"'
            raise ConfigError(message)
        self.deduplication = window
        self.keep_operations = read_duration("keep_operations", keep_operations, f"App({name!r})")
        try:
            self.quarantine = None if quarantine is None else read_size(quarantine)
        except ValueError as error:
            message = f"App({name!r}): quarantine limits the space that unverified requests take: {error}, or None for no limit"
            raise ConfigError(message) from None
        self.quarantine_for = read_duration("quarantine_for", quarantine_for, f"App({name!r})")
        self.archive = None if archive is None else Path(archive)
        if isinstance(encryption, str | Env):
            message = f'App({name!r}): encryption must be a list of keys, like [env("DESK_KEY")]'
            raise ConfigError(message)
        self.encryption = encryption
        self.ping = read_ping(ping, where=f"App({name!r}): ping")
        often = read_duration("watch_every", watch_every, f"App({name!r})")
        if often is None or often < SECOND:
            message = f'App({name!r}): watch_every must be at least one second, like "1m"'
            raise ConfigError(message)
        self.watch_every = often
        self.expectations: dict[str, Expectation] = {}
        if not (alarms is None or (isinstance(alarms, str) and alarms)):
            message = f'App({name!r}): alarms must be the name of a channel, like "ops", not {alarms!r}'
            raise ConfigError(message)
        self.alarms = alarms
        self.alarm_repeat = read_duration("alarm_repeat", alarm_repeat, f"App({name!r})")
        usual = {"alarm_after": alarm_after, "pause_after": pause_after, "drain": drain}
        read_options(AgentOptions, usual, where=f"App({name!r})")
        self.usual = usual  # defaults for agents that do not set these options
        if backlog is not None and (not isinstance(backlog, int) or isinstance(backlog, bool) or backlog < 1):
            message = f"App({name!r}): backlog must be a whole number from 1 up, or None for no limit, not {backlog!r}"
            raise ConfigError(message)
        self.backlog = backlog
        self.lag_within = read_lags(lag_within, where=f"App({name!r})")
        self.chains = read_limits(chain_depth, chain_rate, where=f"App({name!r})")
        self.programs_may_answer = bool(programs_may_answer)
        # The agent that sends alarms is never paused, however often it fails: no other part could report that.
        self.inner_agent(name=TELLER, pause_after=None)(tell_alarm)
        self.inner_agent(name=REMINDER)(tell_reminder)
        self.runtime: Working | None = None  # set while the app runs in this process

    def channel(self, name: str, channel: Any) -> None:
        """Declare a channel that messages can go to: `app.channel("ops", http("https://…"))`. `log` always exists."""
        where = f"app {self.name}: channel {name!r}"
        if not isinstance(name, str) or not _NAME.match(name):
            message = f"{where}: a channel's name is letters, digits, _ . and -, at most 100 of them"
            raise ConfigError(message)
        if not isinstance(channel, Channel):
            message = (
                f"{where}: {channel!r} is not a channel. Write http(…), file(…), event(…), log() or one of your own"
            )
            raise ConfigError(message)
        if name in self.channels and name != "log":
            message = f"{where}: a channel of that name is already declared"
            raise ConfigError(message)
        handling_of(channel, where=where)
        self.channels[str.__str__(name)] = channel

    def agent(self, *triggers: Trigger, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Declare a function as an agent that wakes on these triggers.

        Options: owner, attempts, backoff, deadline, concurrency, max_crashes, deliver (the channel that gets the
        output), checks (of the output), expects_output (a run without output is held), state (a model kept from run to
        run), emits (the event types it may emit). Order and limits: key, on_dead, concurrency_per_key, overlap,
        debounce, batch, priority, expires, once, once_for.

        The function takes the run. With a second, annotated parameter it also takes the event's data, validated:
        `async def review(run: Run, pull_request: PullRequest) -> Review`.
        """
        return self._declare(self.agents, triggers, name, {**self.usual, **options})

    def inner_agent(self, *triggers: Trigger, name: str, **options: Any) -> Callable[[F], F]:
        """Like `agent`, for Wakeful's own agents. They are kept apart from the user's."""
        return self._declare(self.inner, triggers, name, options)

    @property
    def everything(self) -> dict[str, Agent]:
        """All agents: the user's and Wakeful's own."""
        return {**self.agents, **self.inner}

    def _declare(
        self, home: dict[str, Agent], triggers: tuple[Trigger, ...], name: str | None, options: dict[str, Any]
    ) -> Callable[[F], F]:
        def declare(function: F) -> F:
            chosen = str.__str__(name) if name else name_of(function)
            where = f"agent {chosen} ({location(function)})"
            if not _NAME.match(chosen):
                message = f"{where}: an agent's name is letters, digits, _ . and -, at most 100 of them"
                raise ConfigError(message)
            if home is self.agents and chosen.startswith(OWN_AGENTS):
                message = f"{where}: names that begin with {OWN_AGENTS} are reserved for Wakeful's own agents"
                raise ConfigError(message)
            if chosen in self.everything:
                there = self.everything[chosen].written_at
                message = f"{where}: app {self.name} already has an agent of that name ({there})"
                raise ConfigError(message)
            checked = read_options(AgentOptions, options, where=where)
            takes_data, model = read_signature(function, triggers, where, lists=checked.batch is not None)
            home[chosen] = Agent(
                chosen,
                function,
                triggers,
                checked,
                takes_data,
                model,
                location(function),
                plan_flow(chosen, checked, where=where),
                read_returns(function),
            )
            return function

        for given in cast("tuple[object, ...]", triggers):
            if not isinstance(given, Trigger):
                hint = " Write @app.agent() with parentheses." if callable(given) else ""
                message = f'app {self.name}: {given!r} is not a trigger. Write on("type") or another one.{hint}'
                raise ConfigError(message)
        return declare

    def expect(self, name: str | None = None, **options: Any) -> None:
        """Declare what should happen by when. If it does not happen, an alarm is raised, even if it never happened
        before.

        `expect("nightly backup", by="03:00", tz=…, days=…)`, `expect(source="stripe", at_least_every="1d")`,
        `expect(agent="digest", output_within="2h")`. A check-in of that name (`wakeful checkin`) meets the expectation,
        or what event=, source= or agent= names. Options: by, tz, days, at_least_every, output_within, event, source,
        agent, owner.
        """
        expectation = read_expectation(name, options, app=self.name)
        if expectation.name in self.expectations:
            message = f"app {self.name}: {expectation.name!r} is already expected: give this one a name of its own"
            raise ConfigError(message)
        self.expectations[expectation.name] = expectation

    def heartbeat(
        self,
        path: str | Path,
        *,
        every: Duration = "30m",
        active: str | None = None,
        days: str | None = None,
        tz: str | None = None,
        checklist: Callable[..., Any] | None = None,
        probes: Mapping[str, Callable[..., Any]] | None = None,
        deliver: str = "log",
        owner: str | None = None,
        timeout: Duration = "10m",
        commands: bool = False,
        environment: Mapping[str, Secret] | Sequence[str] | None = None,
        name: str = "heartbeat",
    ) -> None:
        """Run the checks in a Markdown file: each `##` section is a check with its own schedule and memory.

        `path` is relative to the file that calls this, regardless of the working directory. `checklist(run, check)`
        does a check and returns what to report, or None. Probes run first and say whether there is anything to do.
        `every`, `active`, `days` and `timeout` are the defaults for sections that do not set them. With commands=True a
        section may name a command as its probe (`probe: $ …`): everyone who can write the file can then run commands.
        Such a command gets PATH, HOME, LANG, TZ and the variables that `environment` gives or names.
        """
        from wakeful.execution.heartbeat import Memories, agent_of, folder_of, read_declaration

        declared = read_declaration(
            path,
            folder=folder_of(sys._getframe(1).f_code.co_filename),  # noqa: SLF001 the only way to find the caller's file
            name=name,
            every=every,
            active=active,
            days=days,
            tz=tz,
            checklist=checklist,
            probes=probes,
            deliver=deliver,
            owner=owner,
            timeout=timeout,
            commands=commands,
            environment=environment,
            withheld=self._key_names(),
            where=f"app {self.name}: heartbeat {name!r}",
        )
        options = {"state": Memories, "key": "data.session", "on_dead": "skip", "owner": owner}
        self.inner_agent(name=name, **options)(agent_of(declared, self.probes))
        self.heartbeats[declared.name] = declared

    def probe(self, function: F) -> F:
        """Declare a function that says whether a check has anything to do: `probe: its_name` in a heartbeat's file
        calls it.

        It takes the check, or nothing. Its return value is what there is to do; None, False or an empty value means
        nothing.
        """
        from wakeful.execution.heartbeat import refuse_probe

        name = name_of(function)
        where = f"app {self.name}: @app.probe ({location(function)})"
        refuse_probe(name, function, where=where)
        if name in self.probes:
            message = f"{where}: a probe {name} is already declared ({location(self.probes[name])})"
            raise ConfigError(message)
        self.probes[name] = function
        return function

    def command(
        self,
        name: str,
        trigger: Trigger | Sequence[Trigger],
        command: str | Sequence[str],
        *,
        timeout: Duration | None = None,
        cwd: str | Path | None = None,
        environment: Mapping[str, Secret] | Sequence[str] | None = None,
        repeatable: bool = False,
        **options: Any,
    ) -> None:
        """Declare a program as an agent: `app.command("report", cron("0 6 * * *"), ["python", "run_agent.py"])`.

        A list is started as it is; a text is run by the shell, as in a crontab. The output is the exit code, stdout and
        stderr; an exit code other than 0 is a failure. The program gets PATH, HOME, LANG, TZ, the variables that
        `environment` gives ({"KEY": env("REPORT_KEY")}) or names (["AWS_PROFILE"]), and facts of its run. `repeatable`:
        after a crash in the middle it may be run again without asking a person. Further options are those of an agent;
        `attempts` defaults to 1.
        """
        caller = sys._getframe(1)  # noqa: SLF001 a command has no function that knows its place in the source
        handler = read_command(
            name,
            command,
            written_at=f"{caller.f_code.co_filename}:{caller.f_lineno}",
            timeout=timeout,
            cwd=cwd,
            environment=environment,
            repeatable=repeatable,
            withheld=self._key_names(),
        )
        triggers = tuple(trigger) if isinstance(trigger, list | tuple) else (cast("Trigger", trigger),)
        self.agent(*triggers, name=name, **agent_options(handler, options))(handler)

    def _key_names(self) -> list[str]:
        """The environment variables that hold the store's encryption keys."""
        return [key.name for key in self.encryption or () if isinstance(key, Env)]

    async def emit(
        self,
        type: str,  # noqa: A002 the field's own name
        data: Any = None,
        *,
        source: str | None = None,
        id: str | None = None,  # noqa: A002
        subject: str | None = None,
        within: Any = None,
        **attributes: Any,
    ) -> Receipt:
        """Send an event in through intake. Returns once it is on disk.

        `within` is an asyncpg connection with an open transaction of yours: the event is stored by your commit, or not
        at all.
        """
        from wakeful.intake.cloudevents import new_event

        event = new_event(type, data, source=source or f"/{self.name}", id=id, subject=subject, **attributes)
        if self.runtime is not None:
            return (await self.runtime.door.accept([event], within=within))[0]
        async with self.reached() as runtime:
            return (await runtime.door.accept([event], within=within))[0]

    async def start(self, agent: str, data: Any = None, *, id: str | None = None) -> Receipt:  # noqa: A002
        """Run one agent now, regardless of its triggers."""
        from wakeful.intake.cloudevents import new_event

        event = new_event("wakeful.run", data, source=f"/{self.name}/run", id=id)
        async with self.reached() as runtime:
            receipts = await runtime.door.accept([event], agent=agent, by="app")
            return receipts[0]

    async def result(self, run: Receipt | str, *, timeout: Duration | None = "30s") -> Any:
        """Wait for the end of a run and return its output, as the handler's declared return type.

        `run` is a run's id, or the receipt of an event that started exactly one run. Raises RunFailed if the run is
        dead, denied or cancelled, and TimedOut if it is not over within `timeout` (None: no limit); the run itself goes
        on. Outside of `app.running()` the store is opened while this waits. Inside a handler use `run.call`, which
        waits durably.
        """
        from wakeful.execution.results import only_run
        from wakeful.stores.tampered import refuse_tampered
        from wakeful.values import from_text

        limit = read_duration("timeout", timeout, "app.result")
        identifier = only_run(run)
        async with self.reached() as runtime:
            end = await runtime.results.result(identifier, limit)
        agent = self.everything.get(end.agent) if end.app == self.name else None
        of = f"agent {end.agent} (run {end.id})"
        refuse_tampered(end.output or "")
        return from_text(end.output or "null", None if agent is None else agent.returns, of=of)

    async def remind(
        self,
        when: str | datetime,
        text: str,
        *,
        to: str | None = None,
        unless: str | None = None,
        where: str | None = None,
        tz: str | None = None,
        id: str | None = None,  # noqa: A002 the field's own name
        operator: str = "code",
    ) -> Reminder:
        """Make a reminder: a message to the channel `to` at a time ("in 20 minutes", "tomorrow 9am").

        `unless`: the reminder is dropped if an event of this type, for which the CEL expression `where` holds, arrives
        before then. With an `id` of your own, calling again makes no second reminder.
        """
        async with self.reached() as runtime:
            return await runtime.reminders.make(
                when, text, to=to, unless=unless, where=where, tz=tz, id=id, by=Actor(operator, "code")
            )

    def reached(self) -> AbstractAsyncContextManager[Working]:
        """The runtime of this app if it runs in this process; otherwise only its store, opened for the length of the
        block.
        """
        raise NotImplementedError
