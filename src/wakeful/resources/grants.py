"""Grants: a person says yes in advance to effects that a rule would ask about, for a time and a number of uses.

A grant answers asks, never holds or denials. An effect counts once, where it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.errors import NotFound
from wakeful.model import GrantState
from wakeful.operations.granting import app_to_grant, check_condition, new_id, read_until
from wakeful.resources.declare import Column, Listing, Printed, Resource, Show, Verb
from wakeful.resources.desk import NOW, Desk
from wakeful.resources.fields import About, Count, Moment, MomentOrNone
from wakeful.resources.parameters import OfApp, Param
from wakeful.resources.refusals import Refused, Unfit
from wakeful.resources.words import Look, clock_time, line, number, plain
from wakeful.stores.verbs.grants import AddGrant, RevokeGrant

MOST_USES = 100_000
SHOWN_USES = 50
SHORTEST = 4
LAST_CHARACTER = "\U0010ffff"


class Grant(TypedDict):
    """Effects that a person allowed in advance."""

    id: Annotated[str, About("Its name", example="g-7kq3xm")]
    app: str
    agent: Annotated[str | None, About("null: any agent")]
    action: Annotated[str | None, About("null: any action")]
    where: Annotated[str | None, About("A condition in CEL, with the names of a policy rule at: effect")]
    state: Annotated[GrantState, About("live, used-up, expired or revoked")]
    until: Moment
    most: Annotated[Count, About("How many effects it serves")]
    used: Annotated[Count, About("How many it has served")]
    granted_at: Moment
    by: str
    note: str | None
    revoked_at: MomentOrNone
    revoked_by: str | None


class GrantUse(TypedDict):
    """An effect that a grant served."""

    effect: str
    action: str | None
    agent: str | None
    run: str | None
    used_at: Moment


class GrantDetail(Grant):
    """A grant, with the last effects that it served."""

    uses: list[GrantUse]


Agent = Annotated[str | None, Param("only effects of this agent", about="the agent; without it, any", metavar="NAME")]
Action = Annotated[
    str | None, Param("only effects of this action", about="the action; without it, any", metavar="NAME")
]
Where = Annotated[
    str | None,
    Param(
        "only effects for which this condition in CEL is true",
        about="condition in CEL, with the names of a policy rule at: effect; unknown: the grant does not apply",
        metavar="CEL",
        example="arguments.amount < 100.0",
    ),
]
Until = Annotated[
    str, Param("its end: a duration such as 7d, or a time such as friday 18:00", metavar="TIME", example="7d")
]
Most = Annotated[int, Param("how many effects it serves at most", metavar="N", least=1, most=MOST_USES)]
App = Annotated[
    str | None,
    Param(
        "name of the app, if the store has several",
        about="name of the app (default: the app of this server)",
        flag="--of",
        metavar="NAME",
    ),
]


async def grants(
    desk: Desk,
    *,
    app: OfApp = None,
    whole: Annotated[bool, Param("include grants that are over", flag="--all", http="all")] = False,
) -> list[Grant]:
    return await desk.reads.rows(Grant, "list_grants", NOW, app, int(whole))


async def find(desk: Desk, identifier: str) -> GrantDetail | None:
    """One grant by its id or the beginning of it. Raises NotFound if several match."""
    upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST else "\x01")
    found = await desk.reads.rows(Grant, "find_grants", NOW, identifier, upper)
    if len(found) > 1 and found[0]["id"] != identifier:
        message = f"{identifier} matches more than one grant: give more characters"
        raise NotFound(message)
    if not found:
        return None
    uses = await desk.reads.rows(GrantUse, "uses_of_grant", found[0]["id"], SHOWN_USES)
    return GrantDetail(**found[0], uses=uses)


async def known(desk: Desk, **_: Any) -> list[str]:
    return [one["id"] for one in await grants(desk, whole=True)]


async def add(
    desk: Desk,
    *,
    agent: Agent = None,
    action: Action = None,
    where: Where = None,
    until: Until,
    most: Most,
    app: App = None,
) -> Grant:
    meant = await app_meant(desk, agent, action, app)
    own = None if desk.code is None else desk.code.agents
    end = moment_of(until, await desk.reads.time())
    if where is not None:
        refuse_condition(where, action, own)
    while True:
        identifier = new_id()
        request = AddGrant(identifier, meant, agent or "", action or "", where, end, most, by=desk.by, note=desk.note)
        if await desk.store.do(request):
            (made,) = await desk.reads.rows(Grant, "find_grants", NOW, identifier, f"{identifier}\x01")
            return made


async def app_meant(desk: Desk, agent: str | None, action: str | None, app: str | None) -> str:
    if agent is None and action is None:
        words = "give an agent, an action, or both: a grant for everything is not possible"
        raise Unfit(words, "agent", typed=f"grants add: --agent or --action is missing: {words}")
    return await app_to_grant(desk.reads, agent, action, app, None if desk.code is None else desk.code.agents)


def moment_of(until: str, now: int) -> int:
    try:
        return read_until(until, now=now)
    except ValueError as error:
        raise Unfit(f"until: {error}", "until", typed=f"grants add: --until: {error}") from None


def refuse_condition(where: str, action: str | None, own: Any) -> None:
    try:
        check_condition(where, action, own)
    except ValueError as error:
        raise Unfit(f"where: {error}", "where", typed=f"grants add: --where: {error}") from None


async def granted_apps(
    desk: Desk, *, agent: str | None = None, action: str | None = None, app: str | None = None, **_: Any
) -> list[str]:
    """The app whose token is needed."""
    return [await app_meant(desk, agent, action, app)]


async def revoke(desk: Desk, grant: GrantDetail) -> Grant | None:
    if not await desk.store.do(RevokeGrant(grant["id"], grant["app"], by=desk.by, note=desk.note)):
        message = f"grant {grant['id']} was already revoked by {grant['revoked_by']}"
        raise Refused(message, kind="grant-is-revoked", title="This grant is revoked already")
    (found,) = await desk.reads.rows(Grant, "find_grants", NOW, grant["id"], f"{grant['id']}\x01")
    return found


# messages


def about(one: Mapping[str, Any]) -> str:
    """What a grant is for, in words."""
    action = f"action {plain(one['action'])}" if one["action"] else "any action"
    agent = f" by agent {plain(one['agent'])}" if one["agent"] else ""
    where = f" where {plain(one['where'])}" if one["where"] else ""
    return f"effects of {action}{agent}{where}"


def added(one: Grant) -> str:
    return (
        f"grant {one['id']} (app {plain(one['app'])}): {about(one)} need no person any more when a rule asks, up to "
        f"{number(one['most'], 'effect')}, until {clock_time(one['until'])}. Revoke with `wakeful grants revoke {one['id']}`"
    )


def revoked(one: Grant) -> str:
    return f"grant {one['id']} is revoked: it has served {number(one['used'], 'effect')}, and serves no more"


def shown(one: GrantDetail, look: Look) -> Printed:
    whole = look.piped
    yield line(("grant ", "dim"), (one["id"], "bold"), f"  {one['state']}", whole=whole)
    yield line(f"{about(one)} (app {plain(one['app'])})", whole=whole)
    yield line(f"until {clock_time(one['until'])}, {one['used']:,} of {number(one['most'], 'use')}", whole=whole)
    note = f": {plain(one['note'])}" if one["note"] else ""
    yield line(f"granted by {plain(one['by'])} at {clock_time(one['granted_at'])}{note}", style="dim", whole=whole)
    if one["revoked_at"] is not None:
        yield line(
            f"revoked by {plain(one['revoked_by'])} at {clock_time(one['revoked_at'])}", style="dim", whole=whole
        )
    for use in one["uses"]:
        what = f"{plain(use['action'] or 'an effect')} {use['effect']}"
        run = "" if use["run"] is None else f" of run {use['run']}"
        yield line(f"  {clock_time(use['used_at'])}  {what}{run}", whole=whole)


RESOURCE = Resource(
    noun="grant",
    plural="grants",
    view=Grant,
    example="g-7kq3xm",
    metavar="ID",
    missing='there is no grant "{key}" here',
    known=known,
    listing=Listing(
        read=grants,
        summary="list live grants, the first to expire first",
        none="no grant is live. Add one: wakeful grants add --action refund --until 7d --most 50",
        columns=(
            Column("grant", "id"),
            Column("app"),
            Column("for", "action", show=lambda one, _: about(one), flexible=True),
            Column("state", when=lambda rows, _: any(one["state"] != "live" for one in rows)),
            Column("used", show=lambda one, _: f"{one['used']:,}/{one['most']:,}"),
            Column("until"),
            Column("by"),
        ),
    ),
    show=Show(find=find, summary="show one grant with its uses", lines=shown),
    verbs=(
        Verb(
            "add",
            add,
            "allow effects in advance, when a rule asks",
            says=added,
            of_one=False,
            http="POST ",
            statuses=("404",),
            scope="answer",
            person="grant effects in advance",
            apps=granted_apps,
            code="take agents, actions and parameters from the code",
            danger="some",
            example={"action": "refund", "where": "arguments.amount < 100.0", "most": 50, "note": "while ada is away"},
            more="A grant answers a rule that asks; what a rule holds or denies stays so.",
        ),
        Verb(
            "revoke",
            revoke,
            "take a grant back: it serves no more effects",
            says=revoked,
            http="DELETE /{key}",
            statuses=("409",),
        ),
    ),
    takes="grants takes list, show ID, add, or revoke ID, like: wakeful grants add --action refund --until 7d --most 50",
)
