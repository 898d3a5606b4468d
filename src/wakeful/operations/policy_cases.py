"""Cases of a policy: facts in a file, the answer that is expected, and the answer that the policy gives.

policy: [policy.yaml]          # or --policy FILE, or the policy in force
cases:
  - name: a large refund
    agent: billing
    action: refund
    arguments: {customer: ada, amount: 120.0}
    event: {type: order.returned, data: {vip: false}}
    expect: {answer: ask, rule: large-refunds}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from wakeful.clock import Microseconds, from_datetime, to_datetime
from wakeful.errors import did_you_mean
from wakeful.model import Answer, Event
from wakeful.operations.policy_facts import rules_of
from wakeful.policy.decide import AdmissionFacts, EffectFacts, Facts, ScheduleFacts, consider, fact, judge
from wakeful.policy.facts import SCHEDULE_ARGUMENTS, Place
from wakeful.policy.fields import Fields, shown
from wakeful.policy.judgement import STRICTNESS
from wakeful.policy.reading import ANSWERS, RISKS
from wakeful.policy.text import Policy, PolicyError
from wakeful.policy.tree import Items, Node, Problems, Scalar, Table, read_tree

if TYPE_CHECKING:
    from wakeful.operations.declared import Declared
    from wakeful.policy.rule import Considered

FILE = ("cases", "policy")
CASE = ("name", "at", "agent", "action", "risk", "arguments", "event", "facts", "run", "now", "beyond", "expect")
EVENT = ("type", "source", "id", "subject", "data", "time", "correlationid", "causationid", "extensions")
EXPECT = ("answer", "rule")
FACT = ("value", "as_of", "max_age")
ONLY_EFFECTS = ("action", "risk")
NOT_AT_ADMISSION = ("arguments", "facts", "run")


@dataclass(frozen=True, slots=True)
class Expected:
    answer: Answer
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Facts, and the answer that is expected to them."""

    name: str
    where: str  # FILE:LINE
    facts: Facts
    beyond: tuple[str, ...]  # the counted rules that are beyond their counts
    expected: Expected
    risk_given: bool = True


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a file, and the policy files that it names."""

    cases: Sequence[Case]
    files: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """A case, and the answer that it got."""

    case: Case
    answer: Answer
    rule: str
    reason: str
    passed: bool
    hint: str | None = None  # why the expected rule did not decide


def read_cases(file: str, text: str, *, app: str, now: Microseconds) -> Cases:
    """The cases of a file. PolicyError lists all their mistakes. `now` is the time of cases that give none."""
    problems = Problems()
    if not text.strip():
        raise PolicyError([f"{file}:1:1: the file is empty: begin it with cases:"])
    tree = read_tree(0, file, text, problems)
    found = Cases(()) if tree is None else _Reader(app, now, problems).read(tree)
    if len(problems):
        raise PolicyError(problems.lines())
    return found


def try_case(case: Case, policy: Policy | None, code: Declared | None) -> Tried:
    """Judge a case."""
    rules, facts = rules_of(code), case.facts
    judgement = judge(facts, rules, policy)
    decision = judgement.final(case.beyond)
    expected = case.expected
    passed = decision.answer == expected.answer and expected.rule in {None, decision.rule}
    hint = None
    if not passed and expected.rule is not None and expected.rule != decision.rule:
        hint = _why_not(expected.rule, consider(facts, rules, policy), case.beyond, decision.answer)
    return Tried(case, decision.answer, decision.rule, decision.reason, passed, hint)


def _why_not(rule: str, asked: Sequence[Considered], beyond: Sequence[str], answer: Answer) -> str:
    """Why another rule than the expected one decided."""
    found = next((one for one in asked if one.rule == rule), None)
    if found is None:
        return f"no rule {rule} was asked.{did_you_mean(rule, [one.rule for one in asked])}"
    if not found.applies:
        return f"{rule} does not apply: {found.why}"
    if found.counted and rule not in beyond:
        return f"{rule} applies {found.why}: add beyond: [{rule}]"
    if found.mode == "watch":
        return f"{rule} has mode: watch, so it is recorded and not applied"
    stricter = found.answer is not None and STRICTNESS[answer] > STRICTNESS[found.answer]
    return f"{rule} applies too, but {answer} is stricter" if stricter else f"{rule} applies too: {found.why}"


@dataclass
class _Reader:
    """Reads cases. Mistakes are added to the problems."""

    app: str
    now: Microseconds
    problems: Problems

    def read(self, node: Node) -> Cases:
        if not isinstance(node, Table):
            self.problems.add(node.place, f"a file of cases is a map with the field cases, not {shown(node)}")
            return Cases(())
        fields = Fields(node, FILE, "a file of cases", self.problems)
        if "cases" not in fields:
            self.problems.add(
                node.place, 'the field "cases" is missing: a list of cases, each with expect: {answer: …}'
            )
        files = fields.texts("policy")
        cases = [self._case(one, number) for number, one in enumerate(fields.items("cases") or (), start=1)]
        return Cases([one for one in cases if one is not None], [one.text for one in files or ()])

    def _case(self, node: Node, number: int) -> Case | None:
        if not isinstance(node, Table):
            self.problems.add(node.place, f"a case is a map of fields, not {shown(node)}")
            return None
        fields = Fields(node, CASE, "a case", self.problems)
        name = fields.scalar("name")
        at = cast("Place | None", fields.choice("at", get_args(Place), "effect"))
        agent, action = fields.scalar("agent"), fields.scalar("action")
        risk = fields.choice("risk", RISKS)
        self._refuse_misplaced(fields, node, at)
        expected = self._expected(fields, node)
        event, now = self._event(fields), self._moment(fields, "now")
        beyond = fields.texts("beyond")
        given = {one: self._values(fields, one) for one in NOT_AT_ADMISSION}
        facts = self._facts(fields.node("facts"), given["facts"])
        if expected is None or agent is None or at is None or (at == "effect" and action is None):
            return None
        present = self.now if now is None else now
        made: Facts
        if at == "admission":
            made = AdmissionFacts(self.app, agent.text, None, event, present)
        elif at == "schedule":
            made = self._schedule(fields, agent.text, event, present, given["arguments"], facts, given["run"])
        else:
            made = EffectFacts(
                self.app,
                agent.text,
                None,
                event,
                present,
                "" if action is None else action.text,
                risk or "low",
                "",
                given["arguments"],
                facts,
                given["run"],
            )
        where = f"{node.place.file}:{node.place.line}"
        called = f"case {number}" if name is None else name.text
        ids = tuple(one.text for one in beyond or ())
        return Case(called, where, made, ids, expected, risk_given=risk is not None)

    def _refuse_misplaced(self, fields: Fields, node: Table, at: Place | None) -> None:
        if "agent" not in fields:
            self.problems.add(node.place, 'the field "agent" is missing: the agent that acts or is to run')
        if at == "effect" and "action" not in fields:
            self.problems.add(node.place, 'the field "action" is missing: the action that is about to be called')
        wrong = () if at in {None, "effect"} else (*ONLY_EFFECTS, *(NOT_AT_ADMISSION if at == "admission" else ()))
        for name in wrong:
            if name in fields:
                self.problems.add(fields.name_place(name), f"{name} is not known at: {at}; leave it out")

    def _expected(self, fields: Fields, node: Table) -> Expected | None:
        if "expect" not in fields:
            self.problems.add(
                node.place, 'the field "expect" is missing, like expect: {answer: ask, rule: large-refunds}'
            )
            return None
        table = fields.table("expect")
        if table is None:
            return None
        inner = Fields(table, EXPECT, "expect", self.problems)
        if "answer" not in inner:
            self.problems.add(table.place, f'expect: the field "answer" is missing: {", ".join(ANSWERS)}')
        answer, rule = cast("Answer | None", inner.choice("answer", ANSWERS)), inner.scalar("rule")
        return None if answer is None else Expected(answer, None if rule is None else rule.text)

    def _event(self, fields: Fields) -> Event:
        table = fields.table("event")
        if table is None:
            return Event("case", "1", "case", {})
        inner = Fields(table, EVENT, "an event", self.problems)
        texts = {name: None if (one := inner.scalar(name)) is None else one.text for name in EVENT[:4]}
        time = self._moment(inner, "time")
        data = inner.node("data")
        return Event(
            texts["source"] or "case",
            texts["id"] or "1",
            texts["type"] or "case",
            {} if data is None else self._value(data),
            texts["subject"],
            None if time is None else to_datetime(time),
            correlationid=self._text_of(inner, "correlationid"),
            causationid=self._text_of(inner, "causationid"),
            extensions=self._values(inner, "extensions"),
        )

    def _text_of(self, fields: Fields, name: str) -> str | None:
        node = fields.node(name)
        return node.text if isinstance(node, Scalar) and node.kind != "nothing" else None

    def _moment(self, fields: Fields, name: str) -> Microseconds | None:
        node = fields.node(name)
        if node is None:
            return None
        try:
            text = node.text if isinstance(node, Scalar) else ""
            return from_datetime(datetime.fromisoformat(text.strip()))
        except (ValueError, OverflowError):
            self.problems.add(node.place, f"{name} must be a time like 2026-03-01T08:00:00Z, not {shown(node)}")
            return None

    def _values(self, fields: Fields, name: str) -> dict[str, Any]:
        """A map of values; empty if it is not given."""
        table = fields.table(name)
        return {} if table is None else {key: self._value(node) for key, (_, node) in table.fields.items()}

    def _facts(self, node: Node | None, values: Mapping[str, Any]) -> dict[str, Any]:
        """Facts: plain values, or {value, as_of, max_age}."""
        made = dict(values)
        fields = node.fields if isinstance(node, Table) else {}
        for name, value in values.items():
            if not (isinstance(value, dict) and "value" in value and set(value) <= set(FACT)):
                continue
            try:
                made[name] = fact(value["value"], as_of=value.get("as_of"), max_age=value.get("max_age"))
            except (ValueError, TypeError) as error:
                self.problems.add(fields[name][1].place, f"facts: {name}: {error}")
        return made

    def _schedule(
        self,
        fields: Fields,
        agent: str,
        event: Event,
        now: Microseconds,
        arguments: dict[str, Any],
        facts: dict[str, Any],
        run: dict[str, Any],
    ) -> ScheduleFacts:
        for name in arguments:
            if name not in SCHEDULE_ARGUMENTS:
                problem = f'arguments at: schedule have no field "{name}".{did_you_mean(name, SCHEDULE_ARGUMENTS)}'
                node = fields.node("arguments")
                self.problems.add(node.fields[name][0] if isinstance(node, Table) else fields.place, problem)
        return ScheduleFacts(
            self.app,
            agent,
            None,
            event,
            now,
            str(arguments.get("schedule", "schedule")),
            str(arguments.get("target", agent)),
            arguments.get("was"),
            str(arguments.get("rule", "")),
            arguments.get("verb", "add"),
            facts,
            run,
        )

    def _value(self, node: Node) -> Any:
        """A value, as JSON would hold it."""
        if isinstance(node, Table):
            return {name: self._value(one) for name, (_, one) in node.fields.items()}
        if isinstance(node, Items):
            return [self._value(one) for one in node.items]
        if node.kind == "flag":
            return node.is_true
        if node.kind == "nothing":
            return None
        if node.kind in ("whole", "number"):
            return self._number(node)
        return node.text

    def _number(self, node: Scalar) -> Any:
        try:
            return int(node.text) if node.kind == "whole" else float(node.text)
        except ValueError:  # YAML has more ways to write a number than JSON: 0x1f, 1_000, 1:30, .inf
            self.problems.add(node.place, f"write the number {node.text} as JSON does, or as a text in quotes")
            return None
