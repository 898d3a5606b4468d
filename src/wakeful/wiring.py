"""The composition root: the one place that knows concrete classes and gives each part what it needs.

store ─ journal ─┬─ door (intake)
                 ├─ worker ─ executor ─ attempt
                 ├─ scheduler ─ schedules ─ heartbeats
                 ├─ sources ─ readers
                 ├─ webhooks ─ endpoints
                 ├─ courier ─ channels
                 ├─ trouble, teller and resolver (alarms)
                 ├─ membership (lease), reaper and housekeeper
                 ├─ watcher ─ facts, ping
                 ├─ hearing and lookout (news of other processes)
                 └─ reads ─ HTTP API
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from wakeful.clock import Clock, Microseconds, SystemClock
from wakeful.errors import ConfigError
from wakeful.execution.actions import parameters_by_action
from wakeful.execution.archiving import Archive
from wakeful.execution.circuits import Circuits
from wakeful.execution.executor import Executor
from wakeful.execution.hearing import Hearing
from wakeful.execution.housekeeping import PAUSE, Housekeeper, Retention
from wakeful.execution.lease import Membership
from wakeful.execution.lookout import Lookout
from wakeful.execution.reaper import Reaper
from wakeful.execution.results import RunResults
from wakeful.execution.sealing import SealingService
from wakeful.execution.surroundings import RunSurroundings
from wakeful.execution.watchdog import Watchdog
from wakeful.execution.worker import Worker, limits_of, versions_of
from wakeful.intake.accept import Door
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.flow import flows_of
from wakeful.intake.held_runs import HeldRuns
from wakeful.intake.matching import fits
from wakeful.intake.people_files import PeopleFiles
from wakeful.intake.policies import Policies
from wakeful.intake.policy_files import PolicyFiles
from wakeful.intake.reserved import ReservedNames
from wakeful.intake.route import Router
from wakeful.model import OWN_AGENTS
from wakeful.output.channels.base import Channel
from wakeful.output.channels.base import Surroundings as ChannelSurroundings
from wakeful.output.channels.event import EventChannel
from wakeful.output.outbox import Courier
from wakeful.policy.text import Known
from wakeful.reader import Reader
from wakeful.resources.desk import looking
from wakeful.resources.run_reading import whole_runs
from wakeful.service import Background
from wakeful.settings import ping_url, shown_store, store_url
from wakeful.stores.glance import glance
from wakeful.stores.journal import Probe
from wakeful.stores.keeping import Keeper
from wakeful.stores.opening import open_database
from wakeful.stores.rechecking import WaitRechecker
from wakeful.stores.store import DatabaseStore
from wakeful.telemetry.logger import logger_of
from wakeful.telemetry.outage import Outage
from wakeful.triggers.endpoint import read_endpoints
from wakeful.triggers.heartbeats import Heartbeats
from wakeful.triggers.reading import HOLD_AGAIN_AFTER
from wakeful.triggers.releasing import Releasing
from wakeful.triggers.reminders import Reminders
from wakeful.triggers.schedule import Schedule
from wakeful.triggers.scheduler import Scheduler
from wakeful.triggers.schedules import Schedules
from wakeful.triggers.sources import Sources, brought_by
from wakeful.triggers.webhooks import KIND, Webhooks
from wakeful.undeclared import unknown_agents, unknown_channels
from wakeful.watch.facts import Facts
from wakeful.watch.ping import Ping
from wakeful.watch.resolving import Resolver
from wakeful.watch.telling import Teller
from wakeful.watch.trouble import AlarmRaiser
from wakeful.watch.watcher import Watcher

if TYPE_CHECKING:
    from wakeful.declarations import Declarations
    from wakeful.triggers.base import Trigger

# On PostgreSQL a process that releases a source, or is found dead, notifies the others, and the lookout looks every few
# seconds.
ASK_FOR_SOURCES_EVERY = {"sqlite": HOLD_AGAIN_AFTER, "postgres": 60.0}

# A process that has just started first fires what is due, and need not raise an alarm about it.
FIRST_LOOK_AFTER = 5.0


def shortest_retention(app: Declarations) -> Microseconds | None:
    """How long the content of events is kept at least; None: without limit."""
    kept = [app.retention, *(agent.options.retention for agent in app.everything.values())]
    return min((one for one in kept if one is not None), default=None)


def known_to(app: Declarations, people: PeopleFiles) -> Known:
    """The agents, actions and people that rules of the app's policy may name."""
    return Known(frozenset(app.agents), parameters_by_action(), people.groups)


