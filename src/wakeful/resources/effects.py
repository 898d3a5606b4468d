"""Effects: calls by which runs changed the outside world. Operators settle those whose outcome no program can find out.

confirm   the call succeeded: the run resumes as if the call had returned --result
repeat    the call did not happen: call again
abandon   the call must not happen: the handler gets an exception, and the run becomes a dead letter unless it catches that
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from wakeful.errors import NotFound, did_you_mean
from wakeful.model import EffectState, Safety
from wakeful.operations.held import plan_settling, settle, settle_held, which_stands
from wakeful.operations.pace import Pace, Progress, shown_rate
from wakeful.operations.results import option
from wakeful.operations.shape import expected
from wakeful.resources.declare import Bulk, Column, Listing, Page, Planned, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.failures import failure_lines
from wakeful.resources.fields import About, AsCutJson, AsJson, Count, MomentOrNone, shown_as
from wakeful.resources.parameters import UNSET, After, Limit, Param
from wakeful.resources.refusals import Refused
from wakeful.resources.shown import AnyJson, Failure
from wakeful.resources.words import Line, Look, ago, clock_time, in_json, line, number, plain
from wakeful.stores.known import apps_of_agent
from wakeful.stores.reads import LAST_CHARACTER, SHORTEST_PREFIX, several
from wakeful.values import arguments_of, to_text

OPTION = re.compile(r"--result '(.*?)'")
WOULD = {"confirm": "confirm", "repeat": "call again", "abandon": "abandon"}
BECAME = {"confirm": "confirmed", "repeat": "to be called again", "abandon": "abandoned"}
SAYS = {"confirmed": "that it was done", "abandoned": "that it must not be done"}
CALL_AGAIN = "that it is to be called again"
NEXT = {
    "staged": "It is called once its run has committed.",
    "intent": "It is in flight, or its process died; in that case it is settled before the handler runs again.",
    "retrying": "It was certainly not done; the call is retried.",
    "waiting": "A rule asks: it waits for an approval.",
    "unknown": "It is unknown whether it was done. Its action's safety decides how that is found out, before the handler runs again.",
    "undone": "It was done and then undone.",
}


class Effect(TypedDict):
    """A call by which a run changed, or was about to change, the outside world."""

    id: Annotated[str, About("Id of the effect", example="5d0c4f7a1b9e3c2286d1f0a4b7")]
    action: str
    safety: Safety
    state: EffectState
    reason: str | None
    arguments: Annotated[Any, AsCutJson(), About("JSON; if it was cut, a text that ends with …")]
    result: Annotated[AnyJson, AsJson()]
    error: Failure
    tries: Count
    attempt: Count
    opened_at: MomentOrNone
    settled_at: MomentOrNone
    settled_by: str | None
    note: str | None
    run: str
    agent: str
    undoes: str | None
    once: Annotated[str | None, About("The business key, if its action has one")]
    operation: Annotated[str | None, About("The operation id passed to the service, if not the id")]
    follows: Annotated[str | None, About("The effect of the same key whose result it uses or waits for")]
    rule: Annotated[str | None, About("The rule of the policy that allowed it, asks about it or holds it")]
    policy: Annotated[str | None, About("The version of the policy")]
    approval: Annotated[str | None, About("The approval that it waits for, or waited for last")]
    executed: Annotated[
        Any, AsCutJson(), About("The arguments that a person edited: it is called with these; null: with `arguments`")
    ]


class EffectDetail(Effect):
    """An effect with the schema of its result."""

    returns: Annotated[
        dict[str, Any] | None,
        AsJson(),
        About("JSON schema of the result that its run needs; null if unknown or if no code reads the result"),
    ]


class Settled(TypedDict):
    """The result of settling an effect."""

    id: str
    state: str
    run: str
    first: NotRequired[Literal[True]]
    corrected: NotRequired[Annotated[Literal[True], About("An earlier result was corrected")]]


class HeldGroup(TypedDict):
    """Held effects of one agent and one action."""

    agent: str
    action: str
    count: Count
    called: Annotated[Count, About("How many were called, so that only a person can know whether they were done")]
    since: str
    reason: str | None
    returns: Annotated[str | None, About("What the action returns, in words")]
    effects: list[str]


@shown_as({"settled": 12, "left": 0})
class SettledMany(TypedDict, total=False):
    """The plan or the result of settling many effects."""

    count: Annotated[Count, About("Plan: number of held effects")]
    runs: Annotated[Count, About("Plan: number of their runs")]
    groups: list[HeldGroup]
    unfit: Annotated[str | None, About("Plan: why the result does not fit")]
    settled: Annotated[Count, About("How many this request settled")]
    left: Annotated[Count, About("How many are left: repeat the request until this is 0")]


# reading


async def effects(
    desk: Desk,
    *,
    state: Annotated[EffectState | None, Param("only effects in this state")] = None,
    agent: Annotated[str | None, Param("only effects of this agent", metavar="NAME")] = None,
    action: Annotated[str | None, Param("only effects of this action", metavar="NAME")] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Effect]:
    return await desk.reads.page(Effect, "page_of_effects", state, agent, action, limit=limit, after=after)


async def find(desk: Desk, key: str) -> EffectDetail | None:
    """One effect by its id, its operation id, or a prefix of either. Raises NotFound if several match."""
    upper = key + (LAST_CHARACTER if len(key) >= SHORTEST_PREFIX else "\x01")
    found = await desk.reads.rows(EffectDetail, "find_effects", key, upper)
    found = found or await desk.reads.rows(EffectDetail, "find_effects_by_operation", key, upper)
    exact = [one for one in found if key in {one["id"], one["operation"]}]
    if len(found) > 1 and not exact:
        raise several(key, "effect", [f"{one['id']} ({one['action']}, {one['state']})" for one in found])
    return next(iter(exact or found), None)


async def missing(_: Desk, key: str) -> str:
    more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(key) < SHORTEST_PREFIX else ""
    return f'there is no effect "{plain(key)}": see `wakeful effects`{more}'


async def none(
    _: Desk,
    *,
    state: str | None = None,
    agent: str | None = None,
    action: str | None = None,
    after: str | None = None,
    **_others: Any,
) -> str:
    chosen = state or after or agent or action
    return "no matching effects" if chosen else "no effects yet. An agent makes one with `run.act(action, …)`."


def words(one: Effect, _: Look) -> str:
    """Who settled the effect, if a person did; else why it is in its state."""
    if not one["settled_by"] or one["state"] not in {"confirmed", "abandoned"}:
        return plain(one["reason"] or one["note"] or "")
    # An effect that a person had repeated has no reason any more once it is confirmed.
    did = one["state"] if one["reason"] or one["state"] == "abandoned" else "called again"
    return plain(f"{did} by {one['settled_by']}" + (f": {one['note']}" if one["note"] else ""))


def shown(one: EffectDetail, look: Look) -> Iterator[Line]:
    """The effect, its times, its arguments, and the commands that settle it."""
    for spans, style in described(one):
        yield line(*spans, style=style, whole=look.piped)


def described(one: EffectDetail) -> Iterator[tuple[tuple[Any, ...], str]]:
    yield (("effect ", "dim"), (plain(one["id"]), "bold"), "  ", (one["state"], "state")), ""
    yield (plain(f"{one['action']}{arguments_of(one['arguments'])}"),), ""
    if one["executed"] is not None:
        yield (plain(f"called with {arguments_of(one['executed'])}, as a person edited it"),), ""
    yield (plain(f"agent {one['agent']}, run {one['run']}, {one['safety']}"),), "dim"
    if one["approval"] is not None:
        asks = "waits for" if one["state"] == "waiting" else "was asked about:"
        yield (f"{asks} approval {plain(one['approval'])}",), "dim"
    tries = "not called yet" if not one["tries"] else f"called {one['tries']} times"
    times = f"opened {clock_time(one['opened_at'])}, {tries.replace(' 1 times', ' once')}"
    yield (times + (f", settled {clock_time(one['settled_at'])}" if one["settled_at"] else ""),), "dim"
    if one["once"] is not None:
        told = f", operation {plain(one['operation'])}" if one["operation"] else ""
        yield (f"key {plain(one['once'])}{told}",), "dim"
    if one["follows"]:
        yield (f"calls nothing: effect {plain(one['follows'])} has its key",), ""
    if one["undoes"]:
        yield (f"undoes effect {plain(one['undoes'])}",), ""
    if one["reason"]:
        yield (f"because: {plain(one['reason'])}",), ""
    if error := one["error"]:
        yield ("error: " + "\n".join(failure_lines(error)),), "red"
    if one["settled_by"]:
        # An effect that a person had repeated has no reason any more once it is confirmed.
        again = one["state"] == "confirmed" and not one["reason"]
        said = CALL_AGAIN if again else SAYS.get(one["state"], CALL_AGAIN)
        yield (f"{plain(one['settled_by'])} said {said}" + (f": {plain(one['note'])}" if one["note"] else ""),), ""
    if one["result"] is not None:
        yield (f"result: {in_json(one['result'])}",), ""
    if one["state"] in NEXT:
        yield (NEXT[one["state"]],), ""
    for said in what_to_say(one) if one["state"] == "held" else ():
        yield (said,), ""
    yield (f"`wakeful why {one['run']}` explains its run",), "dim"


def what_to_say(one: EffectDetail) -> list[str]:
    name, returns = plain(one["id"][:10]), one["returns"]
    result = "" if returns is None else f" {option(returns)}"
    lines = [] if returns is None else [f"its action returns {plain(expected(returns))}"]
    asked = "Find out whether it was done, then settle it:" if one["tries"] else "It was not called. Decide what to do:"
    done = "it was done" if one["tries"] else "it was done in another way"
    again = "it was not done: call it again" if one["tries"] else "call it"
    commands = {f"confirm {name}{result}": done, f"repeat {name}": again, f"abandon {name}": "it must not be done"}
    widest = max(map(len, commands))
    return [*lines, asked, *(f"  wakeful effects {command:<{widest}}  {means}" for command, means in commands.items())]


# settling one

Result = Annotated[
    Any, Param("return value of the call; required unless its action may return nothing", metavar="JSON", outside=True)
]


async def settled_by(desk: Desk, verb: str, effect: EffectDetail, given: Any = UNSET) -> Settled | None:
    """Settle one effect. The first decision stands, but the result of a confirm can be corrected until the run has resumed."""
    settled = await settle(desk.store, effect["id"], verb, by=desk.by, note=desk.note, result=text_of(given))
    if settled is None:
        return None
    if settled.unfit:
        raise unfit(desk, which_stands(settled, verb))
    if not settled.first:
        stands = plain(which_stands(settled, verb))
        raise Refused(stands, kind="already-settled", title="The effect is already settled")
    answer = Settled(id=settled.effect.id, state=settled.effect.state, run=settled.run, first=True)
    return Settled(**answer, corrected=True) if settled.corrected else answer


def text_of(result: Any) -> str | None:
    return None if result is UNSET else to_text(result, what="the result")


def unfit(desk: Desk, text: str) -> Refused:
    detail = plain(text if desk.by.way == "cli" else as_member(text))
    return Refused(detail, kind="result-does-not-fit", title="The result does not fit", status=422, field="result")


def as_member(text: str) -> str:
    """The text with the command line's option written as a member of an HTTP body."""
    return OPTION.sub(r'"result": \1', text)


