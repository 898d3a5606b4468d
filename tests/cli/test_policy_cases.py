"""`wakeful policy test FILE`: cases, and the answers that a policy gives to them."""

from __future__ import annotations

from pathlib import Path

import pytest

POLICY = """
policy: 1
rules:
  - id: large-refunds
    action: refund
    when: arguments.amount > 100.0
    unless: data.vip
    answer: ask
    reason: above 100
  - id: many-refunds
    action: refund
    over: 20/h
    answer: deny
  - id: not-the-owner
    action: close
    when: facts.owner == data.author
    answer: allow
  - id: risky
    risk: high
    unless: now > timestamp("2026-06-01T00:00:00Z")
    answer: deny
  - id: test-orders
    at: admission
    when: data.test
    answer: deny
  - id: no-nights
    at: schedule
    when: arguments.rule.startsWith("every night")
    answer: deny
"""
CASES = """
cases:
  - name: a large refund
    agent: billing
    action: refund
    arguments: {amount: 120.0}
    event: {type: order.returned, data: {vip: false}}
    expect: {answer: ask, rule: large-refunds}
  - agent: billing
    action: refund
    arguments: {amount: 120.0}
    event: {data: {vip: true}}
    expect: {answer: allow, rule: default}
  - name: the 21st refund of an hour
    agent: billing
    action: refund
    arguments: {amount: 1.0}
    beyond: [many-refunds]
    expect: {answer: deny, rule: many-refunds}
  - name: a fact that is known
    agent: triage
    action: close
    risk: high
    now: 2026-07-01T00:00:00Z
    event: {data: {author: ada}}
    facts: {owner: ada}
    expect: {answer: allow, rule: not-the-owner}
  - name: a fact that is too old
    agent: triage
    action: close
    risk: high
    now: 2026-07-01T00:00:00Z
    event: {data: {author: ada}}
    facts: {owner: {value: ada, as_of: 2026-06-30T22:00:00Z, max_age: 1h}}
    expect: {answer: deny, rule: high_risk}
  - {at: admission, agent: billing, event: {data: {test: true}}, expect: {answer: deny, rule: test-orders}}
  - at: schedule
    agent: billing
    arguments: {target: billing, rule: every night}
    expect: {answer: deny}
"""


@pytest.fixture
def files(folder: Path) -> Path:
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "cases.yaml").write_text(CASES)
    return folder


def test_all_cases_pass_by_a_file_and_no_store_is_made(wakeful, files):
    said = wakeful("policy", "test", "cases.yaml", "--policy", "policy.yaml").out
    assert "passed cases.yaml:3 a large refund: ask by large-refunds" in said
    assert "passed cases.yaml:9 case 2: allow by default" in said
    assert said.rstrip().endswith("7 passed, 0 failed")
    assert sorted(one.name for one in files.iterdir()) == ["cases.yaml", "policy.yaml"]


def test_the_file_may_name_its_policy(wakeful, files):
    inner = files / "tests"
    inner.mkdir()
    (inner / "cases.yaml").write_text(f"policy: ../policy.yaml\n{CASES}")
    answer = wakeful("policy", "test", "tests/cases.yaml", "--json").json
    assert (answer["passed"], answer["failed"]) == (7, 0)
    (inner / "cases.yaml").write_text(f"policy: [nothing.yaml]\n{CASES}")
    assert "nothing.yaml: the file cannot be read" in wakeful("policy", "test", "tests/cases.yaml", code=2).err


def test_cases_are_judged_by_the_policy_in_force(wakeful, files):
    (files / "app.py").write_text('from wakeful import App\n\napp = App("shop")\n')
    wakeful("once", "app.py")
    wakeful("policy", "apply", "policy.yaml")
    assert "7 passed" in wakeful("policy", "test", "cases.yaml").out
    (files / "policy.yaml").write_text(POLICY.replace("> 100.0", "> 200.0"))
    wakeful("policy", "apply", "policy.yaml")
    assert "6 passed, 1 failed" in wakeful("policy", "test", "cases.yaml", code=1).out


def test_a_failed_case_tells_why(wakeful, files):
    (files / "policy.yaml").write_text(POLICY.replace("> 100.0", "> 200.0"))
    failed = wakeful("policy", "test", "cases.yaml", "--policy", "policy.yaml", code=1)
    assert (
        "FAILED cases.yaml:3 a large refund: expected ask by large-refunds, got allow by default, because its risk is low, and no "
        'rule says otherwise; large-refunds does not apply: when "arguments.amount > 200.0" is false (arguments.amount: 120.0)'
    ) in failed.out
    answer = wakeful("policy", "test", "cases.yaml", "--policy", "policy.yaml", "--json", code=1).json
    case = next(one for one in answer["cases"] if not one["passed"])
    assert (case["expected"], case["expected_rule"], case["answer"], case["rule"]) == (
        "ask",
        "large-refunds",
        "allow",
        "default",
    )


