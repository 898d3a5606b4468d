"""Redoing: which ones, what it would mean, and then doing it at a rate. The command line and the HTTP API share this.

dead letters    replayed or discarded. What was replayed is no dead letter any more
stored events   handed to an agent that did not get them. One that it has is passed over
held effects    settled by a person's word. The first one stands

So whoever stops in between asks for the same again, and it goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from wakeful.clock import Microseconds, read_moment, to_text
from wakeful.errors import NotFound, did_you_mean
from wakeful.execution.data import read_data
from wakeful.execution.retry import signature
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.route import WILDCARD, type_matcher
from wakeful.model import Decision, run_id
from wakeful.policy.decide import AdmissionFacts, decide
from wakeful.stores.base import FeedEvents, RecordOperation, Redone, RedoRun, Settled, SettleEffect, StoredEvent

if TYPE_CHECKING:
    from wakeful.app import App

MANY = 10_000
BATCH = 1_000
SHOWN_RUNS = 20
BATCHES_A_SECOND = 10

Letter = dict[str, Any]
Progress = Callable[[int, int], None]
T = TypeVar("T")


class Reading(Protocol):
    """What is asked before anything is done."""

    async def dead(self, *, agent: str | None = None) -> list[Letter]: ...

    async def events_to_feed(
        self,
        agent: str,
        prefix: str,
        /,
        *,
        app: str | None,
        since: Microseconds,
        until: Microseconds,
        after: int,
        most: int,
        whole: bool,
    ) -> list[StoredEvent]: ...


class Redoing(Protocol):
    """Where it is done."""

    async def redo(self, request: RedoRun, /) -> Redone | None: ...

    async def redo_all(self, requests: Sequence[RedoRun], /) -> list[Redone | None]: ...

    async def settle_effect(self, request: SettleEffect, /) -> Settled | None: ...

    async def feed(self, request: FeedEvents, /) -> int: ...

    async def record_operation(self, request: RecordOperation, /) -> None: ...


def nobody_looks(_done: int, _of: int) -> None:
    """The progress of something that nobody watches."""


# how fast


class Pace:
    """So many a second, in batches; None is as fast as the store takes them. `stop` ends it between two batches."""

    def __init__(self, rate: float | None = None, stop: asyncio.Event | None = None) -> None:
        self._rate = rate
        self._stop = stop or asyncio.Event()
        self._began: float | None = None
        self.batch = BATCH if rate is None else min(BATCH, max(1, round(rate / BATCHES_A_SECOND)))

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def batches(self, things: Sequence[T]) -> Iterator[Sequence[T]]:
        for start in range(0, len(things), self.batch):
            yield things[start : start + self.batch]

    async def turn(self, done: int) -> bool:
        """Wait until the next batch may go, after so many; False once it shall stop."""
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        wait = 0.0 if self._rate is None else self._began + done / self._rate - now
        if wait > 0:
            try:
                await asyncio.wait_for(self._stop.wait(), wait)
            except TimeoutError:
                return True
        return not self.stopped


def read_rate(text: str) -> float | None:
    """`20/s`, `600/m`, a plain number for so many a second, or `max`. ValueError for anything else."""
    if text == "max":
        return None
    number, _, unit = text.partition("/")
    seconds = {"": 1, "s": 1, "m": 60, "h": 3600}.get(unit)
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if seconds is None or not (0 < value < math.inf):
        message = f"{text!r} is no rate: write 20/s, 600/m, 1000/h or max"
        raise ValueError(message)
    return value / seconds


def shown_rate(rate: float | None) -> str:
    return "as fast as the store" if rate is None else f"at {rate:g}/s"


# dead letters


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters: of an agent, with a text in their error, given up before some time; all, if nothing is said."""

    agent: str | None = None
    error: str | None = None
    until: Microseconds | None = None

    def takes(self, letter: Letter) -> bool:
        error = letter["error"]
        words = f"{error['type']}: {error['message']}".lower()
        return (self.error is None or self.error.lower() in words) and (
            self.until is None or letter["finished"] < self.until
        )


@dataclass(slots=True)
class Group:
    """Dead letters of one agent that failed alike, newest first."""

    agent: str
    signature: str
    letters: list[Letter]

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "error": self.signature,
            "count": len(self.letters),
            "last_at": self.letters[0]["finished_at"],
            "confirmed_effects": sum(confirmed_of(self.letters).values()),
            "runs": [letter["id"] for letter in self.letters[:SHOWN_RUNS]],
        }


