"""Decisions: policy's stored answers. An answer is stored if it is not "allow", if its rule only watches, or
if a grant gave it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from wakeful.model import Answer, DecisionPlace
from wakeful.resources.declare import Column, Listing, Page, Printed, Resource, Show
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Moment
from wakeful.resources.parameters import After, Limit, OfApp, Param
from wakeful.resources.times import A_TIME, moment_of
from wakeful.resources.words import Look, clock_time, line, plain
from wakeful.stores.reads import LONGEST_CURSOR


class PolicyDecision(TypedDict):
    """An answer of policy, and what it was asked about."""

    id: Annotated[str, About("Number of the decision", example="17")]
    app: str | None
    agent: str
    place: Annotated[
        DecisionPlace | None,
        About(
            "What was decided: whether an event becomes a run, an effect, a schedule. Null: made by an older version"
        ),
    ]
    answer: Answer
    rule: Annotated[str, About("Name of the rule that decided")]
    version: Annotated[str, About("Version of the rule or of the policy")]
    reason: str
    mode: Annotated[Literal["watch"] | None, About("watch: the answer was stored and not applied")]
    action: Annotated[str | None, About("Effect: its action")]
    effect: Annotated[str | None, About("Effect: its id")]
    event: Annotated[str | None, About("CloudEvents id of the event")]
    run: Annotated[str | None, About("The run that asked, or that the event became")]
    decided_at: Moment


# reading


async def decisions(
    desk: Desk,
    *,
    rule: Annotated[str | None, Param("only decisions by this rule", metavar="NAME")] = None,
    answer: Annotated[Answer | None, Param("only decisions with this answer", metavar="ANSWER")] = None,
    agent: Annotated[str | None, Param("only decisions about this agent", metavar="NAME")] = None,
    app: OfApp = None,
    since: Annotated[
        str | None,
        Param(
            "only decisions made at or after this time, such as 2h or yesterday",
            about=f"only decisions made at or after this time: {A_TIME}",
            metavar="TIME",
        ),
    ] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[PolicyDecision]:
    first = await moment_of(desk, since, "since", command="decisions")
    return await desk.reads.page(
        PolicyDecision, "page_of_decisions", rule, answer, agent, app, first, limit=limit, after=after
    )


async def find(desk: Desk, key: str) -> PolicyDecision | None:
    """One decision by its number."""
    if not (key.isascii() and key.isdigit() and len(key) <= LONGEST_CURSOR):
        return None
    found = await desk.reads.rows(PolicyDecision, "find_decision", int(key))
    return found[0] if found else None


async def none(desk: Desk, **_: Any) -> str:
    if (await decisions(desk, limit=1)).items:
        return "no matching decisions"
    return "no decisions yet. Only answers of policy other than allow are stored."


# on the command line


def answered(one: PolicyDecision) -> str:
    return f"{one['answer']} (watch)" if one["mode"] == "watch" else one["answer"]


def about(one: PolicyDecision) -> str:
    """What the decision is about: the action of an effect, or else the event."""
    return plain(one["action"] or one["event"] or "–")


def shown(one: PolicyDecision, look: Look) -> Printed:
    whole = look.piped
    yield line(("decision ", "dim"), (plain(one["id"]), "bold"), f"  {answered(one)}", whole=whole)
    app = f", app {plain(one['app'])}" if one["app"] else ""
    yield line(f"agent {plain(one['agent'])}{app}, at {clock_time(one['decided_at'])}", style="dim", whole=whole)
    yield line(f"rule {plain(one['rule'])}, version {plain(one['version'])}: {plain(one['reason'])}", whole=whole)
    if one["mode"] == "watch":
        yield line("the rule only watches: the answer was not applied", whole=whole)
    if one["action"] or one["effect"]:
        effect = f", effect {plain(one['effect'])}" if one["effect"] else ""
        yield line(f"action {plain(one['action'] or '–')}{effect}", whole=whole)
    event = f"event {plain(one['event'])}" if one["event"] else ""
    run = f"run {plain(one['run'])}" if one["run"] else ""
    if event or run:
        yield line(", ".join(part for part in (event, run) if part), whole=whole)
    explained = one["run"] or one["event"]
    if explained:
        yield f"`wakeful why {plain(explained)}` explains what happened."


RESOURCE = Resource(
    noun="decision",
    plural="decisions",
    view=PolicyDecision,
    example="17",
    state=None,
    missing='there is no decision "{key}"',
    listing=Listing(
        read=decisions,
        summary="list decisions of policy, newest first",
        none=none,
        columns=(
            Column("decision", "id"),
            Column("agent"),
            Column("place"),
            Column("answer", show=lambda one, _: answered(one)),
            Column("rule"),
            Column("about", show=lambda one, _: about(one), flexible=True),
            Column("decided", "decided_at"),
            Column("reason", style="dim", none=""),
        ),
        below="reason",
        less=("decided", "place"),
    ),
    show=Show(find=find, summary="show one decision", lines=shown),
    more="An answer is stored if it is not allow, if its rule only watches, or if a grant gave it.",
    takes="decisions takes list, or show and an ID, like: wakeful decisions show 17",
)
