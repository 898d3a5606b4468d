"""Loops: the chain that an event belongs to, and the limits on how long and how fast a chain may go on.

    from outside ──► run of review ──► event 1: review ──► run of fix ──► event 2: review → fix ──► run of review ──► …

Every event from a run says how many events from runs came before it in its chain (`chaindepth`), through which agents
(`chainpath`), and with which event the chain began (`chainid`). The depth is limited for every chain. The rate is
counted only if a chain comes back to an agent: one run that emits ten thousand events is not a loop.

Events from outside may carry these attributes too, because another Wakeful app may be on the other side. They are
trusted. A false depth denies only the event that carries it. A false `chainid` counts against the rate of the chain
that it names: a sender who may post events can have that chain denied for the time of the rate, and nothing more. An
unreadable attribute counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wakeful.clock import SECOND, written
from wakeful.errors import ConfigError
from wakeful.model import Decision, Event, event_key
from wakeful.rate import Rate

DEPTH, PATH, ROOT = "chaindepth", "chainpath", "chainid"
CAUSED_BY = "causedby"  # the run that wrote the change that this event reports
BETWEEN = ">"
PATH_LIMIT = 1_000
ROOT_LIMIT = 100
DEEPEST = 1_000_000  # higher depths count as this
SHOWN = 6
LONGEST = 86_400 * SECOND
DEFAULT_RATE = Rate(60, 60 * SECOND)


@dataclass(frozen=True, slots=True)
class Chain:
    """The place of an event in its chain."""

    root: str  # identifies the chain: the key of the event that it began with
    depth: int  # how many of its events came from runs, including this one
    path: tuple[str, ...] = ()  # the agents of these runs, as APP/AGENT; only the last ones of many
    rounds: int = 0  # how often it came back to the agent in question, within the time of the rate
    deepest: int | None = None
    rate: Rate | None = None

    def closes(self, app: str, agent: str) -> bool:
        """Whether the chain has already passed through this agent."""
        return f"{app}/{agent}" in self.path

    def shown(self, app: str | None = None) -> str:
        """The agents on its way, the last ones of many. Agents of other apps have both names."""
        names = [name.removeprefix(f"{app}/") for name in self.path]
        return " → ".join(names if len(names) <= SHOWN else ["…", *names[-SHOWN:]])


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """How long chains may be in an app, and how fast they may come back to an agent. None: no limit."""

    deepest: int | None = 25
    rate: Rate | None = DEFAULT_RATE

    def chain(self, event: Event) -> Chain | None:
        """The place of an event in its chain, with these limits."""
        found = chain_of(event)
        if found is None:
            return None
        return Chain(found.root, found.depth, found.path, 0, self.deepest, self.rate)


def read_limits(depth: Any, rate: Any, *, where: str) -> ChainLimits:
    """Read `chain_depth=` and `chain_rate=`. ConfigError for values that make no sense."""
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool) or depth < 1):
        message = f"{where}: chain_depth must be a whole number from 1 up, or None for no limit, not {depth!r}"
        raise ConfigError(message)
    try:
        limits = ChainLimits(depth, None if rate is None else Rate.read(rate))
    except ValueError as error:
        message = f"{where}: chain_rate: {error}; None for no limit"
        raise ConfigError(message) from None
    if limits.rate is not None and limits.rate.within > LONGEST:
        message = (
            f"{where}: chain_rate: {rate!r} counts for longer than a day, but chains are only remembered for a day"
        )
        raise ConfigError(message)
    return limits


def chain_of(event: Event) -> Chain | None:
    """The place of an event in its chain; None if no run of ours caused it."""
    said = event.extensions
    return read_chain(said, event.correlationid or event.id) if DEPTH in said else None


def depth_of(event: Event) -> int:
    chain = chain_of(event)
    return 0 if chain is None else chain.depth


def read_chain(said: Mapping[str, Any], otherwise: str) -> Chain | None:
    """The chain that attributes of an event describe, from any sender. `otherwise` is the root if they name none."""
    depth = _whole(said.get(DEPTH))
    if depth < 1:
        return None
    root, path = said.get(ROOT), said.get(PATH)
    if not isinstance(root, str) or not 0 < len(root) <= ROOT_LIMIT:
        root = otherwise[:ROOT_LIMIT]
    names = path[-PATH_LIMIT:].split(BETWEEN) if isinstance(path, str) else []
    return Chain(root, depth, tuple(name for name in names if name))


def _whole(said: Any) -> int:
    """A number, also as text: attributes from headers are text."""
    if isinstance(said, str) and said.isascii() and said.isdigit():
        said = int(said[:10])
    return min(said, DEEPEST) if isinstance(said, int) and not isinstance(said, bool) and said > 0 else 0


def next_link(event: Event, app: str, agent: str) -> dict[str, Any]:
    """The chain attributes of an event from a run of this agent, which handles `event`."""
    chain = chain_of(event) or Chain(event_key(app, event.source, event.id), 0)
    return link(chain, app, agent)


def link(chain: Chain, app: str, agent: str) -> dict[str, Any]:
    """The next link of a chain, as attributes of an event."""
    path = [*chain.path, f"{app}/{agent}"]
    while len(path) > 1 and sum(len(name) + 1 for name in path) > PATH_LIMIT:
        del path[0]
    return {DEPTH: min(chain.depth + 1, DEEPEST), PATH: BETWEEN.join(path), ROOT: chain.root}


# rules


def chain_depth(facts: Any) -> Decision | None:
    """No chain may be longer than its limit."""
    chain = _chain_in(facts)
    if chain is None or chain.deepest is None or chain.depth <= chain.deepest:
        return None
    reason = (
        f"it is event {chain.depth:,} of the chain that began with event {_beginning(facts.event, chain)} "
        f"({chain.shown(facts.app)}); the limit is App(chain_depth={chain.deepest}): break the loop, or raise the limit"
    )
    return Decision("deny", rule="chain_depth", reason=reason)


def chain_rate(facts: Any) -> Decision | None:
    """No chain may come back to an agent faster than its limit, however many branches it has."""
    chain = _chain_in(facts)
    if chain is None or chain.rate is None or chain.rounds <= chain.rate.most:
        return None
    reason = (
        f"the chain that began with event {_beginning(facts.event, chain)} came back to agent {facts.agent} more than "
        f"{chain.rate.most:,} times within {written(chain.rate.within)} ({chain.shown(facts.app)}), the limit of "
        "App(chain_rate=…): break the loop, or raise the limit"
    )
    return Decision("deny", rule="chain_rate", reason=reason)


def _chain_in(facts: Any) -> Chain | None:
    """The chain in some facts. Effects and schedules have none: the limits decide whether a run begins."""
    chain: Chain | None = getattr(facts, "chain", None)
    return chain


def _beginning(event: Event, chain: Chain) -> str:
    return event.correlationid or chain.root
