"""An alarm as it is raised, and the keys by which alarms are known."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.clock import Microseconds


def heartbeat_alarm(app: str, name: str) -> str:
    """The key of the alarm about a check, by the name of its schedule, or about a file, by the name of its heartbeat."""
    return f"heartbeat/{app}/{name}"


def quarantine_alarm(app: str) -> str:
    """The key of the alarm that unverified inputs are cut because they take too much."""
    return f"quarantine/{app}"


# The kind of absence of a source that nobody reads.
NOT_READ = "not-read"


def absence_alarm(app: str, name: str, kind: str) -> str:
    """The key of the alarm about an expectation that was not met."""
    return f"expect/{app}/{name}/{kind}"


def down_alarm(app: str) -> str:
    """The key of the alarm about an app that nobody works for any more."""
    return f"down/{app}"


def missed_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about occurrences that nobody kept."""
    return f"missed/{app}/{schedule}"


def unfired_alarm(app: str, schedule: str) -> str:
    """The key of the alarm about a schedule whose definition a process cannot make anything of."""
    return f"schedule/{app}/{schedule}"


def source_alarm(app: str, name: str) -> str:
    """The key of the alarm about a source that cannot be read."""
    return f"source/{app}/{name}"


def concern_alarm(alarm: str) -> str:
    """The key of the one beside it: it can be read, but all is not well."""
    return f"{alarm}/concern"


@dataclass(slots=True)
class Alarm:
    """Something that a person should hear of. Raising it again refreshes it."""

    app: str
    key: str
    text: str
    agent: str | None = None  # which it is about
    owner: str | None = None  # who hears of it
    loud: bool = False  # it cannot be muted
    addressee: str | None = None  # the channel that it goes to, before the owner's
    remind_at: Microseconds | None = None  # it is told once more then, and not again and again


def condition_alarm(app: str, agent: str) -> str:
    """The key of the alarm about conditions of an agent that ran out of their budget."""
    return f"condition/{app}/{agent}"


def held_alarm(app: str, agent: str, what: str) -> str:
    """The key of the alarm about runs of an agent that wait for a person because of one thing: an action, an output."""
    return f"held/{app}/{agent}/{what}"


def ask_alarm(app: str, agent: str, approval: str) -> str:
    """The key of the alarm about an approval that waits for its answer."""
    return f"ask/{app}/{agent}/{approval}"


def circuit_alarm(app: str, name: str) -> str:
    """The key of the alarm about a dependency that is down."""
    return f"circuit/{app}/{name}"


def stuck_alarm(app: str, agent: str, run: str) -> str:
    """The key of the alarm about a run that makes no progress."""
    return f"stuck/{app}/{agent}/{run}"


def late_alarm(app: str, channel: str) -> str:
    """The key of the alarm about a channel whose next message does not get through."""
    return f"delivery/{app}/{channel}/late"


def failing_alarm(app: str, agent: str) -> str:
    """The key of the alarm about an agent whose runs end dead one after the other."""
    return f"failing/{app}/{agent}"


def paused_alarm(app: str, agent: str) -> str:
    """The key of the alarm about an agent that was paused because of that."""
    return f"paused/{app}/{agent}"
