"""`wakeful policy explain ID`: every rule that was asked about an event, a run or an effect, and why it applies or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from wakeful.errors import NotFound
from wakeful.operations import explaining
from wakeful.operations.policy_facts import policy_of
from wakeful.resources import effects, events, runs
from wakeful.resources.declare import Printed, Reading
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About
from wakeful.resources.parameters import Param
from wakeful.resources.words import Look, line, number, plain

SHOWN_OF_A_VERSION = 10
MOST_RULES = 20  # more than so many that do not fit are only counted
WITHOUT_CODE = (
    "the app's code is not loaded: its rules in Python are not asked, the risk of an action is taken as low, and arguments given by "
    "position have no names. --app APP names the code"
)


class RuleAsked(TypedDict):
    """One rule, and whether it applies."""

    rule: Annotated[str, About("Its id", example="large-refunds")]
    applies: bool
    why: Annotated[
        str,
        About(
            "The selector or condition that decides it, with its values",
            example="when arguments.amount > 100.0 was false",
        ),
    ]
    answer: Annotated[str | None, About("Its answer, if it applies; null: it has none")]
    mode: Annotated[str, About("enforce, or watch: recorded, not applied", example="enforce")]
    unknown: Annotated[bool, About("A part of it is unknown, which counts against")]
    counted: Annotated[bool, About("It applies only beyond its count")]
    fits: Annotated[bool, About("Whether its selectors fit: agent, action, type and risk")]
    where: Annotated[str | None, About("File and line; null for a rule in Python")]


class PolicyPlace(TypedDict):
    """An admission or an effect, as the policy in force judges it."""

    at: Literal["admission", "effect"]
    id: Annotated[str, About("The effect; for an admission its run, or the event if it has none")]
    agent: str
    action: str | None
    state: Annotated[str | None, About("Its state")]
    decided_by: Annotated[str | None, About("The rule that allowed or denied the effect, as it is stored")]
    version: Annotated[str | None, About("The version of the policy that judged the effect then")]
    answer: Annotated[str | None, About("The answer of the policy in force; null if it is unknown")]
    rule: str | None
    reason: str | None
    rules: list[RuleAsked]
    lacks: Annotated[
        list[str],
        About(
            "Facts that could not be rebuilt and may change the answer", example=["the facts of the run are not stored"]
        ),
    ]


class PolicyExplained(TypedDict):
    """The judgement of the policy in force about an event, a run or an effect."""

    kind: Literal["event", "run", "effect"]
    id: str
    app: str
    version: Annotated[str | None, About("The policy in force; null: the app has none")]
    code: Annotated[bool, About("Whether the app's code was read, with its rules, names of parameters and risks")]
    places: list[PolicyPlace]


ID = Annotated[
    str,
    Param(
        "id of an event, a run or an effect, or the beginning of it",
        metavar="ID",
        positional=True,
        example="3f2a91c04d",
    ),
]


async def explain(desk: Desk, *, id: ID) -> PolicyExplained:  # noqa: A002 the parameter's own name
    kind, found, app, admissions, acted, denied = await asked_for(desk, id)
    side = None if desk.code is None or desk.code.agents.name != app else desk.code.agents
    policy = await policy_of(desk.reads.database, app)
    places = [explaining.explain_admission(one, policy, side) for one in admissions]
    places += [*(explaining.explain_effect(one, policy, side) for one in acted), *denied]
    return PolicyExplained(
        kind=kind,
        id=found,
        app=app,
        version=None if policy is None else policy.version,
        code=side is not None,
        places=[place_of(one) for one in places],
    )


async def asked_for(desk: Desk, identifier: str) -> tuple[Any, str, str, Sequence[Any], Sequence[Any], Sequence[Any]]:
    """The kind, id and app of what an id means, with its admissions, its effects and those that were denied. A whole id comes before the beginning of another."""
    event = await events.find(desk, identifier)
    if event is not None:
        admissions = await explaining.admissions_of(desk.reads, event["key"])
        roots = dict.fromkeys(str(one.run).partition(".")[0] for one in admissions if one.run is not None)
        acted = [one for root in roots for one in await explaining.effects_of(desk.reads, root)]
        denied = await explaining.denied_of(desk.reads, event["key"])
        return "event", event["key"], event["app"], admissions, acted, denied
    effect, run = await effects.find(desk, identifier), await runs.find(desk, identifier)
    if effect is not None and run is not None and effect["id"] != identifier and run["id"] != identifier:
        message = f'"{plain(identifier)}" is the beginning of run {run["id"]} and of effect {effect["id"]}: give more characters'
        raise NotFound(message)
    if run is not None and (effect is None or run["id"] == identifier):
        admissions = await explaining.admissions_of(desk.reads, run["event"]["key"])
        own = [one for one in admissions if one.agent == run["agent"]]
        denied = await explaining.denied_of(desk.reads, run["event"]["key"], run["root"])
        return "run", run["id"], run["app"], own, await explaining.effects_of(desk.reads, run["root"]), denied
    if effect is not None:
        acted = await explaining.effect_of(desk.reads, effect["id"])
        return "effect", effect["id"], acted[0].app, (), acted, ()
    message = f'no event, run or effect is called "{plain(identifier)}": see `wakeful events`, `wakeful runs` and `wakeful effects`'
    raise NotFound(message)


def place_of(one: explaining.Explained) -> PolicyPlace:
    decision = one.decision
    return PolicyPlace(
        at=one.at,
        id=one.id,
        agent=one.agent,
        action=one.action,
        state=one.then,
        decided_by=one.rule,
        version=one.version,
        answer=None if decision is None else decision.answer,
        rule=None if decision is None else decision.rule,
        reason=None if decision is None else decision.reason,
        rules=[
            RuleAsked(
                rule=rule.considered.rule,
                applies=rule.considered.applies,
                why=rule.considered.why,
                answer=rule.considered.answer,
                mode=rule.considered.mode,
                unknown=rule.considered.unknown,
                counted=rule.considered.counted,
                fits=rule.fits,
                where=rule.considered.where or None,
            )
            for rule in one.rules
        ],
        lacks=list(one.lacks),
    )


def explained(one: PolicyExplained, look: Look) -> Printed:
    version = (
        "no policy is in force"
        if one["version"] is None
        else f"policy {one['version'][:SHOWN_OF_A_VERSION]} is in force"
    )
    yield line(f"{one['kind']} ", (plain(one["id"]), "bold"), f", app {plain(one['app'])}: {version}")
    if not one["code"]:
        yield line(WITHOUT_CODE, style="dim")
    if not one["places"]:
        yield line("policy was not asked: no agent took the event")
    for place in one["places"]:
        yield ""
        yield from lines_of(place, look)


def lines_of(place: PolicyPlace, look: Look) -> Printed:
    what = (
        f"effect {look.short(place['id'])}: {plain(place['action'])} by" if place["at"] == "effect" else "admission to"
    )
    yield line((f"{what} agent {plain(place['agent'])}", "bold"), f", {place['state']}")
    others = [rule for rule in place["rules"] if not rule["fits"]]
    hidden = others if len(others) > MOST_RULES else []
    silent = [rule for rule in place["rules"] if not rule["applies"] and rule["where"] is None]
    if silent:
        yield line(f"rules in Python without an opinion: {', '.join(plain(rule['rule']) for rule in silent)}", indent=2)
    for rule in place["rules"]:
        if rule not in hidden and rule not in silent:
            yield line(*words_of(rule), indent=2)
    if hidden:
        yield line(
            f"{number(len(hidden), 'rule')} more do not fit its agent, action, type or risk: see --json", indent=2
        )
    for lack in place["lacks"]:
        yield line(f"not known: {lack}", indent=2, style="yellow")
    if place["answer"] is None:
        yield line("answer: it cannot be judged", indent=2)
    else:
        yield line(
            "answer: ", (place["answer"], "bold"), f", by {plain(place['rule'])}: {plain(place['reason'])}", indent=2
        )


def words_of(rule: RuleAsked) -> list[Any]:
    """One rule: whether it applies, its answer, and why."""
    watch = ", mode watch" if rule["mode"] == "watch" else ""
    verb = "applies" if rule["applies"] else "does not apply"
    if rule["applies"] and rule["counted"]:
        verb = "applies beyond its count"
    answer = "" if rule["answer"] is None else f" ({rule['answer']}{watch})"
    where = "" if rule["where"] is None else f"  {plain(rule['where'])}"
    name = (plain(rule["rule"]), "bold" if rule["applies"] else "dim")
    return [name, f"{answer} {verb}: {plain(rule['why'])}", (where, "dim")]


READING = Reading(
    name="explain",
    read=explain,
    summary="tell which rules apply to an event, a run or an effect, and why the others do not",
    lines=explained,
    of_one=False,
    operation="explain_policy",
    found="The rules",
    code="read names of parameters, risks and rules from the code",
)
