"""The keys that a transaction locks."""

from __future__ import annotations

from dataclasses import dataclass, field

from wakeful.model import Claim, Flow

Lane = tuple[str, str, str]  # app, agent, key


@dataclass(slots=True)
class Lanes:
    """The keys that a transaction locks, and the runs that it may end."""

    settings: dict[Lane, tuple[int, int]] = field(default_factory=dict)  # (runs at once, 0: unchanged; `blocks`)
    ending: set[int] = field(default_factory=set)
    given_up: set[Lane] = field(default_factory=set)  # may go to the next runs after the verbs
    unordered: set[Lane] = field(default_factory=set)
    named: set[str] = field(default_factory=set)  # ids of runs whose keys must be looked up

    def add(self, app: str, agent: str, flow: Flow) -> None:
        if flow.key is None:
            return
        lane = (app, agent, flow.key)
        self.settings[lane] = (flow.per_key or 0, int(flow.blocks))
        if not flow.ordered:
            self.unordered.add(lane)

    def leave(self, claim: Claim, *, ends: bool) -> None:
        """A run gives up its key. `ends` is False if the run succeeds: the statement that ends it also frees its slot."""
        if claim.key is None:
            return
        lane = (claim.app, claim.agent, claim.key)
        self.settings.setdefault(lane, (0, 1))
        self.given_up.add(lane)
        if ends:
            self.ending.add(claim.seq)
