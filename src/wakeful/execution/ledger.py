"""The effects of a run, as one attempt knows them: those of earlier attempts and of earlier runs with the same root,
those that this attempt has asked for, and those that wait for their time.
"""

from __future__ import annotations

from collections.abc import Collection

from wakeful.clock import Microseconds
from wakeful.model import Effect

MAY_HAVE_HAPPENED = frozenset({"confirmed", "intent", "unknown", "held"})
CERTAINLY_NOT_BEGUN = frozenset({"staged", "retrying"})
TO_SETTLE = frozenset({"intent", "unknown", "held"})


class EffectLedger:
    """Effects by their operation id."""

    __slots__ = ("_bases", "_known", "asked", "cut", "due", "follows", "judged_by")

    def __init__(self, effects: Collection[Effect]) -> None:
        self._known = {effect.id: effect for effect in effects} if effects else {}
        self.asked: set[str] = set()  # operations that this attempt has asked for
        self.due: dict[str, Microseconds] = {}  # when a waiting effect is tried again
        self.follows: dict[
            str, tuple[str, str]
        ] = {}  # of these, the effect of another run it waits for, and the reason
        self.cut: dict[str, list[str]] = {}  # effects that the handler stopped waiting for, by what it asked for
        self._bases: dict[str, str] = {}
        self.judged_by: dict[str, str | None] = {}  # waiting effects: the policy that this attempt judged them by

    def find(self, operation: str) -> Effect | None:
        return self._known.get(operation)

    def enter(self, effect: Effect) -> Effect:
        self._known[effect.id] = effect
        return effect

    def ask(self, operation: str, base: str) -> None:
        """This attempt asks for an operation. Equal uses of an action have an equal base."""
        self._bases[operation] = base
        self.asked.add(operation)

    def cut_off(self, operation: str) -> None:
        """The handler stopped waiting for this effect. If it asks for the same again, it gets this one."""
        base, effect = self._bases.get(operation), self.find(operation)
        if base is None or effect is None or effect.state not in {"waiting", "intent", "unknown", "retrying"}:
            return
        waiting = self.cut.setdefault(base, [])
        if operation not in waiting:
            waiting.append(operation)

    def take_cut_off(self) -> list[Effect]:
        """The effects that the handler stopped waiting for and never asked for again."""
        left = [self._known[one] for ids in self.cut.values() for one in ids if one in self._known]
        self.cut.clear()
        return [effect for effect in left if effect.state != "retrying"]

    def to_settle(self) -> list[Effect]:
        """All effects, in order, if an earlier attempt left one open; otherwise none."""
        effects = list(self._known.values())
        return effects if any(effect.state in TO_SETTLE for effect in effects) else []

    def not_asked_for(self, action: str) -> list[Effect]:
        """Effects of an action that may have been done before, and that this attempt has not asked for."""
        return [
            effect
            for effect in self._known.values()
            if effect.action == action
            and effect.id not in self.asked
            and effect.state in MAY_HAVE_HAPPENED
            and effect.follows is None  # done by another run
        ]

    def waits_for_nothing(self, action: str) -> list[Effect]:
        """Effects of an action that wait for an approval, and that this attempt has not asked for: its arguments changed."""
        return [
            effect
            for effect in self._known.values()
            if effect.action == action and effect.state == "waiting" and effect.id not in self.asked
        ]

    def given_up(self) -> list[Effect]:
        """Effects that wait for an approval, and that the handler did not ask for before it ended."""
        return [one for one in self._known.values() if one.state == "waiting" and one.id not in self.asked]

    def used(self) -> list[Effect]:
        """The effects that this attempt has asked for; those of earlier attempts are among them."""
        return [one for one in self._known.values() if one.id in self.asked]

    def dropped(self) -> list[str]:
        """Effects that an earlier commit of this run staged, that were certainly not done and are not asked for again."""
        return [
            effect.id
            for effect in self._known.values()
            if effect.staged and effect.id not in self.asked and effect.state in CERTAINLY_NOT_BEGUN
        ]

    def staged(self) -> list[Effect]:
        return [effect for effect in self._known.values() if effect.staged]