async def confirm(desk: Desk, effect: EffectDetail, *, result: Result = UNSET) -> Settled | None:
    return await settled_by(desk, "confirm", effect, result)


async def repeat(desk: Desk, effect: EffectDetail) -> Settled | None:
    return await settled_by(desk, "repeat", effect)


async def abandon(desk: Desk, effect: EffectDetail) -> Settled | None:
    return await settled_by(desk, "abandon", effect)


def told(one: Settled, effect: EffectDetail) -> str:
    if "corrected" in one:
        return (
            f"{plain(effect['action'])} {one['id']}: its result is corrected. Run {one['run']} reads it when it resumes; if the run is "
            f"dead, resume it with `wakeful replay {one['run']}`"
        )
    return f"{plain(effect['action'])} {one['id']}: {one['state']}. Run {one['run']} resumes."


# settling many

OfAgent = Annotated[str | None, Param("held effects of this agent", metavar="NAME")]
OfAction = Annotated[str | None, Param("held effects of this action", metavar="NAME")]
Everything = Annotated[bool, Param("all held effects", http="all", flag="--all")]


async def planned(desk: Desk, verb: str, agent: str | None, action: str | None, result: Any = UNSET) -> Planned:
    plan = await plan_settling(desk.reads, agent=agent, action=action)
    if not plan.effects:
        raise NotFound(await no_such(desk, agent, action))
    wrong = plan.unfit(verb, text_of(result))
    shown_wrong = wrong if wrong is None or desk.by.way == "cli" else as_member(wrong)
    return Planned(len(plan.effects), {**plan.to_json(), "unfit": shown_wrong}, (verb, plan, text_of(result), wrong))