@dataclass(slots=True)
class Plan:
    """Dead letters, newest first, and what redoing them would mean."""

    letters: list[Letter]
    groups: list[Group] = field(init=False)
    confirmed: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.groups = grouped(self.letters)
        self.confirmed = confirmed_of(self.letters)

    def to_json(self) -> dict[str, Any]:
        return {
            "count": len(self.letters),
            "confirmed_effects": sum(self.confirmed.values()),
            "confirmed_actions": self.confirmed,
            "groups": [group.to_json() for group in self.groups],
        }


def confirmed_of(letters: Sequence[Letter]) -> dict[str, int]:
    """Which actions a replay would find confirmed and not repeat, and how often; the most frequent first."""
    counts: Counter[str] = Counter()
    for letter in letters:
        counts.update(letter["confirmed"])
    return dict(counts.most_common())


def grouped(letters: Sequence[Letter]) -> list[Group]:
    found: dict[tuple[str, str], Group] = {}
    for letter in letters:
        kind = signature(letter["error"]["type"], letter["error"]["message"])
        found.setdefault((letter["agent"], kind), Group(letter["agent"], kind, [])).letters.append(letter)
    return sorted(found.values(), key=lambda group: -len(group.letters))


async def plan_redo(reader: Reading, choice: Choice) -> Plan:
    """What there is, and what redoing it would mean."""
    return Plan([letter for letter in await reader.dead(agent=choice.agent) if choice.takes(letter)])


async def redo_run(store: Redoing, request: RedoRun) -> Redone | None:
    """One run, and a note of who did it."""
    redone = await store.redo(request)
    if redone is not None and redone.refused is None:
        verb = "discard" if request.discard else "replay"
        await store.record_operation(RecordOperation(request.operator, verb, None, redone.run, request.note))
    return redone


async def redo_letters(
    store: Redoing,
    letters: Sequence[Letter],
    *,
    operator: str,
    note: str | None = None,
    discard: bool = False,
    pace: Pace | None = None,
    progress: Progress = nobody_looks,
) -> int:
    """Replay or discard them, the oldest first; returns how many. One that somebody else took meanwhile is passed over."""
    pace = pace or Pace()
    done = seen = 0
    for batch in pace.batches(letters[::-1]):
        if not await pace.turn(seen):
            break
        requests = [RedoRun(letter["id"], operator, note, discard=discard) for letter in batch]
        redone = await store.redo_all(requests)
        done += sum(one is not None and one.refused is None for one in redone)
        seen += len(batch)
        progress(seen, len(letters))
    verb = "discard" if discard else "replay"
    detail = f"{done} of {len(letters)}" + (f": {note}" if note else "")
    agents = sorted({letter["agent"] for letter in letters})
    await store.record_operation(RecordOperation(operator, verb, None, ", ".join(agents)[:200], detail))
    return done


# stored events


@dataclass(frozen=True, slots=True)
class Feeding:
    """Stored events of a type (or a pattern of types), accepted from `since` until before `until`, for an agent."""

    type: str
    since: Microseconds
    until: Microseconds
    agent: str
    app: str | None = None

    def shown(self) -> str:
        return f"{self.type} from {to_text(self.since)} until {to_text(self.until)}"


@dataclass(slots=True)
class FeedPlan:
    """What feeding would do: so many events, of which the agent has some already, and was denied others."""

    events: int = 0
    had: int = 0
    denied: int = 0
    apps: set[str] = field(default_factory=set)

    @property
    def new(self) -> int:
        return self.events - self.had - self.denied

    def to_json(self) -> dict[str, Any]:
        return {"events": self.events, "new": self.new, "already_had": self.had, "denied": self.denied}


def read_window(since: str, until: str | None, *, now: Microseconds) -> tuple[Microseconds, Microseconds]:
    """From and to, read. ValueError tells what was understood when they are the wrong way round."""
    first = read_moment(since, now=now)
    last = now if until is None else read_moment(until, now=now)
    if first >= last:
        message = f"from {since!r} ({to_text(first)}) is not before to {until or 'now'!r} ({to_text(last)})"
        raise ValueError(message)
    return first, last


def has(event: StoredEvent) -> bool:
    """Did the agent get this event? One that it did nothing with, because of a condition or too late, can be fed to it."""
    return event.admission is not None and (event.admission not in {"skipped", "expired"} or event.run_id is not None)


async def stored_events(reader: Reading, feeding: Feeding, *, whole: bool) -> AsyncIterator[list[StoredEvent]]:
    """Page by page, oldest first."""
    fits = type_matcher(feeding.type)
    prefix, after = feeding.type.partition(WILDCARD)[0], 0
    while True:
        page = await reader.events_to_feed(
            feeding.agent,
            prefix,
            app=feeding.app,
            since=feeding.since,
            until=feeding.until,
            after=after,
            most=BATCH,
            whole=whole,
        )
        yield [event for event in page if fits(event.type)]
        if len(page) < BATCH:
            return
        after = page[-1].seq


