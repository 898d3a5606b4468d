"""Reads the trees of a policy's files into rules. All problems are collected, each at its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from wakeful.cel_rules import CelMistake, RuleExpression, compile_rule
from wakeful.cel_text import Path
from wakeful.clock import Microseconds, written
from wakeful.errors import did_you_mean
from wakeful.model import Answer, PolicyMode
from wakeful.policy import tree
from wakeful.policy.facts import SCHEDULE_ARGUMENTS, Place
from wakeful.policy.fields import LONGEST_TEXT, Fields, shown
from wakeful.policy.rule import HOUR, Approve, Escalation, FileRule, Selector, fits_pattern
from wakeful.policy.tree import Node, Problems, Scalar, Table

FILE = ("policy", "redact", "rules")
RULE = (
    "id",
    "at",
    "agent",
    "action",
    "type",
    "risk",
    "when",
    "unless",
    "over",
    "per",
    "answer",
    "reason",
    "approve",
    "mode",
)
APPROVE = ("by", "of", "within", "valid", "edit", "not_by", "escalate")
ESCALATION = ("after", "to")
ANSWERS = ("allow", "ask", "hold", "deny")
RISKS = ("low", "medium", "high")
SELECTORS = ("agent", "action", "type", "risk")
ONLY_EFFECTS = ("action", "risk")
LONGEST_ID = 100
# The names of Wakeful's own rules.
RESERVED = ("admit_everything", "chain_depth", "chain_rate", "default", "high_risk", "none", "schedule_itself")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REDACT = re.compile(r"arguments(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")


@dataclass(frozen=True)
class Known:
    """The names that exist in the app: its agents, the parameters of its actions, and its people, each with their groups. None:
    not known. An app without people has an empty map.
    """

    agents: frozenset[str] | None = None
    actions: Mapping[str, frozenset[str]] | None = None
    people: Mapping[str, Collection[str]] | None = None


def read_files(
    trees: Sequence[Node | None], version: str, known: Known | None, problems: Problems
) -> tuple[list[FileRule], tuple[str, ...]]:
    """The rules of all files and the paths that they redact. Mistakes are added to the problems."""
    files = [one for one in (_file(node, problems) for node in trees if node is not None) if one is not None]
    redact = tuple(dict.fromkeys(path for one in files for path in _redact(one, known, problems)))
    reader = _RuleReader(version, known, tuple(tuple(one.split(".")) for one in redact), problems)
    rules = [reader.read(item) for one in files for item in one.items("rules") or ()]
    return [rule for rule in rules if rule is not None], redact


def _file(node: Node, problems: Problems) -> Fields | None:
    if not isinstance(node, Table):
        problems.add(node.place, f"a policy is a map that begins with policy: 1, not {shown(node)}")
        return None
    fields = Fields(node, FILE, "a policy", problems)
    version = fields.node("policy")
    if version is None:
        problems.add(node.place, 'the field "policy" is missing: begin the file with policy: 1')
    elif not (isinstance(version, Scalar) and version.kind == "whole" and version.text == "1"):
        problems.add(version.place, f"policy must be 1, the only version of the format, not {shown(version)}")
    if "rules" not in fields:
        problems.add(node.place, 'the field "rules" is missing: a policy needs at least one rule')
    return fields


def _redact(fields: Fields, known: Known | None, problems: Problems) -> list[str]:
    found = fields.texts("redact") if fields.node("redact") is not None else None
    actions = None if known is None else known.actions
    parameters = None if actions is None else frozenset().union(*actions.values())
    for one in found or ():
        if not _REDACT.fullmatch(one.text):
            problem = f'redact: "{one.text}" is not a path of arguments: write it like arguments.card or arguments.card.number'
            problems.add(one.place, problem)
        elif parameters is not None and (name := one.text.split(".")[1]) not in parameters:
            problems.add(one.place, f'redact: no action has a parameter "{name}".{did_you_mean(name, parameters)}')
    return [one.text for one in found or ()]


@dataclass
class _RuleReader:
    version: str
    known: Known | None
    hides: tuple[Path, ...]
    problems: Problems
    ids: dict[str, tree.Place] = field(default_factory=dict)

    def read(self, node: Node) -> FileRule | None:
        """One rule; None if it has no id or no answer that can be read."""
        if not isinstance(node, Table):
            if not (isinstance(node, Scalar) and node.kind == "broken"):
                self.problems.add(node.place, f"a rule is a map of fields, not {shown(node)}")
            return None
        fields = Fields(node, RULE, "a rule", self.problems)
        identifier = self._id(fields)
        at = cast("Place | None", fields.choice("at", get_args(Place), "effect"))
        answer = self._answer(fields, at)
        mode = fields.choice("mode", get_args(PolicyMode), "enforce")
        selectors = self._selectors(fields, at)
        place: Place = at or "effect"
        # Without knowing where a rule stands, its expressions cannot be judged.
        when, unless = (self._expression(fields, name, at, selectors, boolean=True) for name in ("when", "unless"))
        over = fields.rate("over")
        per = self._expression(fields, "per", at, selectors, boolean=False)
        if "per" in fields and "over" not in fields:
            self.problems.add(fields.name_place("per"), "per needs over: it says for what the count of over is kept")
        if "over" in fields and answer == "allow":
            problem = "over: allow beyond a count makes no sense; use ask, hold or deny beyond it"
            self.problems.add(fields.name_place("over"), problem)
        if "over" in fields and at == "schedule":
            problem = (
                "over: schedules that agents make are not counted; use when, or limit the agent's runs at admission"
            )
            self.problems.add(fields.name_place("over"), problem)
        reason = self._reason(fields)
        approve, not_by = self._approve(fields, at, answer, selectors)
        if identifier is None or answer is None:
            return None
        return FileRule(
            identifier,
            answer,
            reason or sentence(answer, place, selectors, when, unless, per),
            place,
            selectors,
            when,
            unless,
            over,
            per,
            cast("PolicyMode", mode or "enforce"),
            approve,
            not_by,
            self.version,
            f"{node.place.file}:{node.place.line}",
            self.hides,
        )

    def _id(self, fields: Fields) -> str | None:
        if "id" not in fields:
            self.problems.add(fields.place, 'the field "id" is missing: each rule needs a name of its own')
            return None
        found = fields.scalar("id")
        if found is None:
            return None
        if not _ID.fullmatch(found.text) or len(found.text) > LONGEST_ID:
            problem = (
                f'id: "{found.text[:LONGEST_ID]}" is not an id: write letters, digits, - _ and ., at most {LONGEST_ID}'
            )
            self.problems.add(found.place, problem)
        elif found.text in RESERVED:
            self.problems.add(found.place, f'id: "{found.text}" is the name of a rule of Wakeful: choose another one')
        elif found.text in self.ids:
            problem = f'id: "{found.text}" is the id of two rules; the first one is at {self.ids[found.text]}'
            self.problems.add(found.place, problem)
        else:
            self.ids[found.text] = found.place
        return found.text

    def _answer(self, fields: Fields, at: Place | None) -> Answer | None:
        if "answer" not in fields:
            self.problems.add(fields.place, f'the field "answer" is missing: {", ".join(ANSWERS)}')
            return None
        answer = cast("Answer | None", fields.choice("answer", ANSWERS))
        node = fields.node("answer")
        if at == "schedule" and answer in {"ask", "hold"} and node is not None:
            problem = (
                f"answer: {answer} is not possible at: schedule, where nothing waits for a person; use allow or deny"
            )
            self.problems.add(node.place, problem)
        return answer

    def _reason(self, fields: Fields) -> str | None:
        found = fields.scalar("reason")
        if found is not None and len(found.text) > LONGEST_TEXT:
            self.problems.add(found.place, f"reason: at most {LONGEST_TEXT:,} characters are allowed")
        return None if found is None else " ".join(found.text.split())

    def _selectors(self, fields: Fields, at: Place | None) -> tuple[Selector, ...]:
        found: list[Selector] = []
        for name in SELECTORS:
            patterns = fields.texts(name)
            if name in ONLY_EFFECTS and name in fields and at in {"admission", "schedule"}:
                problem = f"{name} is not possible at: {at}, because no action is called there; leave it out"
                self.problems.add(fields.name_place(name), problem)
            elif patterns is not None:
                self._check_names(name, patterns)
                found.append(Selector(name, tuple(one.text for one in patterns)))
        return tuple(found)

    def _check_names(self, name: str, patterns: Iterable[Scalar]) -> None:
        names: Iterable[str] | None = RISKS if name == "risk" else None
        if self.known is not None and name in {"agent", "action"}:
            names = self.known.agents if name == "agent" else self.known.actions
        for one in patterns if names is not None else ():
            if any(fits_pattern(known, one.text) for known in names or ()):
                continue
            problem = f'no {name} fits "{one.text}".' if "*" in one.text else f'there is no {name} "{one.text}".'
            self.problems.add(one.place, f"{name}: {problem}{did_you_mean(one.text, names or ())}")

    def _parameters(self, at: Place, selectors: Sequence[Selector]) -> frozenset[str] | None:
        """The parameters of all actions that a rule may be about; None if they are not known."""
        if at == "schedule":
            return frozenset(SCHEDULE_ARGUMENTS)
        actions = None if self.known is None else self.known.actions
        if actions is None:
            return None
        chosen = next((one for one in selectors if one.name == "action"), None)
        fitting = [held for name, held in actions.items() if chosen is None or chosen.fits(name)]
        return frozenset().union(*(fitting or actions.values()))  # if none fits, that is a problem by itself

    def _expression(
        self, fields: Fields, name: str, at: Place | None, selectors: Sequence[Selector], *, boolean: bool
    ) -> RuleExpression | None:
        found = fields.scalar(name)
        if found is None or at is None:
            return None
        try:
            return compile_rule(
                found.text, at, boolean=boolean, hides=self.hides, parameters=self._parameters(at, selectors)
            )
        except CelMistake as mistake:
            self.problems.add(found.at(mistake.line, mistake.column), f"{name}: {mistake}")
            return None

    def _approve(
        self, fields: Fields, at: Place | None, answer: Answer | None, selectors: Sequence[Selector]
    ) -> tuple[Approve | None, RuleExpression | None]:
        if "approve" in fields and answer is not None and answer != "ask":
            problem = f"approve needs answer: ask; with answer: {answer} no person is asked"
            self.problems.add(fields.name_place("approve"), problem)
        table = fields.table("approve")
        if table is None:
            return (Approve() if answer == "ask" else None), None
        inner = Fields(table, APPROVE, "approve", self.problems)
        by = inner.texts("by")
        within = inner.span("within", 4 * HOUR)
        not_by = self._expression(inner, "not_by", at, selectors, boolean=False)
        approve = Approve(
            tuple(one.text for one in by or ()),
            inner.whole("of", 1),
            within,
            inner.span("valid", 24 * HOUR),
            inner.flag("edit", otherwise=False),
            None if not_by is None else not_by.expression,
            self._escalations(inner, within),
        )
        people = self._people(by)
        place = (inner.node("of") or inner.node("by") or table).place
        if people is not None and approve.of > people:
            names = " and ".join(approve.by)
            self.problems.add(place, f"of: {approve.of} must approve, but the number of people in {names} is {people}")
        elif approve.of > 1 and self.known is not None and self.known.people is not None and not self.known.people:
            problem = (
                f"of: {approve.of} must approve, but the app has no people, and only votes of people with a token of their own "
                'count here: name them with App(people="people.yaml")'
            )
            self.problems.add(place, problem)
        return approve, not_by

    def _people(self, named: Sequence[Scalar] | None) -> int | None:
        """How many people these names stand for, each a group or a person; None if that is not known."""
        people = None if self.known is None else self.known.people
        if not people or named is None:
            return None
        groups = {group for held in people.values() for group in held}
        unknown = [one for one in named if one.text not in groups and one.text not in people]
        for one in unknown:
            guess = did_you_mean(one.text, [*groups, *people])
            self.problems.add(one.place, f'there is no group or person "{one.text}".{guess}')
        if unknown:
            return None
        wanted = {one.text for one in named}
        return sum(name in wanted or not wanted.isdisjoint(held) for name, held in people.items())

    def _escalations(self, fields: Fields, within: Microseconds) -> tuple[Escalation, ...]:
        found: list[Escalation] = []
        for item in fields.items("escalate") or ():
            if not isinstance(item, Table):
                self.problems.add(item.place, "escalate: write each one as {after: 1h, to: [GROUP]}")
                continue
            inner = Fields(item, ESCALATION, "an escalation", self.problems)
            for name in ESCALATION:
                if name not in inner:
                    self.problems.add(item.place, f'escalate: the field "{name}" is missing')
            after, to = inner.span("after", HOUR), inner.texts("to")
            node = inner.node("after")
            if after >= within and node is not None:
                problem = f"after: {written(after)} is not before the end: the approval is over after {written(within)}"
                self.problems.add(node.place, problem)
            self._people(to)
            found.append(Escalation(after, tuple(one.text for one in to or ())))
        return tuple(sorted(found, key=lambda one: one.after))


def sentence(
    answer: Answer,
    at: Place,
    selectors: Sequence[Selector],
    when: RuleExpression | None,
    unless: RuleExpression | None,
    per: RuleExpression | None,
) -> str:
    """The reason of a rule that gives none."""
    words: dict[Place, str] = {"effect": "effects", "admission": "events", "schedule": "changes of schedules"}
    links: dict[str, Literal["of", "by", "for"]] = {"action": "of", "risk": "of", "agent": "by", "type": "for"}
    what = [words[at], *(f"{links[one.name]} {one.name} {one}" for one in selectors)]
    conditions = [f"{name} {one.expression}" for name, one in (("when", when), ("unless", unless)) if one is not None]
    each = [] if per is None else [f"for each {per.expression}"]
    return " ".join([f"the policy answers {answer} to", *what, *conditions, *each])