async def no_such(desk: Desk, agent: str | None, action: str | None) -> str:
    if desk.by.way != "cli":
        return "no held effect matches: GET /v1/effects?state=held lists all"
    everything = (await plan_settling(desk.reads)).effects
    guess = ""
    for given, known in ((agent, {one.agent for one in everything}), (action, {one.action for one in everything})):
        if given is not None and given not in known:
            guess = guess or did_you_mean(given, sorted(known))
    return plain(f"no held effect matches: see `wakeful effects --state held`.{guess}")


async def plan_confirm(
    desk: Desk,
    *,
    agent: OfAgent = None,
    action: OfAction = None,
    everything: Everything = False,
    result: Result = UNSET,
) -> Planned:
    del everything
    return await planned(desk, "confirm", agent, action, result)


async def plan_repeat(
    desk: Desk, *, agent: OfAgent = None, action: OfAction = None, everything: Everything = False
) -> Planned:
    del everything
    return await planned(desk, "repeat", agent, action)


async def plan_abandon(
    desk: Desk, *, agent: OfAgent = None, action: OfAction = None, everything: Everything = False
) -> Planned:
    del everything
    return await planned(desk, "abandon", agent, action)


async def settle_some(desk: Desk, plan: Planned, most: int, pace: Pace, progress: Progress) -> int:
    verb, found, result, wrong = plan.work
    if wrong is not None:
        raise unfit(desk, f"{wrong}. Nothing was changed")
    return await settle_held(
        desk.store, found.effects[:most], verb, by=desk.by, note=desk.note, result=result, pace=pace, progress=progress
    )


