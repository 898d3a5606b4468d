"""Names that an app uses but does not declare: channels and agents. Checked once everything is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeful.errors import did_you_mean
from wakeful.output.channels.event import EventChannel
from wakeful.triggers.schedules import code_schedules

if TYPE_CHECKING:
    from wakeful.declarations import Declarations


def unknown_channels(app: Declarations) -> list[str]:
    """Problems with `deliver=` of agents and `alarms=` of the app: channels that are not declared. Call once everything
    is declared.
    """
    used = [(f"agent {one.name} ({one.written_at})", one.options.deliver) for one in app.agents.values()]
    used += [(f"heartbeat {one.name}", one.deliver) for one in app.heartbeats.values()]
    wrong = [
        f'{who}: deliver="{wanted}": app {app.name} has no such channel.'
        f'{did_you_mean(wanted, app.channels)} Declare it: App(…, channels={{"{wanted}": http("https://…")}})'
        for who, wanted in used
        if wanted is not None and wanted not in app.channels
    ]
    for one in app.agents.values():
        channel, emits = app.channels.get(one.options.deliver or ""), one.options.emits
        if isinstance(channel, EventChannel) and emits is not None and not emits.allows(channel.type):
            wrong.append(
                f'agent {one.name} ({one.written_at}): deliver="{one.options.deliver}": {emits.refusal(channel.type)}'
            )
    if app.alarms is not None and app.alarms not in app.channels:
        hint = did_you_mean(app.alarms, app.channels)
        wrong.append(
            f'App("{app.name}", alarms="{app.alarms}"): there is no such channel.{hint} '
            f'Declare it: App(…, channels={{"{app.alarms}": http("https://…")}})'
        )
    return wrong


def unknown_agents(app: Declarations) -> list[str]:
    """Problems with expectations: agents that are not declared, and names of schedules, which already have an
    expectation. Call once everything is declared.
    """
    taken = [
        f"app {app.name}: expect({name!r}): a schedule has that name, and its own expectation uses it: "
        "give this one another name"
        for name in code_schedules(app.everything)
        if name in app.expectations
    ]
    return taken + [
        f'app {app.name}: expect({one.name!r}): there is no agent "{one.agent}".{did_you_mean(one.agent, app.agents)}'
        for one in app.expectations.values()
        if one.agent is not None and one.agent not in app.everything
    ]