@pytest.mark.parametrize(
    ("expect", "hint"),
    [
        ("{answer: ask, rule: large-refund}", 'no rule large-refund was asked. Did you mean "large-refunds"?'),
        ("{answer: deny, rule: many-refunds}", "add beyond: [many-refunds]"),
        ("{answer: deny, rule: risky}", "risky does not apply: risk low is not high"),
        ("{answer: allow}", "got ask by large-refunds, because above 100"),
    ],
)
def test_what_a_failed_case_says_of_the_expected_rule(wakeful, files, expect, hint):
    (files / "cases.yaml").write_text(
        "cases:\n  - {agent: billing, action: refund, arguments: {amount: 120.0}, event: {data: {vip: false}}, "
        f"expect: {expect}}}\n"
    )
    assert hint in wakeful("policy", "test", "cases.yaml", "--policy", "policy.yaml", code=1).out


def test_the_code_knows_the_risk(wakeful, files):
    (files / "app.py").write_text(
        "from wakeful import App, action\n\n"
        'app = App("shop")\n\n\n@action(risk="high")\nasync def close(operation) -> None: ...\n'
    )
    (files / "cases.yaml").write_text(
        "cases:\n  - {agent: triage, action: close, now: 2026-01-01, expect: {answer: deny, rule: risky}}\n"
    )
    command = ("policy", "test", "cases.yaml", "--policy", "policy.yaml")
    assert "0 passed, 1 failed" in wakeful(*command, code=1).out
    assert "1 passed" in wakeful(*command, "--app", "app.py").out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cases.yaml:1:1: the file is empty: begin it with cases:"),
        ("- 1", "cases.yaml:1:1: a file of cases is a map with the field cases, not a list"),
        ("cases: []", "cases.yaml:1:8: cases: the list is empty"),
        ("cases: [{agent: a, action: b}]", 'cases.yaml:1:9: the field "expect" is missing'),
        ("cases: [{agent: a, expect: {answer: allow}}]", 'cases.yaml:1:9: the field "action" is missing'),
        ("cases: [{action: a, expect: {answer: allow}}]", 'cases.yaml:1:9: the field "agent" is missing'),
        (
            "cases: [{agent: a, acton: b, expect: {answer: allow}}]",
            'cases.yaml:1:20: a case has no field "acton". Did you mean',
        ),
        (
            "cases: [{agent: a, action: b, expect: {answer: alow}}]",
            'cases.yaml:1:48: answer: "alow" is not known. Did you',
        ),
        ("cases: [{agent: a, action: b, expect: {}}]", 'expect: the field "answer" is missing: allow, ask, hold, deny'),
        (
            "cases: [{agent: a, action: b, now: noon, expect: {answer: deny}}]",
            "cases.yaml:1:36: now must be a time like",
        ),
        ("cases: [{at: admission, agent: a, facts: {}, expect: {answer: deny}}]", "facts is not known at: admission"),
        ("cases: [{at: schedule, agent: a, arguments: {x: 1}, expect: {answer: deny}}]", 'have no field "x"'),
        (
            "cases: [{agent: a, action: b, arguments: {n: 0x1f}, expect: {answer: deny}}]",
            "write the number 0x1f as JSON does",
        ),
        (
            "cases: [{agent: a, action: b, facts: {n: {value: 1, max_age: 1h}}, expect: {answer: deny}}]",
            "cases.yaml:1:42: facts: n: fact(max_age=…) needs as_of",
        ),
        ("cases: [", "cases.yaml:2:1: this is not YAML"),
    ],
)
def test_mistakes_are_shown_where_they_are(wakeful, files, text, problem):
    (files / "cases.yaml").write_text(text)
    refused = wakeful("policy", "test", "cases.yaml", "--policy", "policy.yaml", code=2)
    assert problem in refused.err
    assert "the cases cannot be used" in refused.err


def test_a_policy_with_mistakes_judges_nothing(wakeful, files):
    (files / "policy.yaml").write_text("policy: 1\nrules: []\n")
    refused = wakeful("policy", "test", "cases.yaml", "--policy", "policy.yaml", code=2)
    assert "policy.yaml:2:8: rules: the list is empty" in refused.err
    assert "the policy cannot be used: 1 mistake" in refused.err
    assert "nothing.yaml" in wakeful("policy", "test", "cases.yaml", "--policy", "nothing.yaml", code=2).err
