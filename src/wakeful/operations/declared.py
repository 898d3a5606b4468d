"""What an app's code knows of its agents, for operators' actions: which agents exist, and which data fits them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wakeful.clock import Microseconds
from wakeful.errors import NotFound, did_you_mean
from wakeful.execution.data import read_data
from wakeful.execution.state import refuse_misfit
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.flow import flows_of
from wakeful.model import Decision, Flow
from wakeful.policy.decide import AdmissionFacts, decide
from wakeful.stores.stored import EventToFeed

if TYPE_CHECKING:
    from wakeful.declarations import Declarations


class Declared:
    """The agents of an app's code: their names, the data each accepts, and policy's decisions."""

    def __init__(self, app: Declarations) -> None:
        self._app = app

    @property
    def name(self) -> str:
        return self._app.name

    @property
    def all(self) -> dict[str, Any]:
        """The agents of the app, by name."""
        return self._app.agents

    def refuse_unknown(self, agent: str) -> None:
        if agent not in self._app.agents:
            message = f'app {self._app.name} has no agent "{agent}".{did_you_mean(agent, self._app.agents)}'
            raise NotFound(message)

    def written_at(self, agent: str) -> str | None:
        """Where the agent is declared; None if the app has no such agent."""
        declared = self._app.agents.get(agent)
        return None if declared is None else declared.written_at

    def refuse_misfit(self, agent: str, data: Any) -> bool:
        """Raise InvalidData if the agent does not accept the edited data. False if the app has no such agent."""
        declared = self._app.agents.get(agent)
        if declared is None:
            return False
        read_data(data, declared, what="the edited data")
        return True

    def refuse_misfit_state(self, agent: str, text: str | None) -> None:
        """Raise NotFound if the agent has no state, InvalidState if its next run could not read this one. None clears the state."""
        self.refuse_unknown(agent)
        model = self._app.agents[agent].options.state
        if model is None:
            message = f"agent {agent} has no state: declare one with @app.agent(…, state=Model)"
            raise NotFound(message)
        if text is not None:
            refuse_misfit(model, text)

    def judge(self, agent: str, *, now: Microseconds) -> Callable[[EventToFeed], Decision]:
        """Policy's decision about a stored event."""
        declared = self._app.agents.get(agent)
        owner = None if declared is None else declared.options.owner

        def ask(event: EventToFeed) -> Decision:
            told = from_envelope(event.envelope or "{}")
            facts = AdmissionFacts(self._app.name, agent, owner, told, now, self._app.chains.chain(told))
            return decide(facts, self._app.rules)

        return ask

    def flow(self, agent: str) -> Callable[[EventToFeed], Flow] | None:
        """The key and priority of a stored event, if the agent has any."""
        plan = flows_of(self._app.agents).get(agent)
        return None if plan is None else lambda event: plan.place(from_envelope(event.envelope or "{}"))
