"""The text of a policy: what is read, and each mistake at its exact place, with a guess."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.clock import SECOND
from wakeful.errors import ConfigError
from wakeful.policy.rule import HOUR, Approve, Escalation
from wakeful.policy.text import Known, Policy, PolicyError, read_policy, version_of

WHOLE = """\
policy: 1
redact: [arguments.card]  # in decisions, messages, logs
rules:
  - id: large-refunds
    at: effect
    agent: billing
    action: refund
    when: "arguments.amount > 100.0"
    unless: "data.test"
    over: 20/h
    per: arguments.customer
    answer: ask
    reason: above 100
    approve: {by: [ops], of: 2, within: 4h, valid: 2d, edit: true, not_by: data.author, escalate: [{after: 2h, to: [leads]}, {after: 1h, to: bob}]}
    mode: watch
  - id: night
    at: admission
    type: [order.*, "ticket.*"]
    answer: hold
  - id: plans
    at: schedule
    agent: planner
    answer: allow
"""
KNOWN = Known(
    agents=frozenset({"billing", "planner"}),
    actions={
        "refund": frozenset({"amount", "customer", "card"}),
        "report": frozenset({"text"}),
        "mail": frozenset({"to", "subject"}),
    },
    people={"ada": ("ops",), "bob": ("ops", "leads")},
)


def read(text: str, known: Known | None = KNOWN) -> Policy:
    return read_policy([("policy.yaml", text)], known)


def problems(text: str, known: Known | None = KNOWN) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        read(text, known)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [one.removeprefix("policy.yaml:") for one in caught.value.problems]


def rule(*lines: str) -> str:
    """A policy with one rule, whose first line is line 3 and whose fields begin in column 5."""
    first, *others = lines
    return "\n".join(["policy: 1", "rules:", f"  - {first}", *(f"    {line}" for line in others), ""])


def test_everything_that_can_be_written():
    policy = read(WHOLE)
    large, night, plans = policy.rules
    assert (large.id, large.at, large.answer, large.reason, large.mode) == (
        "large-refunds",
        "effect",
        "ask",
        "above 100",
        "watch",
    )
    assert [(one.name, one.patterns) for one in large.selectors] == [("agent", ("billing",)), ("action", ("refund",))]
    assert (large.when and large.when.expression, large.unless and large.unless.expression) == (
        "arguments.amount > 100.0",
        "data.test",
    )
    assert (str(large.over), large.per and large.per.expression) == ("20 in 1 h 0 m", "arguments.customer")
    assert large.approve == Approve(
        by=("ops",),
        of=2,
        within=4 * HOUR,
        valid=48 * HOUR,
        edit=True,
        not_by="data.author",
        escalate=(Escalation(HOUR, ("bob",)), Escalation(2 * HOUR, ("leads",))),
    )
    assert (large.where, large.version, large.decision.version) == ("policy.yaml:4", policy.version, policy.version)
    assert (night.at, night.answer, night.mode, night.approve) == ("admission", "hold", "enforce", None)
    assert night.reason == "the policy answers hold to events for type order.* or ticket.*"
    assert plans.reason == "the policy answers allow to changes of schedules by agent planner"
    assert policy.redact == ("arguments.card",)
    assert read(WHOLE, None).version == policy.version


def test_defaults():
    (one,) = read(rule("id: a", "answer: ask")).rules
    assert (one.at, one.mode, one.selectors, one.when, one.over) == ("effect", "enforce", (), None, None)
    assert one.approve == Approve((), 1, 4 * 3600 * SECOND, 24 * 3600 * SECOND, False, None, ())
    assert one.reason == "the policy answers ask to effects"
    (one,) = read(rule("id: a", "answer: deny", "action: refund", "risk: high", "when: arguments.amount > 1")).rules
    assert one.reason == "the policy answers deny to effects of action refund of risk high when arguments.amount > 1"


def test_a_version_is_the_digest_of_the_text():
    one, other = rule("id: a", "answer: deny"), rule("id: b", "answer: deny")
    assert read(one).version == read_policy([("elsewhere.yml", one)]).version == version_of([one])
    assert len(read(one).version) == 32
    both = read_policy([("a", one), ("b", other)])
    assert both.version == read_policy([("x", other), ("y", one)]).version
    assert len({read(one).version, read(other).version, both.version, read(one + "# more\n").version}) == 4


def test_several_files_hold_together():
    policy = read_policy([("a.yaml", WHOLE), ("b.yaml", rule("id: a", "answer: deny"))], KNOWN)
    assert [one.id for one in policy.rules] == ["large-refunds", "night", "plans", "a"]
    assert policy.rules[-1].where == "b.yaml:3"
    with pytest.raises(PolicyError) as caught:
        read_policy([("b.yaml", rule("id: plans", "answr: deny")), ("a.yaml", WHOLE)], KNOWN)
    assert caught.value.problems == [
        'b.yaml:3:5: the field "answer" is missing: allow, ask, hold, deny',
        'b.yaml:4:5: a rule has no field "answr". Did you mean "answer"?',
        'a.yaml:20:9: id: "plans" is the id of two rules; the first one is at b.yaml:3:9',
    ]
    with pytest.raises(ConfigError, match="at least one file"):
        read_policy([])


def test_paths_to_redact_hold_for_all_files():
    text = "policy: 1\nredact: arguments.card.number\nrules:\n  - {id: b, answer: deny}\n"
    policy = read_policy([("a", rule("id: a", "answer: deny")), ("b", text)])
    assert policy.redacted({"card": {"number": 1, "name": "x"}}) == {"card": {"number": "[redacted]", "name": "x"}}
    assert all(one.hides == (("arguments", "card", "number"),) for one in policy.rules)


# mistakes, one by one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1:1: the file is empty: begin it with policy: 1"]),
        ("# nothing yet\n", ["1:1: the file is empty: begin it with policy: 1"]),
        ("- a\n", ["1:1: a policy is a map that begins with policy: 1, not a list"]),
        ("text", ['1:1: a policy is a map that begins with policy: 1, not "text"']),
        ("policy: 1\n", ['1:1: the field "rules" is missing: a policy needs at least one rule']),
        ("policy: 1\nrules: []\n", ["2:8: rules: the list is empty"]),
        ("policy: 1\nrules:\n", ["2:7: rules must be a list, not empty"]),
        ("policy: 1\nrules: {}\n", ["2:8: rules must be a list, not a map"]),
        ("rules:\n  - {id: a, answer: deny}\n", ['1:1: the field "policy" is missing: begin the file with policy: 1']),
        (
            "policy: 2\nrules:\n  - {id: a, answer: deny}\n",
            ["1:9: policy must be 1, the only version of the format, not the number 2"],
        ),
        (
            "policy: '1'\nrules:\n  - {id: a, answer: deny}\n",
            ['1:9: policy must be 1, the only version of the format, not "1"'],
        ),
        (
            "policy: 1\nrule: x\nrules:\n  - {id: a, answer: deny}\n",
            ['2:1: a policy has no field "rule". Did you mean "rules"?'],
        ),
        (
            "policy: 1\nrules: [deny, 7]\n",
            ['2:9: a rule is a map of fields, not "deny"', "2:15: a rule is a map of fields, not the number 7"],
        ),
        (
            "policy: 1\nredact: [card, arguments.crd, 'arguments.']\nrules:\n  - {id: a, answer: deny}\n",
            [
                '2:10: redact: "card" is not a path of arguments: write it like arguments.card or arguments.card.number',
                '2:16: redact: no action has a parameter "crd". Did you mean "card"?',
                '2:31: redact: "arguments." is not a path of arguments: write it like arguments.card or arguments.card.number',
            ],
        ),
    ],
)
def test_files_that_are_no_policy(text: str, expected: list[str]):
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["answer: deny"], ['3:5: the field "id" is missing: each rule needs a name of its own']),
        (["id: a"], ['3:5: the field "answer" is missing: allow, ask, hold, deny']),
        (["id: a", "answer: dney"], ['4:13: answer: "dney" is not known. Did you mean "deny"?']),
        (["id: a", "answer: no"], ['4:13: answer: "no" is not known. Known: allow, ask, deny, hold.']),
        (["id: a", "answer: shadow"], ['4:13: answer: "shadow" is not known. Known: allow, ask, deny, hold.']),
        (["id: a", "answer:"], ["4:12: answer must be a text, not empty"]),
        (["id: a", "answer: [deny]"], ["4:13: answer must be a text, not a list"]),
        (["id: a", "answer: deny", "at: efect"], ['5:9: at: "efect" is not known. Did you mean "effect"?']),
        (["id: a", "answer: deny", "mode: whatch"], ['5:11: mode: "whatch" is not known. Did you mean "watch"?']),
        (["id: a", "answer: deny", "wehn: true"], ['5:5: a rule has no field "wehn". Did you mean "when"?']),
        (
            ["id: a", "answer: deny", "id: b"],
            ['5:5: the field "id" is given twice; the first one is at policy.yaml:3:5'],
        ),
        (
            ["id: 12", "answer: deny"],
            [
                '3:9: id must be a text, not the number 12: YAML does not read 12 as a text, unless it is in quotes: "12"'
            ],
        ),
        (
            ["id: on", "answer: deny"],
            ['3:9: id must be a text, not the flag on: YAML does not read on as a text, unless it is in quotes: "on"'],
        ),
        (['id: "a b"', "answer: deny"], ['3:9: id: "a b" is not an id: write letters, digits, - _ and ., at most 100']),
        (["id: ''", "answer: deny"], ["3:9: id: the text is empty"]),
        (
            ["id: chain_depth", "answer: deny"],
            ['3:9: id: "chain_depth" is the name of a rule of Wakeful: choose another one'],
        ),
        (
            ["id: a", "answer: deny", "agent: biling"],
            ['5:12: agent: there is no agent "biling". Did you mean "billing"?'],
        ),
        (
            ["id: a", "answer: deny", "agent: [billing, 'desk*']"],
            ['5:22: agent: no agent fits "desk*". Known: billing, planner.'],
        ),
        (["id: a", "answer: deny", "agent: []"], ["5:12: agent: the list is empty"]),
        (["id: a", "answer: deny", "agent: [billing, {x: 1}]"], ["5:22: agent must be a text, not a map"]),
        (
            ["id: a", "answer: deny", "action: Refund"],
            ['5:13: action: there is no action "Refund". Did you mean "refund"?'],
        ),
        (["id: a", "answer: deny", "risk: hihg"], ['5:11: risk: there is no risk "hihg". Did you mean "high"?']),
        (
            ["id: a", "answer: deny", "at: admission", "action: refund", "risk: low"],
            [
                "6:5: action is not possible at: admission, because no action is called there; leave it out",
                "7:5: risk is not possible at: admission, because no action is called there; leave it out",
            ],
        ),
        (
            ["id: a", "answer: ask", "at: schedule"],
            ["4:13: answer: ask is not possible at: schedule, where nothing waits for a person; use allow or deny"],
        ),
        (["id: a", "answer: deny", "per: data.x"], ["5:5: per needs over: it says for what the count of over is kept"]),
        (
            ["id: a", "answer: allow", "over: 2/h"],
            ["5:5: over: allow beyond a count makes no sense; use ask, hold or deny beyond it"],
        ),
        (
            ["id: a", "answer: deny", "at: schedule", "over: 2/h"],
            ["6:5: over: schedules that agents make are not counted; use when, or limit the agent's runs at admission"],
        ),
        (
            ["id: a", "answer: deny", "over: often"],
            ['5:11: over: "often" is not a rate: write a count and a time span, like 20/h or 5/10m'],
        ),
        (["id: a", "answer: deny", "over: 20"], ["5:11: over must be a rate like 20/h, not the number 20"]),
        (
            ["id: a", "answer: deny", "over: 1/900000000000w"],
            ['5:11: over: "1/900000000000w" is not a rate: write a count and a time span, like 20/h or 5/10m'],
        ),
        (["id: a", "answer: deny", "reason: [x]"], ["5:13: reason must be a text, not a list"]),
        (["id: a", "answer: deny", f"reason: {'x' * 1001}"], ["5:13: reason: at most 1,000 characters are allowed"]),
        (
            ["id: a", "answer: hold", "approve: {by: ops}"],
            ["5:5: approve needs answer: ask; with answer: hold no person is asked"],
        ),
        (["id: a", "answer: ask", "approve: ops"], ['5:14: approve must be a map, not "ops"']),
        (
            ["id: a", "answer: ask", "approve: {who: ops}"],
            ['5:15: approve has no field "who". Known: by, edit, escalate, not_by, of, valid, within.'],
        ),
        (["id: a", "answer: ask", "approve: {of: 0}"], ["5:19: of must be a whole number from 1, not the number 0"]),
        (
            ["id: a", "answer: ask", "approve: {of: 1:30}"],
            ["5:19: of must be a whole number from 1, not the number 1:30"],
        ),
        (["id: a", "answer: ask", "approve: {of: two}"], ['5:19: of must be a whole number from 1, not "two"']),
        (
            ["id: a", "answer: ask", "approve: {by: [ops, leads], of: 3}"],
            ["5:37: of: 3 must approve, but the number of people in ops and leads is 2"],
        ),
        (
            ["id: a", "answer: ask", "approve: {by: [op, ada, lead]}"],
            [
                '5:20: there is no group or person "op". Did you mean "ops"?',
                '5:29: there is no group or person "lead". Did you mean "leads"?',
            ],
        ),
        (
            ["id: a", "answer: ask", "approve: {by: [leads, bob], of: 2}"],
            ["5:37: of: 2 must approve, but the number of people in leads and bob is 1"],
        ),
        (
            ["id: a", "answer: ask", "approve: {by: [ops, adaa]}"],
            ['5:25: there is no group or person "adaa". Did you mean "ada"?'],
        ),
        (
            ["id: a", "answer: ask", "approve: {within: soon}"],
            ['5:23: within: "soon" is not a duration: write it like 30s, 10m, 4h or 2d'],
        ),
        (
            ["id: a", "answer: ask", "approve: {within: 4}"],
            ["5:23: within must be a duration like 4h, not the number 4"],
        ),
        (["id: a", "answer: ask", "approve: {valid: 0s}"], ['5:22: valid: "0s" is not between 1us and 366d']),
        (
            ["id: a", "answer: ask", f"approve: {{valid: {'9' * 400}w}}"],
            [f'5:22: valid: "{"9" * 400}w" is not a duration: write it like 30s, 10m, 4h or 2d'],
        ),
        (["id: a", "answer: ask", "approve: {edit: perhaps}"], ['5:21: edit must be true or false, not "perhaps"']),
        (
            ["id: a", "answer: ask", "approve: {not_by: datta.author}"],
            ['5:23: not_by: names "datta.author", which does not exist. Did you mean "data.author"?'],
        ),
        (["id: a", "answer: ask", "approve: {escalate: {}}"], ["5:25: escalate must be a list, not a map"]),
        (
            ["id: a", "answer: ask", "approve: {escalate: [1h, {}, {after: 4h, to: lead, too: x}]}"],
            [
                "5:26: escalate: write each one as {after: 1h, to: [GROUP]}",
                '5:30: escalate: the field "after" is missing',
                '5:30: escalate: the field "to" is missing',
                "5:42: after: 4h is not before the end: the approval is over after 4h",
                '5:50: there is no group or person "lead". Did you mean "leads"?',
                '5:56: an escalation has no field "too". Did you mean "to"?',
            ],
        ),
    ],
)
def test_fields_that_do_not_fit(lines: list[str], expected: list[str]):
    assert problems(rule(*lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["when: arguments.amount >"], ["5:29: when: is not a CEL expression: mismatched input the end."]),
        (
            ['when: "data.a = 1"'],
            ["5:19: when: is not a CEL expression: token recognition error at: '= '. Did you mean \"==\"?"],
        ),
        (
            ["when: 'data.a and data.b'"],
            ["5:19: when: is not a CEL expression: mismatched input 'and' expecting <EOF>. Did you mean \"&&\"?"],
        ),
        (
            ["when: |", "  data.a == 1 &&", "    amount > 2"],
            ['7:9: when: names "amount", which does not exist. Did you mean "arguments.amount"?'],
        ),
        (
            ["when: >", "  data.a == 1 &&", "  amount > 2"],
            ['5:11: when: names "amount", which does not exist. Did you mean "arguments.amount"?'],
        ),
        (
            ["when: 'data.x == ''y'' && amount > 2'"],
            ['5:11: when: names "amount", which does not exist. Did you mean "arguments.amount"?'],
        ),
        (
            ["unless: severity > 2"],
            ['5:13: unless: names "severity", which does not exist. Did you mean "data.severity"?'],
        ),
        (
            ["unless: size(argument) > 2"],
            ['5:18: unless: names "argument", which does not exist. Did you mean "arguments"?'],
        ),
        (
            ["unless: argument.amount > 2"],
            ['5:13: unless: names "argument.amount", which does not exist. Did you mean "arguments.amount"?'],
        ),
        (
            ["unless: data.x.contain('x')"],
            ['5:20: unless: names "contain", which does not exist. Did you mean "contains"?'],
        ),
        (["when: arguments.amount + 1"], ["5:11: when: gives int, not true or false: compare it with something"]),
        (["when: agent"], ["5:11: when: gives string, not true or false: compare it with something"]),
        (
            ["when: now > 3"],
            [
                "5:15: when: is not a CEL expression: found no matching overload for '_>_' applied to '(google.protobuf.Timestamp, int)'."
            ],
        ),
        (
            ["when: true"],
            [
                '5:11: when must be a text, not the flag true: YAML does not read true as a text, unless it is in quotes: "true"'
            ],
        ),
        (["when: ''"], ["5:11: when: the text is empty"]),
        (["when: has(event.time)"], ["5:11: when: uses has(event.time), which does not work: write 'time' in event"]),
        (["when: ü.x == 1"], ["5:11: when: is not a CEL expression: token recognition error at: 'ü'."]),
        (
            ["when: data.x == 1 // ü", "unless: data.ü == 1"],
            ["6:18: unless: is not a CEL expression: token recognition error at: 'ü'."],
        ),
        (
            ["action: refund", "when: 1 == 1 && arguments.amont > 3"],
            ['6:21: when: names arguments.amont, but there is no such parameter. Did you mean "amount"?'],
        ),
        (
            ["action: 're*'", "when: arguments.text == arguments.amount", 'unless: arguments["to"] == 1'],
            ["7:13: unless: names arguments.to, but there is no such parameter. Known: amount, card, customer, text."],
        ),
        (
            ["when: arguments.nothing"],
            [
                "5:11: when: names arguments.nothing, but there is no such parameter. Known: amount, card, customer, subject, text, to."
            ],
        ),
        (
            ["at: admission", "when: arguments.amount > 1"],
            [
                '6:11: when: names "arguments", which a rule at: admission does not have. Known: agent, data, event, now.'
            ],
        ),
        (
            ["at: admission", "when: data.x && facts.x"],
            ['6:21: when: names "facts", which a rule at: admission does not have. Known: agent, data, event, now.'],
        ),
        (
            ["at: schedule", "when: action == 'x'"],
            [
                '6:11: when: names "action", which a rule at: schedule does not have. Known: agent, arguments, data, event, facts, now, run.'
            ],
        ),
        (
            ["at: schedule", "when: arguments.taget == 'x'"],
            ['6:11: when: names arguments.taget, but there is no such parameter. Did you mean "target"?'],
        ),
        (
            ["over: 1/h", "per: arguments.custmer"],
            ['6:10: per: names arguments.custmer, but there is no such parameter. Did you mean "customer"?'],
        ),
        (["over: 1/h", "per: '['"], ["6:12: per: is not a CEL expression: mismatched input the end."]),
        ([f"when: {'(' * 2000}1{')' * 2000}"], None),
        ([f"when: 1 == 1 {'+ 1 ' * 3000}"], ["5:11: when: has 12,006 characters; at most 10,000 are allowed"]),
    ],
)
def test_expressions_that_do_not_fit(lines: list[str], expected: list[str] | None):
    found = problems(rule("id: a", "answer: deny", *lines))
    if expected is None:
        assert len(found) == 1
        assert found[0].startswith("5:")
        assert len(found[0]) < 500
    else:
        assert found == expected


def test_names_are_checked_only_if_they_are_known():
    text = rule("id: a", "answer: ask", "agent: x", "action: y", "when: arguments.z == 1", "approve: {by: w, of: 9}")
    assert len(read(text, None).rules) == 1
    assert len(read(text, Known(frozenset({"x"}), {"y": frozenset({"z"})})).rules) == 1
    assert problems(text, Known(frozenset(), {})) == [
        '5:12: agent: there is no agent "x".',
        '6:13: action: there is no action "y".',
        "7:11: when: names arguments.z, but there is no such parameter.",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy: 1\nrules:\n\t- id: a\n", ["3:1: this is not YAML: the line is indented with a tab; use spaces"]),
        (
            "policy: 1\nrules:\n  - id: a\n\tanswer: deny\n",
            ["4:1: this is not YAML: the line is indented with a tab; use spaces"],
        ),
        ("policy: 1\n  rules: x\n", ["2:8: this is not YAML: mapping values are not allowed in this context"]),
        ("policy: [1\n", ["2:1: this is not YAML: while parsing a flow sequence, did not find expected ',' or ']'"]),
        ("policy: 'x\n", ["2:1: this is not YAML: while scanning a quoted scalar, found unexpected end of stream"]),
        (
            "policy: 1\nü: @x\n",
            ["2:4: this is not YAML: while scanning for the next token, found character that cannot start any token"],
        ),
        ("policy: 1\nx: \x07\n", ["2:4: the character U+0007 is not allowed in YAML"]),
        ("policy: 1\r\nx: \ud800\n", ["2:4: the character U+D800 is not allowed in YAML"]),
        ("policy: 1\n---\npolicy: 1\n", ["2:1: a second document begins here; a policy is one document"]),
        ("[" * 100_000, ["1:17: more than 16 lists and maps are inside each other"]),
        ("a: " + "x" * 1_000_000, ["1:1: the file is larger than 1,000,000 bytes"]),
        ("# " + "ü" * 500_000, ["1:1: the file is larger than 1,000,000 bytes"]),
    ],
)
def test_what_is_not_yaml(text: str, expected: list[str]):
    assert problems(text) == expected


def test_anchors_aliases_tags_and_odd_names():
    text = """\