class Parts:
    """The parts of one process that works for one app. They do nothing until they are started."""

    def __init__(
        self,
        app: Declarations,
        *,
        on_lost: Callable[[str], None],
        on_gone: Callable[[list[tuple[str, int]]], None],
        listen: Callable[[], Awaitable[None]],
        store: str | None,
        clock: Clock | None,
        lease: Microseconds,
        probe: Probe | None,
        channels: Mapping[str, Channel] | None,
        watching: bool,
        watch_every: Microseconds | None,
        ping: Ping | None,
        reading: Literal["always", "drained", "never"],
        sources: Mapping[str, Sequence[Trigger]] | None,
    ) -> None:
        """`on_lost`: other processes declared this one dead. `on_gone`: other processes are no longer connected.
        `listen`: called when results of runs in other processes are waited for.
        """
        for message in (*unknown_channels(app), *unknown_agents(app)):
            raise ConfigError(message)
        clock = clock or app.clock or SystemClock()
        self.app = app
        self.clock = clock
        self.url = store_url(store or app.store)
        self.database = open_database(
            self.url, clock, encryption=app.encryption, connections=app.connections, listen=app.listen_store
        )
        self.store = DatabaseStore(self.database, probe=probe)
        self.reader = Reader(self.database)
        self.log = logger_of(app=app.name)
        self.outage = Outage(app=app.name, store=shown_store(self.url))
        self.background = Background()
        self.trouble = AlarmRaiser(app.name, self.store, self.background)
        self.alarm = self.trouble.alarm
        self.store.hear_trouble(self.trouble.note_store)
        time_passes = clock.for_database() is None  # a virtual clock is moved by a test, which says when to look
        agents = self.agents = app.everything
        # A process that only watches runs Wakeful's own agents, such as the one that sends alarms, and none of the
        # app's.
        here = {name: one for name, one in app.inner.items() if name.startswith(OWN_AGENTS)} if watching else agents
        self.reserved = ReservedNames(
            app.name,
            brought=brought_by(one for agent in agents.values() for one in agent.triggers),
            agents=agents,
            stored=partial(self.database.fetch, "reserved_names", app.name),
        )
        self.people_files = PeopleFiles(
            app.name, app.people, self.store, self.reader, process=lambda: self.membership.process, alarm=self.alarm
        )
        self.policies = Policies(app.name, self.database, lambda: app.rules)
        self.door = Door(
            app.name,
            # A schedule names its agent itself, so it is not routed.
            Router(
                [(one.name, [by for by in one.triggers if not isinstance(by, Schedule)]) for one in agents.values()]
            ),
            self.store,
            clock,
            owners={agent.name: agent.options.owner for agent in agents.values()},
            flows=flows_of(agents),
            policies=self.policies,
            chains=app.chains,
            on_conflict=self.trouble.note_conflict,
            on_broken_rule=self.trouble.note_broken_rule,
            reserved=self.reserved,
            on_exhausted=self.trouble.note_exhausted,
        )
        self.held_runs = HeldRuns(
            app.name,
            self.database,
            self.store,
            self.door,
            self.policies,
            agents=agents,
            process=lambda: self.membership.process,
        )
        self.policy_files = PolicyFiles(
            app.name,
            app.policy,
            self.policies,
            self.store,
            partial(known_to, app, self.people_files),
            alarm=self.alarm,
            people=lambda: self.people_files.mark,
            judge_held=self.held_runs.judge,
        )
        self.membership = Membership(
            self.store,
            self.database.presence,
            lease=lease,
            on_lost=on_lost,
            on_gone=on_gone,
            app=None if watching else app.name,
            limits=limits_of(here),
            versions=partial(versions_of, here),
        )
        self.circuits = Circuits(app.name, app.circuits, self.store, time_passes=time_passes)
        self.reminders = Reminders(
            app.name,
            self.store,
            channels=app.channels,
            events_kept=app.deduplication,
            data_kept=shortest_retention(app),
        )
        self.surroundings = RunSurroundings(
            app.name,
            self.store,
            self.door,
            clock,
            random.Random(),
            time_for_calls=self.membership.time_for_calls,
            policies=self.policies,
            on_broken_rule=self.trouble.note_broken_rule,
            owners={agent.name: agent.options.owner for agent in agents.values()},
            agents={agent.name: agent.function for agent in agents.values()},
            matches=fits,
            channels=app.channels,
            event_channels={name: one.type for name, one in app.channels.items() if isinstance(one, EventChannel)},
            emits={name: one.options.emits for name, one in agents.items() if one.options.emits is not None},
            circuits=self.circuits,
            reminders=self.reminders,
            codec=None if self.database.codec.ring is None else self.database.codec,
        )
        self.results = RunResults(
            self.database, self.store.journal, listen=listen, later=lambda: self.surroundings.later
        )
        self.rechecker: WaitRechecker | None = None
        if self.database.dialect == "postgres":
            self.rechecker = WaitRechecker(app.name, self.database, self.store.do, fits)
            self.store.hear_waits(self.rechecker.registered)
        self.courier = Courier(
            app.name,
            app.channels if channels is None else channels,  # a test may replace the app's channels
            self.store,
            lambda: self.membership.process,
            ChannelSurroundings(partial(self.door.accept, by="app")),
            chance=self.surroundings.chance,
            time_for_calls=self.membership.time_for_calls,
            time_passes=time_passes,
            owners=self.surroundings.owners,
            circuits=self.circuits,
        )
        self.worker = Worker(
            app.name,
            here,
            self.store,
            Executor(self.store, self.surroundings, from_envelope),
            lambda: self.membership.process,
            limit=app.in_flight,
            time_passes=time_passes,
        )
        self.watchdog = Watchdog(app.name, agents, clock, lambda: self.worker.in_flight, self.database.renewer)
        every = 1.0 if self.database.dialect == "sqlite" else 5.0
        self.reaper = Reaper(
            self.store, lambda: self.membership.process, every=every, app=app.name, on_peers=self.worker.note_peers
        )
        self.sealing = SealingService(
            app.name, self.store, self.database.codec, lambda: self.membership.process, self.alarm
        )
        whole = partial(whole_runs, looking(self.reader))
        archive = (
            None if app.archive is None else Archive(app.name, app.archive, self.reader, whole, self.store, self.alarm)
        )
        self.housekeeper = Housekeeper(
            Keeper(self.store),
            Retention(
                app.name,
                app.retention,
                {name: kept for name, agent in agents.items() if (kept := agent.options.retention) is not None},
                app.deduplication,
                app.quarantine,
                app.quarantine_for,
                app.keep_operations,
            ),
            archive=None if archive is None else archive.write,
            trouble=(lambda _: None) if archive is None else archive.note_trouble,
            pause=PAUSE if time_passes else 0,
            counted_for=lambda: 0 if self.policies.policy is None else self.policies.policy.counts_for,
        )
        self.scheduler = Scheduler(
            app.name, self.store, self.door.arrive, here, alarm=self.alarm, time_passes=time_passes
        )
        self.schedules = Schedules(
            app.name,
            self.store,
            arrive=self.door.arrive,
            agents=agents,
            decide=self.scheduler.decide_all,
            changed=self.scheduler.wake,
        )
        self.surroundings.schedules = self.schedules
        self.surroundings.sent = self.courier.wake_lanes
        self.reading = reading
        endpoints = {} if watching else read_endpoints(agents.values())
        self.webhooks = Webhooks(
            app.name,
            endpoints,
            self.door,
            self.store,
            clock,
            process=lambda: self.membership.process,
            ceiling=app.quarantine,
        )
        self.sources = Sources(
            app.name,
            {}
            if watching or reading == "never"
            else {name: one.triggers for name, one in app.agents.items()}
            if sources is None
            else sources,
            self.store,
            self.door.arrive,
            lambda: self.membership.process,
            clock=clock,
            backlog=app.backlog,
            on_conflict=self.trouble.note_conflict,
            pushed=[] if watching else [(path, KIND) for path in endpoints],
            owners=self.surroundings.owners,
            lags=app.lag_within,
            hold_again_after=ASK_FOR_SOURCES_EVERY[self.database.dialect],
        )
        self.releasing = Releasing(
            app.name, self.door.arrive, self.sources.reader, lambda: self.webhooks, self.sources.brought_by
        )
        self.teller = Teller(
            app.name,
            self.store,
            # A rule that denies everything would also block the alarm about itself.
            partial(self.door.arrive, judged=False),
            channels=app.channels,
            default=app.alarms,
            repeat=app.alarm_repeat,
            now=clock.now,
            time_passes=time_passes,
        )
        self.resolver = Resolver(
            app.name,
            self.store,
            self.reader,
            agents=agents,
            channels=app.channels,
            has_room=self.trouble.has_room,
            time_passes=time_passes,
        )
        self.reminders.changed = self.scheduler.wake
        self.heartbeats = Heartbeats(
            app.name, list(app.heartbeats.values()), self.schedules, self.store, probes=app.probes
        )
        self.watching = watching
        url = app.ping or ping_url()
        if ping is None and url is not None:
            ping = Ping(url, where=f"app {app.name}: ping")
        self.watcher = Watcher(
            Facts(self.database),
            self.store,
            None if watching else app.name,
            every=watch_every or app.watch_every,
            first_after=0.0 if watching else FIRST_LOOK_AFTER,
            ping=ping,
            time_passes=time_passes,
        )
        self.hearing = Hearing(
            app.name,
            self.database,
            worker=self.worker,
            reaper=self.reaper,
            circuits=self.circuits,
            results=self.results,
            courier=self.courier,
            scheduler=self.scheduler,
            teller=self.teller,
            rechecker=self.rechecker,
            sources=self.sources,
            policies=self.policy_files,
            people=self.people_files,
            time_passes=time_passes,
        )
        self.lookout = self.hearing.lookout = Lookout(
            partial(glance, self.database, app.name, list(here), list(app.channels if channels is None else channels)),
            [self.worker.glanced, self.hearing.glanced] if time_passes else [self.worker.glanced],
            then=self.sources.report_alive,
        )