async def plan_feed(reader: Reading, feeding: Feeding) -> FeedPlan:
    """How many there are. ValueError when they are of several apps: an agent belongs to one."""
    plan = FeedPlan()
    async for page in stored_events(reader, feeding, whole=False):
        plan.events += len(page)
        plan.denied += sum(event.admission == "denied" for event in page)
        plan.had += sum(has(event) and event.admission != "denied" for event in page)
        plan.apps |= {event.app for event in page}
    if len(plan.apps) > 1:
        message = f"events like that belong to the apps {' and '.join(sorted(plan.apps))}: say which one is meant"
        raise ValueError(message)
    return plan


async def feed_events(
    store: Redoing,
    reader: Reading,
    feeding: Feeding,
    plan: FeedPlan,
    *,
    operator: str,
    note: str | None = None,
    judge: Callable[[StoredEvent], Decision] | None = None,
    most: int | None = None,
    pace: Pace | None = None,
    progress: Progress = nobody_looks,
) -> int:
    """Hand them over, the oldest first; returns how many runs that made. `judge` is policy, where it is known: what it does
    not allow is written down as denied.
    """
    pace = pace or Pace()
    most = plan.new if most is None else most
    reason = f"replayed by {operator}" + (f": {note}" if note else "")
    done = seen = 0
    async for page in stored_events(reader, feeding, whole=judge is not None):
        for batch in pace.batches([event for event in page if not has(event)]):
            chosen = batch[: most - seen]
            if not chosen or not await pace.turn(seen):
                break
            request = FeedEvents(chosen[0].app, feeding.agent, reason, [])
            for event in chosen:
                decision = None if judge is None else judge(event)
                if decision is None or decision.answer == "allow":
                    request.runs.append((event.seq, run_id(event.app, feeding.agent, event.source, event.id)))
                else:
                    request.denied.append((event.seq, decision))
            done += await store.feed(request)
            seen += len(chosen)
            progress(seen, plan.new)
        if seen >= most or pace.stopped:
            break
    detail = f"{done} of {plan.new} events, {feeding.shown()}" + (f": {note}" if note else "")
    app = next(iter(plan.apps), None)
    await store.record_operation(RecordOperation(operator, "replay", app, feeding.agent, detail))
    return done


# held effects

ANSWERS: dict[str, Literal["confirmed", "retrying", "abandoned"]] = {
    "confirm": "confirmed",
    "repeat": "retrying",
    "abandon": "abandoned",
}


async def settle(
    store: Redoing, effect: str, verb: str, *, operator: str, note: str | None = None, result: str | None = None
) -> Settled | None:
    """A person's word about a held effect, and a note of who gave it. None when there is no such effect."""
    settled = await store.settle_effect(SettleEffect(effect, ANSWERS[verb], operator, note, result))
    if settled is not None and settled.first:
        detail = f"{verb}: {note}" if note else verb
        await store.record_operation(RecordOperation(operator, "effects", None, effect, detail))
    return settled


def which_stands(settled: Settled, verb: str) -> str:
    """What somebody is told whose answer came second."""
    effect = settled.effect
    if effect.settled_by is not None:
        words = f"{effect.settled_by} settled it before: {effect.state}" + (f" ({effect.note})" if effect.note else "")
    else:
        words = f"it is {effect.state} and waits for nobody"
    return f"{effect.action} {effect.id}: {words}. Nothing was changed by this {verb}"


# what the code says


class Declared:
    """What the code of an app says of its agents: who there is, what each takes, and what policy allows."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def name(self) -> str:
        return self._app.name

    def refuse_unknown(self, agent: str) -> None:
        if agent not in self._app.agents:
            message = f'app {self._app.name} has no agent "{agent}".{did_you_mean(agent, self._app.agents)}'
            raise NotFound(message)

    def refuse_misfit(self, agent: str, data: Any) -> bool:
        """Raises InvalidData for edited data that the agent cannot take; False if there is no such agent to ask."""
        declared = self._app.agents.get(agent)
        if declared is None:
            return False
        read_data(data, declared, what="the edited data")
        return True

    def judge(self, agent: str, *, now: Microseconds) -> Callable[[StoredEvent], Decision]:
        """Policy's answer about an event that was stored before."""
        declared = self._app.agents.get(agent)
        owner = None if declared is None else declared.options.owner

        def ask(event: StoredEvent) -> Decision:
            facts = AdmissionFacts(self._app.name, agent, owner, from_envelope(event.envelope or "{}"), now)
            return decide(facts, self._app.rules)

        return ask
