"""`wakeful policy test FILE`: cases with the answer that is expected, judged by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.clock import SystemClock
from wakeful.errors import ConfigError
from wakeful.intake.policy_files import read_files
from wakeful.operations.policing import app_meant
from wakeful.operations.policy_cases import Case, Cases, Tried, read_cases, try_case
from wakeful.operations.policy_facts import policy_of
from wakeful.policy.decide import EffectFacts
from wakeful.policy.text import Policy, PolicyError, read_policy
from wakeful.resources.declare import Printed, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count
from wakeful.resources.parameters import FileText, OfApp, Param
from wakeful.resources.refusals import Refused
from wakeful.resources.words import line, number, plain

NAMELESS = "app"


class CaseTried(TypedDict):
    """A case, and the answer that it got."""

    name: str
    where: Annotated[str, About("File and line", example="cases.yaml:3")]
    passed: bool
    expected: Annotated[str, About("The answer that the case expects", example="ask")]
    expected_rule: str | None
    answer: str
    rule: Annotated[str, About("The rule that decided", example="large-refunds")]
    reason: str
    hint: Annotated[str | None, About("Why the expected rule did not decide")]


class PolicyTested(TypedDict):
    """The cases of a file, judged."""

    version: Annotated[str | None, About("The policy that judged them; null: no policy is in force")]
    passed: Count
    failed: Count
    cases: list[CaseTried]


CasesText = Annotated[
    str, Param("the file with the cases", about="the cases, as YAML", metavar="FILE", positional=True, content=True)
]
PolicyText = Annotated[
    str | None,
    Param(
        "judge by this policy file instead of the policy in force",
        about="the text of a policy, as YAML, instead of the policy in force",
        metavar="FILE",
        content=True,
    ),
]
File = Annotated[str, Param("name of the file in messages", http_only=True)]


async def judge_cases(
    desk: Desk, *, text: CasesText, policy: PolicyText = None, app: OfApp = None, file: File = "cases.yaml"
) -> PolicyTested:
    side = None if desk.code is None else desk.code.agents
    name = app or (NAMELESS if side is None else side.name)
    try:
        cases = read_cases(named(text, file), text, app=name, now=SystemClock().now())
    except PolicyError as error:
        raise refused(error, "cases-do-not-fit", "The cases have mistakes", "text", "the cases") from None
    try:
        judge = await judging(desk, text, cases, policy, app or (None if side is None else side.name))
    except PolicyError as error:
        raise refused(error, "policy-does-not-fit", "The policy has mistakes", "policy", "the policy") from None
    tried = [try_case(completed(one, side), judge, side) for one in cases.cases]
    return PolicyTested(
        version=None if judge is None else judge.version,
        passed=sum(one.passed for one in tried),
        failed=sum(not one.passed for one in tried),
        cases=[view_of(one) for one in tried],
    )


async def judging(desk: Desk, text: str, cases: Cases, policy: str | None, app: str | None) -> Policy | None:
    """The policy of --policy, of the file's own `policy:`, or the one in force."""
    if policy is not None:
        return read_policy([(named(policy, "policy.yaml"), policy)])
    if not cases.files:
        return await policy_of(desk.reads.database, await app_meant(desk.reads, app))
    if not isinstance(text, FileText):
        raise Refused(
            'policy: files are read by the command line only; give "policy" the text',
            kind="cases-do-not-fit",
            title="The cases have mistakes",
            status=422,
            field="text",
        )
    try:
        return read_policy(read_files([Path(text.folder) / one for one in cases.files]))
    except PolicyError:
        raise
    except ConfigError as error:  # a file that cannot be read
        raise PolicyError([str(error)]) from None


def storeless(given: Mapping[str, Any]) -> bool:
    """Whether the policy comes from a file: of --policy, or of the file's own `policy:`."""
    if given.get("policy") is not None:
        return True
    try:
        return bool(read_cases("", given["text"], app="", now=0).files)
    except PolicyError:  # its mistakes are told without a store, too
        return True


def completed(case: Case, side: Any) -> Case:
    """The case with the risk and the owner that the app's code knows."""
    if side is None:
        return case
    facts = replace(case.facts, owner=side.owner(case.facts.agent))
    action = None if case.risk_given or not isinstance(facts, EffectFacts) else side.action_named(facts.action)
    return replace(case, facts=facts if action is None else replace(facts, risk=action.options.risk))


def refused(error: PolicyError, kind: str, title: str, field: str, what: str) -> Refused:
    problems = error.problems
    typed = f"{what} cannot be used: {number(len(problems), 'mistake')}"
    return Refused("; ".join(problems), kind=kind, title=title, status=422, field=field, said=problems, typed=typed)


def named(text: str, file: str) -> str:
    return text.name if isinstance(text, FileText) else file


def view_of(one: Tried) -> CaseTried:
    expected = one.case.expected
    return CaseTried(
        name=one.case.name,
        where=one.case.where,
        passed=one.passed,
        expected=expected.answer,
        expected_rule=expected.rule,
        answer=one.answer,
        rule=one.rule,
        reason=one.reason,
        hint=one.hint,
    )


def tested(one: PolicyTested) -> Printed:
    for case in one["cases"]:
        yield line(*words_of(case))
    version = "no policy" if one["version"] is None else f"policy {one['version'][:10]}"
    yield line(f"{version}: {one['passed']:,} passed, {one['failed']:,} failed")


def words_of(case: CaseTried) -> list[Any]:
    where, name = (plain(case["where"]), "dim"), plain(case["name"])
    if case["passed"]:
        return [("passed ", "green"), where, f" {name}: {case['answer']} by {plain(case['rule'])}"]
    by = "" if case["expected_rule"] is None else f" by {plain(case['expected_rule'])}"
    because = plain(case["reason"]) + ("" if case["hint"] is None else f"; {plain(case['hint'])}")
    got = f"expected {case['expected']}{by}, got {case['answer']} by {plain(case['rule'])}, because {because}"
    return [("FAILED ", "red"), where, f" {name}: {got}"]


VERB = Verb(
    "test",
    judge_cases,
    "judge cases by a policy and compare its answers with the expected ones",
    says=tested,
    of_one=False,
    scope="read",
    note=False,
    failed=lambda one: one["failed"] > 0,
    storeless=storeless,
    code="read risks, owners and rules from the code",
    statuses=("404", "422"),
)
