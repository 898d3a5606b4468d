"""The watcher: checks whether expectations were met, and raises alarms if not.

    facts ──► verdicts ──► alarms to open, alarms that are over ──► one transaction
                  └──────► when something could be overdue next: it rests until then

Any number of watchers may look at one store. Their findings are keyed by what is missing, so they agree. None of them
needs the code of an app: everything they judge by is stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from wakeful.clock import SECOND, Microseconds, seconds
from wakeful.errors import StoreUnavailable, WakefulError
from wakeful.service import Service
from wakeful.stored_errors import words_of
from wakeful.stores.alarm import Alarm, absence_alarm, cause_of, down_alarm
from wakeful.stores.request import Doer
from wakeful.stores.verbs.expectations import FinishLook
from wakeful.stores.verbs.tending import TendApprovals
from wakeful.telemetry.outage import note_outage, outage_is_over
from wakeful.watch.absence import KINDS, WORDS
from wakeful.watch.facts import Crew, Expected, Facts
from wakeful.watch.overdue import Overdue
from wakeful.watch.ping import Ping

EVERY: Microseconds = 60 * SECOND
# Kinds of alarms about work that waits.
OVERDUE = frozenset({"waiting", "blocked", "lag", "retrying", "limited"})
# The shortest rest, however much is overdue.
SHORTEST_REST = 1.0
# The rest is also at least this many times as long as a look takes: with very much overdue, looks are rarer.
REST_OF_A_LOOK = 20
AFTER_A_FAILED_LOOK = 5.0
LOOK_TAKES_AT_MOST = 30.0
LOOKS_UNTIL_RED = 3


class Watcher(Service):
    """Watches one app, or all apps in a store."""

    name = "watcher"

    def __init__(
        self,
        facts: Facts,
        store: Doer,
        app: str | None = None,
        *,
        every: Microseconds = EVERY,
        first_after: float = 0.0,
        ping: Ping | None = None,
        time_passes: bool = True,
    ) -> None:
        super().__init__()
        self._facts = facts
        self._store = store
        self._app = app
        self._every = every
        self._first_after = first_after
        self._ping = ping
        self._time_passes = time_passes
        self._made_at = time.monotonic()
        self._good_at: float | None = None
        self._failed = False
        self.looks = 0

    async def start(self) -> None:
        if self._ping is not None:
            await self._ping.start()
            self._ping.signal("start")
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        if self._ping is not None:
            await self._ping.stop()

    async def once(self) -> None:
        """One look and its ping, for a process that ends after it."""
        self._first_after = 0.0
        await self.run_once()
        if self._ping is not None:
            await self._ping.run_once()
            await self._ping.stop()

    @property
    def blind_for(self) -> float:
        """Seconds since the last successful look; before the first one, since it was created."""
        return time.monotonic() - (self._made_at if self._good_at is None else self._good_at)

    @property
    def silent_for(self) -> float:
        """As for every service; and failed looks do not count."""
        return max(super().silent_for, self.blind_for if self._task is not None and self._is_blind else 0.0)

    @property
    def _is_blind(self) -> bool:
        return self.blind_for > LOOKS_UNTIL_RED * max(seconds(self._every), SHORTEST_REST)

    @property
    def is_red(self) -> bool:
        """Whether the last successful look is several intervals ago, or there was none."""
        return self._good_at is None or self._is_blind

    async def run_once(self) -> float | None:
        """One look; rest until something could be overdue."""
        if self._first_after:
            rest, self._first_after = self._first_after, 0.0
            return rest
        began = time.monotonic()
        try:
            async with asyncio.timeout(LOOK_TAKES_AT_MOST):
                soonest, down = await self.look()
        except (WakefulError, TimeoutError) as error:
            self._failed = True
            words = words_of(error) or "the store did not answer in time"
            if isinstance(error, StoreUnavailable):
                note_outage(self.log, "could not look", error, again_in=AFTER_A_FAILED_LOOK)
            else:
                self.log.warning("could not look", error=words, again_in=AFTER_A_FAILED_LOOK)
            self._tell("fail", f"could not look: {words}")
            return min(AFTER_A_FAILED_LOOK, seconds(self._every))
        self._failed = False
        outage_is_over()
        self._good_at = time.monotonic()
        self.looks += 1
        if down:
            self._tell("fail", "; ".join(f"no process of app {app} is alive" for app in down))
        else:
            self._tell("success")
        if not self._time_passes:
            return None
        rest = seconds(self._every)
        if soonest is None:
            return rest
        return max(SHORTEST_REST, min(rest, max(seconds(soonest), REST_OF_A_LOOK * (self._good_at - began))))

    def _tell(self, kind: str, words: str = "") -> None:
        if self._ping is not None:
            self._ping.signal(kind, words)  # type: ignore[arg-type]

    async def look(self) -> tuple[Microseconds | None, list[str]]:
        """Look at everything. Returns how long until something could be overdue, and the apps that are down."""
        now = await self._facts.now()
        due: list[Microseconds] = []
        down = []
        for app in [self._app] if self._app is not None else await self._facts.apps():
            soonest, is_down = await self._look_at(app, now)
            due += [] if soonest is None else [soonest]
            down += [app] if is_down else []
        return min(due, default=None), down

    async def _look_at(self, app: str, now: Microseconds) -> tuple[Microseconds | None, bool]:
        crew = await self._facts.crew(app)
        found = await self._facts.expected(app, now, crew)
        # After an outage every lease has expired, because none could be renewed: living processes renew theirs now.
        is_down = crew.died and not self._failed and (bool(found) or await self._facts.has_work_to_come(app))
        known = await self._facts.alarms(app)
        # After an outage of the store everything has waited: the next look shows whether it continues.
        overdue = Overdue() if self._failed or is_down else await self._facts.overdue(app, now, crew)
        request = finished_look(app, found, known, crew, overdue, is_down=is_down, in_doubt=self._failed)
        if request is not None:
            for alarm in request.alarms:
                self.log.error("alarm", app=app, key=alarm.key, text=alarm.text)
            for key in request.over:
                self.log.info("alarm resolved", app=app, key=key)
            await self._store.do(request)
        due = [one.verdict.due_at - now for one in found if one.verdict.due_at is not None and one.verdict.due_at > now]
        return min([*due, *await self._tend(app)], default=None), is_down

    async def _tend(self, app: str) -> list[Microseconds]:
        """Approvals whose escalation is due, or whose time is over. Returns how long until the next, if there is one."""
        wait = await self._facts.tend_in(app)
        if wait is not None and wait <= 0:
            await self._store.do(TendApprovals(app))
            wait = await self._facts.tend_in(app)
        return [] if wait is None or wait <= 0 else [wait]


def finished_look(
    app: str,
    found: Sequence[Expected],
    known: dict[str, str | None],
    crew: Crew,
    overdue: Overdue | None = None,
    *,
    is_down: bool = False,
    in_doubt: bool = False,
) -> FinishLook | None:
    """The result of a look to store, or None if there is nothing. A pending expectation keeps its alarm."""
    alarms = [alarm_of(one) for one in found if one.verdict.state == "absent" and not one.verdict.told]
    if is_down:
        alarms.append(
            Alarm(
                app,
                down_alarm(app),
                f"no process of app {app} is alive: its schedules do not fire, its sources are not read, and its runs wait",
                cause=cause_of("down"),
            )
        )
    overdue = overdue or Overdue()
    alarms += overdue.alarms
    # The outbox raises and resolves these itself, with the error of the last try: the watcher adds those it cannot see.
    alarms += [alarm for alarm in overdue.late if alarm.key not in known]
    kept = {alarm.key for alarm in alarms} | {key for key in known if key.startswith("delivery/")}
    if in_doubt or is_down:  # waiting work was not checked
        kept |= {key for key in known if key.partition("/")[0] in OVERDUE}
    kept |= {key for one in found if one.verdict.state == "pending" for key in keys_of(app, one.name)}
    if in_doubt or (crew.died and not is_down):
        kept.add(down_alarm(app))
    over = sorted(key for key in known if key not in kept)
    # An open alarm is raised again only for another cause. One that an older version raised gets its cause, and nothing else changes:
    # if words were compared, two versions side by side would raise it against each other at each look.
    fresh = [alarm for alarm in alarms if alarm.key not in known or known[alarm.key] not in {None, alarm.cause}]
    causes = [
        (alarm.key, alarm.cause)
        for alarm in alarms
        if alarm.key in known and known[alarm.key] is None and alarm.cause is not None
    ]
    met = [
        (one.name, one.met_at)
        for one in found
        if one.kind not in {"schedule", "source"} and one.met_at is not None and one.met_at != one.noted_at
    ]
    return FinishLook(app, fresh, over, met, causes) if fresh or over or met or causes else None


def alarm_of(one: Expected) -> Alarm:
    """The alarm about an expectation that was not met."""
    kind = one.verdict.kind
    if kind is None:
        message = f"expectation {one.name} is not absent"
        raise ValueError(message)
    what = f"{one.kind if one.kind in {'schedule', 'source'} else 'expectation'} {one.name}"
    text = f"{what} ({one.what}): {WORDS[kind]}: {one.verdict.reason}"
    key = absence_alarm(one.app, one.name, kind)
    return Alarm(one.app, key, text, one.agent, one.owner, cause=cause_of(*one.verdict.cause))


def keys_of(app: str, name: str) -> Iterable[str]:
    """The keys of all alarms that an expectation can have."""
    return (absence_alarm(app, name, kind) for kind in KINDS)
