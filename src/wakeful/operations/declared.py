"""What an app's code knows of its agents, for operators' actions: which agents exist, and which data fits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wakeful.clock import Clock, Microseconds
from wakeful.errors import NotFound, did_you_mean
from wakeful.execution.actions import Action, action_named, find_action, parameters_by_action
from wakeful.execution.data import read_data
from wakeful.execution.state import refuse_misfit
from wakeful.intake.cloudevents import from_envelope
from wakeful.intake.flow import flows_of
from wakeful.intake.people_files import read_file
from wakeful.intake.policies import Policies
from wakeful.model import Flow
from wakeful.policy.decide import AdmissionFacts, Rule
from wakeful.policy.judgement import Judgement
from wakeful.policy.loops import ChainLimits
from wakeful.policy.people import PeopleText
from wakeful.stores.stored import EventToFeed
from wakeful.stores.transaction import Fetcher

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

    @property
    def names(self) -> frozenset[str]:
        """The names of the agents that a policy may name."""
        return frozenset(self._app.agents)

    @property
    def people(self) -> PeopleText | None:
        """The people of `App(people=…)`; None if the app has no such file. Raises ConfigError."""
        return None if self._app.people is None else read_file(self._app.people)

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules of `App(rules=…)`, and Wakeful's own."""
        return self._app.rules

    @property
    def clock(self) -> Clock | None:
        """The clock of the app; None: that of the system."""
        return self._app.clock

    @property
    def chains(self) -> ChainLimits:
        return self._app.chains

    def owner(self, agent: str) -> str | None:
        declared = self._app.agents.get(agent)
        return None if declared is None else declared.options.owner

    def action(self, reference: str) -> Action[..., Any] | None:
        """The action that is declared there; None if the code has none."""
        return find_action(reference, self._app.name)

    def action_named(self, name: str) -> Action[..., Any] | None:
        """The action of this name; None if the code has none, or several."""
        return action_named(name)

    def declares(self, action: str) -> bool:
        """Whether the code has an action of this name, or an undo of one; there may be several."""
        return action in parameters_by_action()

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

    async def judge(self, agent: str, database: Fetcher, *, now: Microseconds) -> Callable[[EventToFeed], Judgement]:
        """Policy's judgement about a stored event, by the policy in force now."""
        owner = self.owner(agent)
        policies = Policies(self._app.name, database, lambda: self._app.rules)
        await policies.look()
        return _judge(policies, self._app.name, agent, owner, self._app.chains, now)

    def flow(self, agent: str) -> Callable[[EventToFeed], Flow] | None:
        """The key and priority of a stored event, if the agent has any."""
        plan = flows_of(self._app.agents).get(agent)
        return None if plan is None else lambda event: plan.place(from_envelope(event.envelope or "{}"))


async def judge_by_store(
    app: str, agent: str, database: Fetcher, *, now: Microseconds
) -> Callable[[EventToFeed], Judgement] | None:
    """The judgement of the policy in force, without the app's code and its rules; None if the app has no policy."""
    policies = Policies(app, database)
    await policies.look()
    return None if policies.version is None else _judge(policies, app, agent, None, ChainLimits(), now)


def _judge(
    policies: Policies, app: str, agent: str, owner: str | None, chains: ChainLimits, now: Microseconds
) -> Callable[[EventToFeed], Judgement]:
    def ask(event: EventToFeed) -> Judgement:
        told = from_envelope(event.envelope or "{}")
        return policies.judge_admission(AdmissionFacts(app, agent, owner, told, now, chains.chain(told)))

    return ask
