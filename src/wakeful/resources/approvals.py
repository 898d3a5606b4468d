"""Approvals: what runs ask people, and the answers. A run asks a question, or a rule of the policy asks whether an effect may happen or
a run may begin.

answer   ANSWER is JSON, @file or - for standard input; also yes or no, a number, and unquoted text if text is expected
link     a URL with which one person answers, once (approval_links.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from wakeful.clock import to_text
from wakeful.errors import NotFound, Persistent, did_you_mean
from wakeful.model import ApprovalKind, ApprovalState
from wakeful.operations.answering import answer_approval, understand, which_stands
from wakeful.operations.shape import expected, misfits
from wakeful.resources import approval_links
from wakeful.resources.declare import Column, Listing, Page, Printed, Resource, Show, Verb
from wakeful.resources.desk import Desk
from wakeful.resources.fields import About, AsJson, Count, Flag, Moment, MomentOrNone
from wakeful.resources.parameters import After, Limit, Param, Typed
from wakeful.resources.refusals import Refused
from wakeful.resources.shown import AnyJson
from wakeful.resources.words import Look, clock_time, cut, in_json, line, plain, plain_lines
from wakeful.stores.reads import LAST_CHARACTER, SHORTEST_PREFIX
from wakeful.stores.verbs.votes import VoteRefused

KNOWN_FOR_GUESSES = 100
SHOWN_QUESTION = 300  # characters in a listing


class Vote(TypedDict):
    """What one person said."""

    by: str
    answer: bool
    proved: Annotated[bool, About("By a personal token; otherwise the name is only claimed")]
    counts: Annotated[bool, About("false: it was about other arguments")]
    note: str | None
    at: Moment


class AskedFor(TypedDict):
    """A row of the queries about approvals: an approval without its votes."""

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
    kind: Annotated[
        ApprovalKind, About("question: a run asks. effect: whether an effect may happen. run: whether a run may begin")
    ]
    rule: Annotated[str | None, About("The rule of the policy that asks")]
    action: Annotated[str | None, About("Of an effect: the action that would be called")]
    arguments: Annotated[
        dict[str, Any] | None, AsJson(), About("Of an effect: its arguments by parameter, without what `redact` hides")
    ]
    digest: Annotated[str | None, About("Of an effect: what exactly is approved. Give it back with the answer")]
    of: Annotated[Count, About("How many people must agree")]
    by: Annotated[list[str] | None, AsJson(), About("The groups and people who may answer; null: anybody")]
    effect: Annotated[str | None, About("The effect that waits for it")]
    edit: Annotated[Flag, About("Of an effect: whether a yes may change its arguments")]


class Approval(AskedFor):
    """What a run asks a person, and the answer."""

    votes: Annotated[list[Vote], About("One for each person; the first no ends it")]


class Answered(TypedDict):
    """The answer that was stored."""

    id: str
    run: str
    answer: AnyJson
    state: Annotated[ApprovalState, About("open: more people must agree")]
    votes: Annotated[int, About("How many people agree by now")]
    of: Annotated[int, About("How many must agree")]


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
    page = await desk.reads.page(AskedFor, "page_of_approvals", state, limit=limit, after=after)
    return Page(await with_votes(desk, page.items), page.next)


async def with_votes(desk: Desk, found: Sequence[AskedFor]) -> list[Approval]:
    """Approvals with their votes. Only approvals of effects and runs have any."""
    voted = [one["id"] for one in found if one["kind"] != "question"]
    rows = await desk.reads.fetch_each("votes_of", [(one,) for one in voted]) if voted else []
    votes = dict(zip(voted, rows, strict=True))
    return [
        Approval(**without_edit(one), votes=[vote_of(one, row) for row in votes.get(one["id"], ())]) for one in found
    ]


def without_edit(one: AskedFor) -> AskedFor:
    """Edited arguments are a yes that a worker looks at; it stores what people may see of them."""
    return {**one, "answer": True} if is_edit(one) else one


def is_edit(one: AskedFor) -> bool:
    """Whether its answer is edited arguments that a worker has to look at."""
    return one["kind"] == "effect" and isinstance(one["answer"], dict) and "edit" in one["answer"]


def vote_of(one: AskedFor, row: Sequence[Any]) -> Vote:
    voter, answer, proved, digest, note, at, _ = row
    counts = digest == (one["digest"] or "")
    return Vote(by=voter, answer=answer == "true", proved=bool(proved), counts=counts, note=note, at=str(to_text(at)))


async def find(desk: Desk, identifier: str) -> Approval | None:
    """One approval by its id or a prefix of it. Raises NotFound if several match."""
    upper = identifier + (LAST_CHARACTER if len(identifier) >= SHORTEST_PREFIX else "\x01")
    found = await desk.reads.rows(AskedFor, "find_approvals", identifier, upper)
    exact = next((one for one in found if one["id"] == identifier), None)
    if exact is None and len(found) > 1:
        message = f"{identifier} matches more than one approval: give more characters"
        raise NotFound(message)
    one = exact or (found[0] if found else None)
    return None if one is None else (await with_votes(desk, [one]))[0]


async def missing(desk: Desk, key: str) -> str:
    known = (await approvals(desk, state="open", limit=KNOWN_FOR_GUESSES)).items
    guess = did_you_mean(key, [one["id"][: max(len(key), SHORTEST_PREFIX)] for one in known])
    more = f"; give {SHORTEST_PREFIX} characters of its id or more" if len(key) < SHORTEST_PREFIX else ""
    return f'there is no approval "{plain(key)}": see `wakeful approvals`{more}.{guess if "Did" in guess else ""}'


async def none(desk: Desk, *, state: str = "open", **_: Any) -> str:
    some = (await approvals(desk, limit=1)).items
    return (
        f"no {state} approvals"
        if some
        else "no approvals yet. A run asks for one with `run.ask(…)`, a policy with `answer: ask`."
    )


def are_open(found: Sequence[Approval]) -> bool:
    return found[0]["state"] == "open"  # the command line lists approvals of one state


def how_to_answer(found: Sequence[Approval], _: Mapping[str, Any], __: Look) -> Printed:
    if not are_open(found):
        return
    kinds = {"question" if one["kind"] == "question" else "approval" for one in found}
    if "approval" in kinds:
        yield "Answer one with `wakeful approvals approve ID` or `wakeful approvals deny ID`;"
        yield "`wakeful approvals show ID` shows what would happen."
    if "question" in kinds:
        yield f"Answer {'one' if len(kinds) == 1 else 'a question'} with `wakeful approvals answer ID ANSWER`;"
        yield "`wakeful approvals show ID` shows the expected answer."


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
            before = "it was answered before, but" if one["kind"] == "question" else "open again:"
            yield line(f"{before} {plain(one['note'])}", whole=whole)
        if one["kind"] == "question":
            yield line(f"expected: {plain(expected(one['schema']))}", whole=whole)
            yield line(f"answer with `wakeful approvals answer {one['id'][:10]} ANSWER`", whole=whole)
            return
        yield from terms_shown(one, whole=whole)
        short = one["id"][:10]
        yield line(f"answer with `wakeful approvals approve {short}` or `wakeful approvals deny {short}`", whole=whole)
        if one["edit"]:
            yield line("to change arguments: approve with `--arguments JSON`, by parameter", whole=whole)


def terms_shown(one: Approval, *, whole: bool) -> Printed:
    """What would happen, who may answer, and who has."""
    if one["action"]:
        rule = f"rule: {plain(one['rule'])}  " if one["rule"] else ""
        yield line(f"{rule}action: {plain(one['action'])}  digest: {one['digest']}", whole=whole)
        for name, value in (one["arguments"] or {}).items():
            yield line(f"  {plain(name)} = {in_json(value)}", whole=whole)
    if one["of"] > 1:
        yield line(f"{one['of']} people must agree", whole=whole)
    for vote in one["votes"]:
        said = "yes" if vote["answer"] else "no"
        voided = "" if vote["counts"] else ", about other arguments: does not count"
        proof = "" if vote["proved"] else " (name only claimed)"
        yield line(f"{plain(vote['by'])}{proof} said {said} at {clock_time(vote['at'])}{voided}", whole=whole)


# answering

Digest = Annotated[
    str | None,
    Param(
        "digest of what you saw, as shown by `show`; refused if it is about something else by now",
        about="`digest` of the approval that was seen; refused with 409 if it is about something else by now",
        metavar="DIGEST",
    ),
]
Arguments = Annotated[
    Any,
    Param(
        "JSON with the arguments to change, by parameter",
        about="edited arguments, by parameter; those that are not given stay as they are",
        metavar="JSON",
    ),
]

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
        raise await too_late(desk, approval)
    given = understood(answer, approval["schema"])
    wrong = misfits(given, approval["schema"])
    if wrong:
        raise unfit(desk, approval, wrong)
    return await store_answer(desk, approval, given)


async def approve(
    desk: Desk, approval: Approval, *, digest: Digest = None, arguments: Arguments = None
) -> Answered | None:
    """Say yes. With edited arguments, a worker checks them first, and then they are what is approved."""
    await refuse_other_kinds(desk, approval, yes=True)
    edited = read_arguments(arguments)
    if edited is not None and approval["kind"] != "effect":
        raise misfit("only an effect has arguments to edit")
    return await store_answer(desk, approval, answer=True, digest=digest, arguments=edited)


async def deny(desk: Desk, approval: Approval, *, digest: Digest = None) -> Answered | None:
    """Say no. The first no ends it."""
    await refuse_other_kinds(desk, approval, yes=False)
    return await store_answer(desk, approval, answer=False, digest=digest)


async def refuse_other_kinds(desk: Desk, approval: Approval, *, yes: bool) -> None:
    if approval["state"] != "open":
        raise await too_late(desk, approval)
    if misfits(yes, approval["schema"]):
        words = f"it wants more than yes or no: `wakeful approvals answer {approval['id'][:10]} ANSWER`"
        raise misfit(words)


def read_arguments(given: Any) -> dict[str, Any] | None:
    """Edited arguments, by parameter."""
    if given is not None and not isinstance(given, dict):
        raise misfit('the arguments must be an object, by parameter, like {"amount": 80}')
    return given


async def store_answer(
    desk: Desk, approval: Approval, answer: Any, *, digest: str | None = None, arguments: dict[str, Any] | None = None
) -> Answered | None:
    try:
        begins = (approval["app"], approval["run"]) if approval["kind"] == "run" else None
        stored = await answer_approval(
            desk.store,
            approval["id"],
            answer,
            by=desk.by,
            note=desk.note,
            begins=begins,
            digest=digest,
            arguments=arguments,
        )
    except Persistent as error:
        raise misfit(str(error), wrong_call=False) from None
    if stored is not None and stored.refused is not None:
        raise vote_refused(approval, stored.refused)
    if stored is not None and stored.first:
        return Answered(
            id=stored.id, run=stored.run, answer=answer, state=stored.state, votes=stored.votes, of=approval["of"]
        )
    present = await find(desk, approval["id"])
    if present is None:
        return None
    raise await too_late(desk, present)


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


async def too_late(desk: Desk, approval: Approval) -> Refused:
    title = "The approval is already answered or closed"
    rows = await desk.reads.rows(AskedFor, "find_approvals", approval["id"], approval["id"] + LAST_CHARACTER)
    words = still_checked(rows[0]) if rows and is_edit(rows[0]) else which_stands(approval)
    return Refused(words, kind="already-answered", title=title)


def still_checked(one: AskedFor) -> str:
    """Edited arguments that no worker has looked at."""
    edited = f"{one['answered_by']} edited its arguments at {one['answered_at']}, and a worker has not checked them yet"
    return f"approval {one['id']}: {edited}. This answer changed nothing"


REFUSED_VOTES = {
    "digest": ("plan-changed", "It is about something else by now", 409),
    "person": ("not-allowed", "This person may not answer it", 403),
    "arguments": ("answer-does-not-fit", "The answer does not fit the approval", 422),
    "twice": ("already-answered", "One person, one vote", 409),
    "expired": ("already-answered", "The approval is already answered or closed", 409),
}


def vote_refused(approval: Approval, refused: VoteRefused) -> Refused:
    kind, title, status = REFUSED_VOTES[refused.kind]
    return Refused(
        f"approval {approval['id']}: {refused.words}. Nothing changed", kind=kind, title=title, status=status
    )


def told(one: Answered, approval: Approval, given: Mapping[str, Any]) -> str:
    if given.get("arguments") is not None:
        more = f" Then {one['of'] - 1} more must agree." if one["of"] > 1 else ""
        return f"approval {one['id']}: the arguments are edited. A worker checks them.{more}"
    if one["state"] == "open" and one["votes"] >= one["of"]:
        judged = "The policy has changed since: run {} stays held until a process of its app has judged it by the policy in force."
        return f"approval {one['id']}: {one['votes']} of {one['of']} agree. {judged.format(one['run'])}"
    if one["state"] == "open":
        left = one["of"] - one["votes"]
        more = "1 more person" if left == 1 else f"{left} more people"
        return f"approval {one['id']}: {one['votes']} of {one['of']} agree; {more} must agree."
    said = f"answered with {in_json(one['answer'])}"
    if approval["kind"] != "question":
        said = "approved" if one["answer"] is True else "denied"
    return f"approval {one['id']}: {said}. Run {one['run']} resumes."


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
            Column("for", "to", flexible=True),
            Column("asked", "asked_at"),
            Column("ends", "due_at", when=lambda found, _: are_open(found)),
            Column("answered by", "answered_by", when=lambda found, _: not are_open(found)),
            Column("text", show=lambda one, _: cut(plain(" ".join(one["question"].split())), SHOWN_QUESTION)),
        ),
        below="text",
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
        Verb(
            "approve",
            approve,
            "say yes to an effect or a run; it stays open until enough people agree",
            says=told,
            scope="answer",
            person="approve an effect",
            statuses=("403", "409", "422"),
            example={"digest": "6a1f0c52c7b0d1a2e3f4b5c6d7", "note": "checked the invoice"},
            several=True,
        ),
        Verb(
            "deny",
            deny,
            "say no to an effect or a run; the first no ends it",
            says=told,
            scope="answer",
            person="deny an effect",
            statuses=("403", "409", "422"),
            example={"note": "a duplicate"},
            several=True,
        ),
        approval_links.VERB,
    ),
    more="ANSWER is JSON, @file or -; yes, no, a number, or plain text if text is expected.",
    takes="approvals takes list, show or link and an ID, approve or deny and IDs, or answer, an ID and an ANSWER, like: wakeful approvals answer 3f2a91 yes",
)
