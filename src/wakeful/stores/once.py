"""What a run asks of the store about an effect whose action has a business key: opened and saved under the lock of that key."""

from __future__ import annotations

from dataclasses import dataclass, field

from wakeful.clock import Microseconds
from wakeful.model import Effect
from wakeful.stores.request import OfRun
from wakeful.stores.verbs.effects import OpenEffect


@dataclass(slots=True)
class OpenOnce(OpenEffect):
    """If another effect has the key, this one follows it: it comes back with the result of that one, or in the state `retrying`
    while the other is not over. Else it has the key for `span` from now on.
    """

    span: Microseconds = 0


@dataclass(slots=True)
class SaveOnce(OfRun[None]):
    """As SaveEffect. KeyTaken if it is about to be called and another effect has the key by now."""

    app: str
    effect: Effect
    woken: list[tuple[str, str]] = field(default_factory=list)  # runs that waited for its end: (app, agent)

    worth_storing = True
    may_wake = True
