"""Hand stored events to an agent that did not receive them: select, then hand over at a pace.

Events that the agent already has are skipped, so a command that was stopped is continued by the same command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from wakeful.clock import Microseconds, to_text
from wakeful.intake.route import WILDCARD, type_matcher
from wakeful.model import Flow, event_key, run_id
from wakeful.operations.pace import BATCH, Pace, Progress, unseen
from wakeful.policy.judgement import Judgement
from wakeful.stores.reads import ReadsDatabase
from wakeful.stores.request import Actor, Bulk, Doer
from wakeful.stores.stored import EventToFeed
from wakeful.stores.verbs.feed import FeedEvents, JudgedEvent
from wakeful.triggers.past import read_past


@dataclass(frozen=True, slots=True)
class Feeding:
    """Stored events of a type (or a pattern of types), accepted in [since, until), for an agent. `denied` includes events that
    policy denied to it.
    """

    type: str
    since: Microseconds
    until: Microseconds
    agent: str
    app: str | None = None
    denied: bool = False

    def shown(self) -> str:
        return f"{self.type} from {to_text(self.since)} until {to_text(self.until)}"


@dataclass(slots=True)
class FeedPlan:
    """What feeding would do: the number of events, of those the agent already has, and of those denied to it."""

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
    """Parse both times. Raises ValueError with the parsed times if they are in the wrong order."""
    first = read_past(since, now=now)
    last = now if until is None else read_past(until, now=now)
    if first >= last:
        message = f"from {since!r} ({to_text(first)}) is not before to {until or 'now'!r} ({to_text(last)})"
        raise ValueError(message)
    return first, last


def has(event: EventToFeed, *, denied: bool = False) -> bool:
    """Whether the agent already received this event. An event that was skipped by a condition or came too late can be fed; one
    that policy denied only if an operator asks for it (`denied`).
    """
    free = {"skipped", "expired", "denied"} if denied else {"skipped", "expired"}
    return event.admission is not None and (event.admission not in free or event.run_id is not None)


async def stored_events(reads: ReadsDatabase, feeding: Feeding, *, whole: bool) -> AsyncIterator[list[EventToFeed]]:
    """The events, page by page, oldest first."""
    fits = type_matcher(feeding.type)
    prefix, after = feeding.type.partition(WILDCARD)[0], 0
    while True:
        window = (feeding.app, prefix, feeding.since, feeding.until, feeding.agent, after, BATCH, int(whole))
        page = [EventToFeed(*row) for row in await reads.fetch("list_events_to_feed", *window)]
        yield [event for event in page if fits(event.type)]
        if len(page) < BATCH:
            return
        after = page[-1].seq


async def plan_feed(reads: ReadsDatabase, feeding: Feeding) -> FeedPlan:
    """Count the events. Raises ValueError if they belong to several apps: an agent belongs to one."""
    plan = FeedPlan()
    async for page in stored_events(reads, feeding, whole=False):
        plan.events += len(page)
        refused = [] if feeding.denied else [event for event in page if event.admission == "denied"]
        plan.denied += len(refused)
        plan.had += sum(has(event, denied=feeding.denied) for event in page) - len(refused)
        plan.apps |= {event.app for event in page}
    if len(plan.apps) > 1:
        message = f"matching events belong to the apps {' and '.join(sorted(plan.apps))}: choose one"
        raise ValueError(message)
    return plan


async def feed_events(
    store: Doer,
    reads: ReadsDatabase,
    feeding: Feeding,
    plan: FeedPlan,
    *,
    by: Actor,
    note: str | None = None,
    judge: Callable[[EventToFeed], Judgement] | None = None,
    flow: Callable[[EventToFeed], Flow] | None = None,
    most: int | None = None,
    pace: Pace | None = None,
    progress: Progress = unseen,
) -> int:
    """Hand the events over, oldest first. Returns the number of runs made. `judge` is policy, if known: denied events are recorded
    as denied; if an operator overrules policy, it is not asked. `flow` gives the key and priority of each event: the runs queue
    like any other.
    """
    judge = None if feeding.denied else judge
    pace = pace or Pace()
    most = plan.new if most is None else most
    reason = f"replayed by {by.name}" + (f": {note}" if note else "")
    bulk = Bulk("replay", next(iter(plan.apps), None), feeding.agent, f"{plan.new} events, {feeding.shown()}")
    done = seen = 0
    async for page in stored_events(reads, feeding, whole=judge is not None or flow is not None):
        for batch in pace.batches([event for event in page if not has(event, denied=feeding.denied)]):
            chosen = batch[: most - seen]
            if not chosen or not await pace.turn(seen):
                break
            request = FeedEvents(
                chosen[0].app, feeding.agent, reason, [], overrules=feeding.denied, by=by, note=note, bulk=bulk
            )
            for event in chosen:
                judgement = None if judge is None else judge(event)
                if judgement is not None and judgement.decision.answer == "deny":
                    request.denied.append((event.seq, judgement))
                    continue
                if judgement is not None and (
                    judgement.decision.answer != "allow" or judgement.counted or judgement.watched
                ):
                    request.judged[event.seq] = JudgedEvent(
                        event_key(event.app, event.source, event.id), event.id, event.type, judgement
                    )
                request.runs.append((event.seq, run_id(event.app, feeding.agent, event.source, event.id)))
                if flow is not None:
                    request.flows[event.seq] = flow(event)
            done += await store.do(request)
            seen += len(chosen)
            progress(seen, plan.new)
        if seen >= most or pace.cut_short:
            break
    return done
