"""`wakeful policy diff OLD NEW`: what another policy would have answered to the events and effects of the last days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.errors import NotFound
from wakeful.operations.policing import app_meant
from wakeful.operations.policy_diff import Comparison, Example, Pair, compare
from wakeful.operations.policy_facts import policy_of
from wakeful.policy.text import Policy, PolicyError, read_policy
from wakeful.resources.declare import Printed, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Count, Moment
from wakeful.resources.parameters import FileText, OfApp, Param
from wakeful.resources.policy_cases import named, refused
from wakeful.resources.refusals import Unfit
from wakeful.resources.words import line, plain
from wakeful.triggers.past import read_past

SHORTEST = 4
SHOWN_OF_A_VERSION = 10
WITHOUT_CODE = (
    "the app's code is not loaded: its rules in Python are not asked, and effects that need an action's risk or the names of its "
    "parameters are not judged. --app APP names the code"
)


class AnswerPair(TypedDict):
    """The answers of both policies, and how often they were given."""

    way: Literal["same", "stricter", "looser"]
    old_answer: str
    old_rule: str
    new_answer: str
    new_rule: str
    count: Count


class ChangedAnswer(TypedDict):
    """An admission or an effect that the policies judge differently."""

    at: Literal["admission", "effect"]
    id: Annotated[str, About("The effect; for an admission its run, or the event if it has none")]
    agent: str
    action: str | None
    old_answer: str
    old_rule: str
    new_answer: str
    new_rule: str
    reason: Annotated[str, About("Of the new answer")]


class NotJudged(TypedDict):
    """How many could not be judged, and why."""

    reason: str
    count: Count


class PolicyCompared(TypedDict):
    """The answers of both policies to stored events and effects."""

    app: str
    old: Annotated[str, About("Version", example="5f1d8e2a90")]
    new: Annotated[str, About("Version", example="8c03b7d1e6")]
    since: Moment
    code: Annotated[bool, About("Whether the app's code was read, with its rules, names of parameters and risks")]
    admissions: Annotated[Count, About("Events, for each agent that took them")]
    effects: Count
    same: Count
    stricter: Count
    looser: Count
    not_judged: Count
    pairs: Annotated[list[AnswerPair], About("Answers and rules that differ, the most frequent first")]
    examples: Annotated[list[ChangedAnswer], About("At most 3 of each pair, and 20 in all")]
    reasons: Annotated[list[NotJudged], About("Why some could not be judged")]


OLD = "a version, or the beginning of it, or a policy file"
Old = Annotated[
    str,
    Param(
        OLD,
        about="version or text of the old policy",
        metavar="OLD",
        example="5f1d8e2a90",
        positional=True,
        content=True,
        or_word=True,
    ),
]
New = Annotated[
    str,
    Param(
        "the same",
        about="version or text of the new policy",
        example="8c03b7d1e6",
        metavar="NEW",
        positional=True,
        content=True,
        or_word=True,
    ),
]
Since = Annotated[
    str,
    Param("judge what is stored since then", about="a duration, such as 7d, or a time", metavar="TIME", example="7d"),
]


async def diff(desk: Desk, *, old: Old, new: New, since: Since = "7d", app: OfApp = None) -> PolicyCompared:
    side = None if desk.code is None else desk.code.agents
    meant = await app_meant(desk.reads, app or (None if side is None else side.name))
    side = None if side is None or side.name != meant else side
    present = await desk.reads.time()
    try:
        first = read_past(since, now=present)
    except ValueError as error:
        raise Unfit(str(error), "since", typed=f"--since: {error}") from None
    before, after = await policy_meant(desk, meant, old, "old"), await policy_meant(desk, meant, new, "new")
    found = await compare(desk.reads, meant, before, after, since=first, code=side)
    return PolicyCompared(
        app=meant,
        old=before.version,
        new=after.version,
        since=to_text(first) or "",
        code=side is not None,
        admissions=found.admissions,
        effects=found.effects,
        same=found.count("same"),
        stricter=found.count("stricter"),
        looser=found.count("looser"),
        not_judged=found.unjudged.total(),
        pairs=pairs_of(found),
        examples=[example_of(one) for one in found.examples],
        reasons=[NotJudged(reason=reason, count=count) for reason, count in found.unjudged.most_common()],
    )


async def policy_meant(desk: Desk, app: str, given: str, field: str) -> Policy:
    """The policy of a file, a text (over HTTP), or a version."""
    found: list[str] = []
    try:
        if isinstance(given, FileText) or (desk.by.way != "cli" and not given.isalnum()):
            return read_policy([(named(given, f"{field}.yaml"), given)])
        known = [version for _, version, *_ in await desk.reads.fetch("list_policies", app)]
        found = [one for one in known if one.startswith(given)] if len(given) >= SHORTEST else []
        if len(found) == 1 and (policy := await policy_of(desk.reads.database, app, found[0])) is not None:
            return policy
    except PolicyError as error:
        raise refused(error, "policy-does-not-fit", "The policy has mistakes", field, f"the {field} policy") from None
    several = f"{plain(given)} matches more than one version: give more characters"
    message = (
        several
        if found
        else f'there is no file and no version "{plain(given)}" of app {plain(app)}: see `wakeful policy`'
    )
    raise NotFound(message)


def pairs_of(found: Comparison) -> list[AnswerPair]:
    return [
        AnswerPair(
            way=pair.way,
            old_answer=pair.old_answer,
            old_rule=pair.old_rule,
            new_answer=pair.new_answer,
            new_rule=pair.new_rule,
            count=count,
        )
        for pair, count in found.pairs.most_common()
        if pair.changes
    ]


def example_of(one: Example) -> ChangedAnswer:
    pair: Pair = one.pair
    return ChangedAnswer(
        at=one.at,
        id=one.id,
        agent=one.agent,
        action=one.action,
        old_answer=pair.old_answer,
        old_rule=pair.old_rule,
        new_answer=pair.new_answer,
        new_rule=pair.new_rule,
        reason=one.reason,
    )


def compared(one: PolicyCompared) -> Printed:
    yield line(
        f"app {plain(one['app'])}: policy {one['old'][:SHOWN_OF_A_VERSION]} → {one['new'][:SHOWN_OF_A_VERSION]}, since {one['since']}: "
        f"{one['admissions']:,} admissions, {one['effects']:,} effects"
    )
    if not one["code"]:
        yield line(WITHOUT_CODE, style="dim")
    counts = [f"{one['same']:,} same", f"{one['stricter']:,} stricter", f"{one['looser']:,} looser"]
    yield line(", ".join([*counts, f"{one['not_judged']:,} not judged"]), style="bold")
    for pair in one["pairs"]:
        yield line(f"{pair['way']:<8} {pair['count']:>7,}  {answers(pair)}", indent=2)
    yield from examples_of(one["examples"])
    for lack in one["reasons"]:
        yield line(f"not judged {lack['count']:>5,}  {plain(lack['reason'])}", indent=2, style="yellow")


def examples_of(examples: Sequence[ChangedAnswer]) -> Printed:
    for one in examples:
        what = (
            f"{plain(one['action'])} by {plain(one['agent'])}" if one["at"] == "effect" else f"to {plain(one['agent'])}"
        )
        yield line(f"{one['at']} {plain(one['id'])} {what}: {answers(one)}: {plain(one['reason'])}", indent=2)


def answers(one: AnswerPair | ChangedAnswer) -> str:
    return f"{one['old_answer']} by {plain(one['old_rule'])} → {one['new_answer']} by {plain(one['new_rule'])}"


VERB = Verb(
    "diff",
    diff,
    "judge stored events and effects by two policies, and count what changes",
    says=compared,
    of_one=False,
    scope="read",
    note=False,
    code="read names of parameters, risks and rules from the code",
    statuses=("404", "422"),
)
