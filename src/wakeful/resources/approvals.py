"""Approvals: questions that runs ask people, and the answers.

answer   ANSWER is JSON, @file or - for standard input; also yes or no, a number, and unquoted text if text is expected
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.errors import NotFound, Persistent, did_you_mean
from wakeful.model import ApprovalKind, ApprovalState
from wakeful.operations.answering import answer_approval, understand, which_stands
from wakeful.operations.shape import expected, misfits
from wakeful.resources.declare import Column, Listing, Page, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, AsJson, MomentOrNone
from wakeful.resources.parameters import After, Limit, Param, Typed
from wakeful.resources.refusals import Refused
from wakeful.resources.shown import AnyJson
from wakeful.resources.words import Look, clock_time, in_json, line, plain, plain_lines
from wakeful.stores.reads import LAST_CHARACTER, SHORTEST_PREFIX

KNOWN_FOR_GUESSES = 100


class Approval(TypedDict):
    """A question that a run asks a person, and the answer."""

    id: Annotated[str, About("Id of the approval", example="7e9ff74fcc8daf7d332145b62e")]
    app: str
    agent: str
    run: Annotated[str, About("The run that asks, and waits for the answer")]
    question: str
    to: Annotated[str | None, About("Who is asked")]
    schema: Annotated[dict[str, Any] | None, AsJson(), About("JSON schema of the answer; null: any JSON")]
    state: ApprovalState
    answer: Annotated[AnyJson, AsJson()]
    answered_by: str | None
    note: Annotated[str | None, About("The answerer's note; if open, why it is asked again")]
    asked_at: MomentOrNone
    due_at: Annotated[MomentOrNone, About("When the run stops waiting")]
    answered_at: MomentOrNone
    kind: Annotated[ApprovalKind, About("question: a run asks. run: whether a run may begin")]
    rule: Annotated[str | None, About("The rule of the policy that asks")]


class Answered(TypedDict):
    """The answer that was stored."""

    id: str
    run: str
    answer: AnyJson


# reading


async def approvals(
    desk: Desk,
    *,
    state: Annotated[
        ApprovalState | None,
        Param(
            "only approvals in this state: open (the default), answered, expired, withdrawn",
            about="only approvals in this state",
            in_shell="open",
        ),
    ] = None,
    limit: Limit = 50,
    after: After = None,
) -> Page[Approval]:
    return await desk.reads.page(Approval, "page_of_approvals", state, limit=limit, after=after)


async def find(desk: Desk, identifier: str) -> Approval | None:
    """One approval by its id or a prefix of it. Raises NotFound if several match."""
    upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
    found = await desk.reads.rows(Approval, "find_approvals", identifier, upper)
    exact = next((one for one in found if one["id"] == identifier), None)
    if exact is None and len(found) > 1:
        message = f"{identifier} matches more than one approval: give more characters"
        raise NotFound(message)
    return exact or (found[0] if found else None)


async def missing(desk: Desk, key: str) -> str:
    known = (await approvals(desk, state="open", limit=KNOWN_FOR_GUESSES)).items
    guess = did_you_mean(key, [one["id"][: max(len(key), SHORTEST_PREFIX)] for one in known])
    more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(key) < SHORTEST_PREFIX else ""
    return f'there is no approval "{plain(key)}": see `wakeful approvals`{more}.{guess if "Did" in guess else ""}'


async def none(desk: Desk, *, state: str = "open", **_: Any) -> str:
    some = (await approvals(desk, limit=1)).items
    return f"no {state} approvals" if some else "no approvals yet. An agent asks for one with `run.ask(…)`."


def are_open(found: Sequence[Approval]) -> bool:
    return found[0]["state"] == "open"  # the command line lists approvals of one state


def how_to_answer(found: Sequence[Approval], _: Mapping[str, Any], __: Look) -> list[str]:
    said = (
        "Answer one with `wakeful approvals answer ID ANSWER`; `wakeful approvals show ID` shows the expected answer."
    )
    return [said] if are_open(found) else []


def shown(one: Approval, look: Look) -> Printed:
    whole = look.piped
    yield line(("approval ", "dim"), (plain(one["id"]), "bold"), "  ", (one["state"], "state"), whole=whole)
    whom = f" asks {one['to']}" if one["to"] else " asks"
    until = f", until {clock_time(one['due_at'])}" if one["due_at"] else ""
    asked = f"agent {one['agent']}, run {one['run']},{whom} since {clock_time(one['asked_at'])}{until}"
    yield line(plain(asked), style="dim", whole=whole)
    yield line(plain_lines(one["question"]), whole=whole)
    if one["state"] == "answered":
        note = f" ({plain(one['note'])})" if one["note"] else ""
        who = f"{plain(one['answered_by'])} at {clock_time(one['answered_at'])}{note}"
        yield line(f"answered by {who}: {in_json(one['answer'])}", whole=whole)
    elif one["state"] == "open":
        if one["note"]:
            yield line(f"it was answered before, but {plain(one['note'])}", whole=whole)
        yield line(f"expected: {plain(expected(one['schema']))}", whole=whole)
        yield line(f"answer with `wakeful approvals answer {one['id'][:10]} ANSWER`", whole=whole)


# answering

Answer = Annotated[
    Any,
    Param(
        "JSON, @file or -; yes, no, a number, or plain text if text is expected",
        about="the answer; it must fit the schema of the approval",
        metavar="ANSWER",
        positional=True,
        understood=True,
        missing="the answer is required, as JSON",
    ),
]


async def answer(desk: Desk, approval: Approval, *, answer: Answer) -> Answered | None:
    """Answer an approval. The first answer stands; raises Refused for a later one or one that does not fit."""
    if approval["state"] != "open":
        raise too_late(approval)
    given = understood(answer, approval["schema"])
    wrong = misfits(given, approval["schema"])
    if wrong:
        raise unfit(desk, approval, wrong)
    try:
        begins = approval["run"] if approval["kind"] == "run" else None
        stored = await answer_approval(desk.store, approval["id"], given, by=desk.by, note=desk.note, begins=begins)
    except Persistent as error:
        raise misfit(str(error), wrong_call=False) from None
    if stored is not None and stored.first:
        return Answered(id=stored.id, run=stored.run, answer=given)
    present = await find(desk, approval["id"])
    if present is None:
        return None
    raise too_late(present)


def understood(given: Any, schema: dict[str, Any] | None) -> Any:
    if not isinstance(given, Typed):
        return given
    try:
        return understand(given, schema)
    except ValueError as error:
        raise misfit(f"ANSWER: {error}") from None


def unfit(desk: Desk, approval: Approval, wrong: list[str]) -> Refused:
    if desk.by.way != "cli":
        return misfit("; ".join(wrong))
    show = f"`wakeful approvals show {approval['id'][:10]}` shows what is expected"
    return misfit(f"the answer does not fit and was not stored: {show}", said=wrong)


def misfit(words: str, *, said: Sequence[str] = (), wrong_call: bool = True) -> Refused:
    title = "The answer does not fit the approval"
    return Refused(
        words, kind="answer-does-not-fit", title=title, status=422, field="answer", said=said, wrong_call=wrong_call
    )


def too_late(approval: Approval) -> Refused:
    title = "The approval is already answered or closed"
    return Refused(which_stands(approval), kind="already-answered", title=title)


def told(one: Answered) -> str:
    return f"approval {one['id']}: answered with {in_json(one['answer'])}. Run {one['run']} resumes."


RESOURCE = Resource(
    noun="approval",
    plural="approvals",
    view=Approval,
    example="3f2a91",
    missing=missing,
    listing=Listing(
        read=approvals,
        summary="list approvals that runs ask for, newest first",
        none=none,
        columns=(
            Column("approval", show=lambda one, look: look.short(one["id"])),
            Column("agent"),
            Column("state"),
            Column("for", "to"),
            Column("asked", "asked_at"),
            Column("ends", "due_at", when=lambda found, _: are_open(found)),
            Column("answered by", "answered_by", when=lambda found, _: not are_open(found)),
            Column("text", "question", flexible=True),
        ),
        after=how_to_answer,
    ),
    show=Show(find=find, summary="show one approval", lines=shown),
    verbs=(
        Verb(
            "answer",
            answer,
            "answer an approval and resume its run; the first answer stands",
            says=told,
            scope="answer",
            person="answer an approval",
            statuses=("422",),
            example={"answer": {"approved": True}, "note": "within the limit"},
        ),
    ),
    more="ANSWER is JSON, @file or -; yes, no, a number, or plain text if text is expected.",
    takes="approvals takes list, show and an ID, or answer, an ID and an ANSWER, like: wakeful approvals answer 3f2a91 yes",
)
