"""Review: one list of what waits for a person, the nearest deadline first, with the commands that decide it.

approval   a question of a run, or whether a run or an effect may begin
effect     a call of which only a person can find out whether it was done
output     the output of a run that did not pass its checks
run        a run that does not continue by itself, because its code changed or a payload was tampered with
delivery   a message of which only a person can find out whether it arrived
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic_core import from_json
from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.resources.declare import Listing, Page, Printed, Resource
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, Made, Moment, MomentOrNone, shown_as
from wakeful.resources.parameters import After, Limit, OfApp, Param
from wakeful.resources.words import Look, cut, line, plain, plain_lines
from wakeful.stores.reads import LONGEST_CURSOR
from wakeful.stores.tampered import held_for_tampering
from wakeful.values import arguments_of

Kind = Literal["approval", "effect", "output", "run", "delivery"]
CURSOR = re.compile(r"(\d{1,18})\.([0-4])\.([0-9a-f]{1,64}(?:\.\d{1,9})?(?:-[0-9a-f]{1,64})?)")
SHOWN_ARGUMENTS = 300
SHOWN_TEXT = 1_000  # characters on the command line; `--json` has all
MOST_ANSWERS = 5  # an approval with more possible answers shows one command for all


@shown_as(
    {
        "kind": "approval",
        "id": "7e9ff74fcc8daf7d332145b62e",
        "app": "shop",
        "agent": "billing",
        "run": "22290ae6d7fc693079e167a06b",
        "since": "2026-08-01T08:00:00Z",
        "due": "2026-08-01T12:00:00Z",
        "text": "May order 7 be refunded?",
        "commands": ["wakeful approvals answer 7e9ff74fcc8daf7d332145b62e yes"],
    }
)
class Waiting(TypedDict):
    """Something that waits for a person."""

    kind: Annotated[
        Kind,
        About(
            "approval: a question. effect, delivery: it may have been done. output: it failed its checks. run: it is stopped"
        ),
    ]
    id: Annotated[str, About("Id of the approval, effect, run or delivery")]
    app: str
    agent: str
    run: str
    since: Annotated[Moment, About("Since when it waits")]
    due: Annotated[MomentOrNone, About("When it stops waiting; null: never")]
    text: Annotated[str, About("The question, or why it waits")]
    commands: Annotated[list[str], Made(), About("Commands that decide it")]


class Row(NamedTuple):
    """The columns of each query, and further ones of its kind."""

    at: int
    id: str
    app: str
    agent: str
    run: str
    since: int
    due: int | None
    text: str | None
    more: tuple[Any, ...]


class Source(NamedTuple):
    kind: Kind
    query: str
    commands: Callable[[Row], list[str]]
    text: Callable[[Row], str]


# the commands of each kind


def of_approval(row: Row) -> list[str]:
    schema = {} if row.more[0] is None else from_json(row.more[0])
    if schema.get("type") == "boolean":
        return [f"wakeful approvals {verb} {row.id}" for verb in ("approve", "deny", "show")]
    answers = schema.get("enum", [])
    if not 0 < len(answers) <= MOST_ANSWERS or not all(isinstance(one, str) for one in answers):
        return [f"wakeful approvals answer {row.id} ANSWER", f"wakeful approvals show {row.id}"]
    return [f"wakeful approvals answer {row.id} {shlex.quote(one)}" for one in answers]


def of_effect(row: Row) -> list[str]:
    return [f"wakeful effects {verb} {row.id}" for verb in ("confirm", "repeat", "abandon", "show")]


def of_output(row: Row) -> list[str]:
    if held_for_tampering(row.text):
        return of_run(row)
    return [
        f"wakeful trace {row.run}",
        f"wakeful release {row.run}",
        f"wakeful release {row.run} --output JSON --app APP",
        f"wakeful return {row.run} --remark TEXT",
        f"wakeful dead discard {row.run}",
    ]


def of_run(row: Row) -> list[str]:
    return [f"wakeful why {row.run}", f"wakeful replay {row.run}", f"wakeful cancel {row.run}"]


def of_delivery(row: Row) -> list[str]:
    return [f"wakeful deliveries {verb} {row.id}" for verb in ("confirm", "replay", "discard", "show")]


def its_text(row: Row) -> str:
    return row.text or ""


def text_of_effect(row: Row) -> str:
    action, arguments = row.more
    called = cut(f"{action}{arguments_of(from_json(arguments))}", SHOWN_ARGUMENTS)
    return f"{called}: {row.text}" if row.text else called


def text_of_delivery(row: Row) -> str:
    return f"to channel {row.more[0]}: {row.text}"


# In this order if they are due at the same time.
SOURCES = (
    Source("approval", "approvals_to_review", of_approval, its_text),
    Source("effect", "effects_to_review", of_effect, text_of_effect),
    Source("output", "outputs_to_review", of_output, its_text),
    Source("run", "runs_to_review", of_run, its_text),
    Source("delivery", "deliveries_to_review", of_delivery, text_of_delivery),
)


# reading


async def review(
    desk: Desk,
    *,
    kind: Annotated[
        Kind | None,
        Param("only this kind: approval, effect, output, run, delivery", about="only this kind", metavar="KIND"),
    ] = None,
    agent: Annotated[str | None, Param("only what an agent of this name waits for", metavar="NAME")] = None,
    app: OfApp = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Waiting]:
    """A page, the nearest deadline first. An item without a deadline counts as due since it began to wait."""
    seen = None if after is None else position_of(after)
    found: list[tuple[tuple[int, int, str], Waiting]] = []
    for rank, source in enumerate(SOURCES):
        if kind in {None, source.kind}:
            at, identifier = first_after(seen, rank)
            for columns in await desk.reads.fetch(source.query, at, identifier, app, agent, limit + 1):
                row = row_of(columns)
                found.append(((row.at, rank, row.id), waiting_of(source, row)))
    found.sort(key=lambda one: one[0])
    last = ".".join(map(str, found[limit - 1][0])) if len(found) > limit else None
    return Page([one for _, one in found[:limit]], last)


def position_of(after: str) -> tuple[int, int, str]:
    """The position that a cursor means. Raises ValueError for a text that is not a cursor."""
    match = CURSOR.fullmatch(after)
    if match is None or len(match[1]) > LONGEST_CURSOR:
        message = f"{after!r} is not a cursor: use `next` of the previous page"
        raise ValueError(message)
    return int(match[1]), int(match[2]), match[3]


def first_after(seen: tuple[int, int, str] | None, rank: int) -> tuple[int, str]:
    """The time and the id after which a source of this rank continues."""
    if seen is None:
        return 0, ""
    at, before, identifier = seen
    if rank == before:
        return at, identifier
    return (at, "") if rank > before else (at + 1, "")


def row_of(columns: Sequence[Any]) -> Row:
    at, identifier, app, agent, run, since, due, text, *more = columns
    return Row(at, identifier, app, agent, run, since, due, text, tuple(more))


def waiting_of(source: Source, row: Row) -> Waiting:
    return Waiting(
        kind=source.kind,
        id=row.id,
        app=row.app,
        agent=row.agent,
        run=row.run,
        since=to_text(row.since) or "",
        due=to_text(row.due),
        text=source.text(row),
        commands=source.commands(row),
    )


# on the command line


def shown(one: Waiting, look: Look) -> Printed:
    whole = look.piped
    ends = "" if one["due"] is None else f", ends {look.ago(one['due'])}"
    run = "" if one["id"] == one["run"] else f", run {look.short(one['run'])}"
    about = f"  agent {plain(one['agent'])}{run}, since {look.ago(one['since'])}{ends}"
    name = look.short_delivery(one["id"]) if one["kind"] == "delivery" else look.short(one["id"])
    yield line((f"{one['kind']} ", "dim"), (name, "bold"), about, whole=whole)
    yield line(cut(plain_lines(one["text"]), SHOWN_TEXT), indent=2)
    for command in one["commands"]:
        yield line((command, "cyan"), indent=4, whole=True)


def all_shown(found: Sequence[Waiting], look: Look) -> Printed:
    for one in found:
        yield from shown(one, look)


RESOURCE = Resource(
    noun="review",
    plural="review",
    view=Waiting,
    example="7e9ff74fcc",
    state=None,
    called="item",
    listing=Listing(
        read=review,
        summary="list what waits for a person, the nearest deadline first, with the commands that decide it",
        none="nothing waits for a person",
        whole=all_shown,
        called="items",
    ),
    more="`wakeful why ID` explains each of them.",
    takes="review takes no argument: see --kind, --agent and --of",
)
