"""Forking: a new run of the same family that keeps the results of the steps before a given one. The command line and the HTTP
API share this.

    {"data": …, "steps": {"fetch": …}}     what a fork keeps, and what may be edited
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wakeful.errors import InvalidData, NotFound, did_you_mean
from wakeful.stores.request import Actor
from wakeful.stores.verbs.fork import ForkRun
from wakeful.values import to_text

Shown = dict[str, Any]

KNOWN = ("data", "steps")


@dataclass(frozen=True, slots=True)
class Fork:
    """A run and the first step to run again."""

    run: Shown
    step: Shown
    kept: list[Shown]

    def shown(self) -> Shown:
        """What the fork keeps, ready to edit."""
        data = self.run["event"]["data"] if self.run["edited"] is None else self.run["edited"]["data"]
        steps = {one["name"]: one["result"] for one in self.kept if one["state"] == "done"}
        return copy.deepcopy({"data": data, "steps": steps})

    def request(self, edit: Any, *, by: Actor, note: str | None) -> ForkRun:
        """The request with the operator's edits. Values equal to the kept ones do not count as edits."""
        before = self.shown()
        given = read_edit(edit, self)
        data = given.get("data", before["data"])
        edited = {name: value for name, value in given.get("steps", {}).items() if value != before["steps"].get(name)}
        keys = {one["name"]: one["key"] for one in self.kept}
        return ForkRun(
            self.run["id"],
            self.step["key"],
            self.step["name"],
            data=None if data == before["data"] else to_text(data, what="the edited data"),
            results={keys[name]: to_text(value, what=f"the edited result of {name}") for name, value in edited.items()},
            edited=edited,
            by=by,
            note=note,
        )


def plan_fork(run: Shown, step: str) -> Fork:
    """Plan a fork. Raises NotFound if the run does not have the step."""
    steps = run["steps"]
    names = [one["name"] for one in steps]
    if step not in names:
        words = f'run {run["id"]} has no step "{step}".'
        if not names:
            message = f"{words} It has no steps: `wakeful replay {run['id']} --again` repeats it from the beginning"
            raise NotFound(message)
        if any(effect["action"] == step for effect in run["effects"]):
            words = f'in run {run["id"]} "{step}" is an action: its confirmed effects are reused wherever the run is forked.'
        guess = did_you_mean(step, names)
        listed = "" if guess.startswith(" Known") else f" Its steps, in order: {', '.join(names)}."
        message = f"{words}{guess}{listed}"
        raise NotFound(message)
    place = names.index(step)
    kept = [one for one in steps[:place] if one["state"] in {"done", "failed"}]
    return Fork(run, steps[place], kept)


def read_edit(edit: Any, fork: Fork) -> Shown:
    """Check an edit: only what a fork keeps can be edited. Raises InvalidData."""
    if edit is None:
        return {}
    if not isinstance(edit, Mapping):
        message = f'an edit is an object like {{"data": …, "steps": {{"fetch": …}}}}, not {type(edit).__name__}'
        raise InvalidData(message)
    for name in edit:
        if name not in KNOWN:
            message = f'an edit has "data" and "steps", not "{name}".{did_you_mean(name, KNOWN)}'
            raise InvalidData(message)
    steps = edit.get("steps", {})
    if not isinstance(steps, Mapping):
        message = f'"steps" is an object of results by the names of steps, not {type(steps).__name__}'
        raise InvalidData(message)
    names = [one["name"] for one in fork.kept]
    for name in steps:
        if name not in names:
            known = did_you_mean(name, names) or " It keeps none."
            message = f'"steps": a fork from {fork.step["name"]} does not keep a step "{name}".{known}'
            raise InvalidData(message)
    return dict(edit)