policy: 1
rules:
  - &a {id: a, answer: deny}
  - *a
  - id: !!str b
    answer: deny
  - id: c
    answer: deny
    <<: *a
    ? [x]
    : y
"""
    assert problems(text) == [
        "3:5: anchors and aliases are not allowed in a policy",
        "4:5: anchors and aliases are not allowed in a policy: write the value again",
        "5:9: the tag tag:yaml.org,2002:str is not allowed in a policy",
        '9:5: a rule has no field "<<". Known: action, agent, answer, approve, at, id, mode, over, per, reason, risk, type, unless, when.',
        "9:9: anchors and aliases are not allowed in a policy: write the value again",
        "10:7: the name of a field must be a text",
    ]


def test_a_bomb_of_aliases_is_refused_before_it_grows():
    lines = ["policy: 1", "a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    found = problems("\n".join(lines))
    assert "2:4: anchors and aliases are not allowed in a policy" in found
    assert len(found) < 120


def test_all_problems_at_once_sorted_by_place():
    text = """\
policy: 1
rules:
  - id: a
    answer: perhaps
    agnt: billing
    when: arguments.amout > 1
  - id: a
    answer: deny
    over: x
redacted: []
"""
    assert problems(text) == [
        '4:13: answer: "perhaps" is not known. Known: allow, ask, deny, hold.',
        '5:5: a rule has no field "agnt". Did you mean "agent"?',
        '6:11: when: names arguments.amout, but there is no such parameter. Did you mean "amount"?',
        '7:9: id: "a" is the id of two rules; the first one is at policy.yaml:3:9',
        '9:11: over: "x" is not a rate: write a count and a time span, like 20/h or 5/10m',
        '10:1: a policy has no field "redacted". Did you mean "redact"?',
    ]


def test_a_byte_order_mark_and_other_line_ends_are_read():
    assert len(read("\ufeff" + WHOLE.replace("\n", "\r\n")).rules) == 3
    assert problems("\ufeff" + rule("id: a", "answer: no").replace("\n", "\r\n"))[0].startswith("4:13: answer")


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("policy: 1\nrules-[]{}&*!|>'\"#,?%@\t ax\ud800ü\x00"), max_size=120))
def test_no_text_does_more_than_to_be_refused(text: str):
    with pytest.raises(PolicyError) as caught:
        read(text)
    assert all(one.startswith("policy.yaml:") for one in caught.value.problems)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, len(WHOLE) - 1),
    st.integers(1, 12),
    st.sampled_from(["", "x", ":", "\n", "'", "[", "- ", "{", "7", "ü"]),
)
def test_a_policy_with_a_slip_is_read_or_refused(at: int, length: int, slip: str):
    try:
        policy: Any = read(WHOLE[:at] + slip + WHOLE[at + length :])
    except PolicyError as error:
        assert error.problems  # noqa: PT017
    else:
        assert policy.rules


def test_yaml_is_loaded_only_when_a_policy_is_read():
    code = (
        "import sys, wakeful, wakeful.policy.text, wakeful.runtime\n"
        "assert 'yaml' not in sys.modules\n"
        "wakeful.policy.text.read_policy([('p', 'policy: 1\\nrules:\\n  - {id: a, answer: deny}')])\n"
        "assert 'yaml' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


NO_PEOPLE = Known(people={})


def test_an_app_without_people_cannot_want_two_of_them():
    two = rule("id: a", "answer: ask", "approve: {by: [ops], of: 2}")
    assert problems(two, NO_PEOPLE) == [
        (
            "5:30: of: 2 must approve, but the app has no people, and only votes of people with a token of their own count here: "
            'name them with App(people="people.yaml")'
        )
    ]
    # One yes of a person whose name is not proved is enough, and then the names are those of channels.
    assert read(rule("id: a", "answer: ask", "approve: {by: [nobody-knows]}"), NO_PEOPLE)
    assert read(two, Known())
    assert read(rule("id: a", "agent: unknown", "answer: deny", "when: arguments.x"), NO_PEOPLE)