def groups_of(plan: Planned, look: Look) -> Iterator[str]:
    verb, found, *_ = plan.work
    for group in found.groups:
        said = group.to_json()
        returns = f", returns {said['returns']}" if said["returns"] and verb == "confirm" else ""
        oldest = f"oldest {ago(said['since'], look.now)}, {group.called:,} called"
        yield plain(f"{len(group.effects):>7,}  {group.agent}  {group.action}  {oldest}{returns}")


def would(plan: Planned, given: Mapping[str, Any]) -> str:
    verb, found, *_ = plan.work
    runs = number(found.runs, "run")
    return f"would {WOULD[verb]} {number(plan.count, 'held effect')} of {runs} {shown_rate(given['rate'])}"


def would_but(plan: Planned, given: Mapping[str, Any], _: Look) -> list[str]:
    wrong = plan.answer["unfit"]
    return [would(plan, given) if wrong is None else plain(f"{would(plan, given)}; but {wrong}")]


def became(done: int, plan: Planned, _: Look) -> list[str]:
    verb = plan.work[0]
    return [f"{done:,} of {number(plan.count, 'held effect')} {'is' if done == 1 else 'are'} {BECAME[verb]}"]


async def app_of(desk: Desk, effect: EffectDetail) -> list[str]:
    return [row[0] for row in await desk.reads.fetch("app_by_run", effect["run"])]


async def apps_of(desk: Desk, plan: Planned) -> list[str]:
    agents = dict.fromkeys(one.agent for one in plan.work[1].effects)
    return [app for agent in agents for app in await apps_of_agent(desk.reads, agent)]


def verb_of(
    name: str, summary: str, run: Callable[..., Awaitable[Any]], plan: Callable[..., Awaitable[Planned]]
) -> Verb:
    return Verb(
        name,
        run,
        summary,
        says=told,
        person="settle an effect",
        apps=app_of,
        danger="some",
        statuses=("422",) if name == "confirm" else (),
        bulk=Bulk(
            plan=plan,
            slice=settle_some,
            apps=apps_of,
            some=("agent", "action", "everything"),
            many="held effects",
            done="settled",
            none=lambda _: "no held effect matches",
            before=groups_of,
            words=would,
            planned=would_but,
            says=became,
            view=SettledMany,
            summary="The same for many held effects, of an agent or an action: up to 1,000 per request",
        ),
    )


RESOURCE = Resource(
    noun="effect",
    plural="effects",
    view=Effect,
    example="3f2a91",
    missing=missing,
    listing=Listing(
        read=effects,
        summary="list the effects of runs on the outside world, newest first",
        none=none,
        columns=(
            Column("effect", show=lambda one, look: look.short(one["id"])),
            Column("action"),
            Column("state"),
            Column("run", show=lambda one, look: look.short(one["run"])),
            Column("opened", "opened_at"),
            Column("note", show=words, flexible=True, style="dim"),
        ),
    ),
    show=Show(find=find, summary="show one effect, by its id, its operation id, or a prefix of either", lines=shown),
    verbs=(
        verb_of("confirm", "settle as done: the run resumes as if the call had returned", confirm, plan_confirm),
        verb_of("repeat", "settle as not done: call again with the same operation id", repeat, plan_repeat),
        verb_of("abandon", "settle as not to be done: the handler gets an exception", abandon, plan_abandon),
    ),
    more="`wakeful runs --held` lists runs that wait for a person.",
    takes="effects takes list, or show, confirm, repeat or abandon and an ID, like: wakeful effects confirm 3f2a91. "
    "To settle many, give --agent NAME, --action NAME or --all instead of an ID",
)
