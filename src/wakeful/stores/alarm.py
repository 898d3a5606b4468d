"""The alarm that a request raises, and the keys that identify alarms."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds
from wakeful.model import Decision, digest


def heartbeat_alarm(app: str, name: str) -> str:
    """The key of a heartbeat's alarm: `name` is the check's schedule, or the heartbeat's name for a file."""
    return f"heartbeat/{app}/{name}"


def quarantine_alarm(app: str) -> str:
    """The key of the alarm raised when quarantined inputs are cut because they take too much room."""
    return f"quarantine/{app}"


# The kind of absence for a source that no process reads.
NOT_READ = "not-read"


def absence_alarm(app: str, name: str, kind: str) -> str:
    """The key of the alarm about an unmet expectation."""
    return f"expect/{app}/{name}/{kind}"


def down_alarm(app: str) -> str:
    """The key of the alarm about an app that has no living process."""
    return f"down/{app}"


def missed_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about missed occurrences of a schedule."""
    return f"missed/{app}/{schedule}"


def unfired_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about a schedule whose definition a process cannot read."""
    return f"schedule/{app}/{schedule}"


def source_alarm(app: str, name: str) -> str:
    """The key of the alarm about a source that cannot be read."""
    return f"source/{app}/{name}"


def concern_alarm(alarm: str) -> str:
    """The key of the second alarm of a source: it can be read, but something is wrong."""
    return f"{alarm}/concern"


@dataclass(slots=True)
class Alarm:
    """An alarm to raise. Raising it again refreshes the open one."""

    app: str
    key: str
    text: str
    agent: str | None = None  # the agent that it is about
    owner: str | None = None  # the person or group to notify
    loud: bool = False  # cannot be muted
    addressee: str | None = None  # the channel to use instead of the owner's
    remind_at: Microseconds | None = None  # when to remind, once
    error: str | None = None  # of a dead letter: the class of its error, if Wakeful raised it
    cause: str | None = None  # a digest of the facts that it is about, which count once; None: each time counts


def cause_of(*facts: object) -> str:
    """A digest of the facts that an alarm is about: ids, times, states. Never of words, which differ between versions."""
    return digest(*map(str, facts), size=8)


def condition_alarm(app: str, agent: str) -> str:
    """The key of the alarm about an agent's conditions that exceeded their budget."""
    return f"condition/{app}/{agent}"


def held_alarm(app: str, agent: str, what: str) -> str:
    """The key of the alarm about an agent's runs that are held for one cause, such as an action or an output."""
    return f"held/{app}/{agent}/{what}"


def ask_alarm(app: str, agent: str, approval: str) -> str:
    """The key of the alarm about an open approval."""
    return f"ask/{app}/{agent}/{approval}"


def circuit_alarm(app: str, name: str) -> str:
    """The key of the alarm about a dependency that is down."""
    return f"circuit/{app}/{name}"


def stuck_alarm(app: str, agent: str, run: str) -> str:
    """The key of the alarm about a run that makes no progress."""
    return f"stuck/{app}/{agent}/{run}"


def late_alarm(app: str, channel: str) -> str:
    """The key of the alarm about a channel whose next delivery does not get through."""
    return f"delivery/{app}/{channel}/late"


def unknown_alarm(app: str, channel: str) -> str:
    """The key of the alarm about deliveries that may have arrived, and that a person must settle."""
    return f"delivery/{app}/{channel}/unknown"


def failing_alarm(app: str, agent: str) -> str:
    """The key of the alarm about an agent whose runs keep ending dead."""
    return f"failing/{app}/{agent}"


def paused_alarm(app: str, agent: str) -> str:
    """The key of the alarm about an agent that was paused because its runs kept ending dead."""
    return f"paused/{app}/{agent}"


def about_broken_rule(app: str, decision: Decision) -> Alarm:
    """The alarm about a rule in Python that raised an error, and so denies everything."""
    text = f"rule {decision.rule} denies everything: {decision.reason}"
    return Alarm(app, f"rule/{app}/{decision.rule}", text)
