"""Answers to approvals. The command line and the HTTP API share this.

typed text ──► parsed (`yes`, unquoted text, JSON) ──► checked against the schema ──► stored; the first answer stands
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wakeful.errors import InvalidEvent
from wakeful.intake.untrusted import DEPTH_LIMIT, read_json
from wakeful.operations.shape import fits
from wakeful.stores.request import Actor, Doer
from wakeful.stores.verbs.approvals import AnswerApproval, Answered
from wakeful.values import to_text

Approval = Mapping[str, Any]

YES_AND_NO = {"yes": True, "y": True, "no": False, "n": False}


def understand(text: str, schema: dict[str, Any] | None) -> Any:
    """Parse a typed answer: as JSON if that fits, else as `yes` or `no`, else as plain text. Raises ValueError with the reason.

    An approval without a schema takes JSON, yes or no: the plain text `never` would be truthy in the agent's code.
    """
    problem: str | None = None
    try:
        value = read_json(text.encode(), depth=DEPTH_LIMIT, inside=("answer",))
    except (InvalidEvent, UnicodeError) as error:
        value, problem = text, str(error)
    word = YES_AND_NO.get(text.strip().lower())
    read_as = [value, text] if word is None else [value, word, text]
    fitting = [one for one in read_as if fits(one, schema)]
    if problem is not None and word is None and (schema is None or (not fitting and text.lstrip()[:1] in {"{", "["})):
        hint = "" if text.lstrip()[:1] in {"{", "["} else f""". Text needs quotes: '"{text}"'"""
        message = f"{problem}{hint}"
        raise ValueError(message)
    if schema is None and word is not None:
        return word
    return fitting[0] if fitting else value


async def answer_approval(
    store: Doer,
    approval: str,
    value: Any,
    *,
    by: Actor,
    note: str | None = None,
    begins: tuple[str, str] | None = None,
    digest: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    link: str | None = None,
) -> Answered | None:
    """Store an answer. None if there is no such approval. `begins`: the app and the run that waits to begin, if the approval is about that. `digest`
    and `arguments` are for approvals of effects: what the person saw, and edited. `link`: the digest of the link that the answer comes
    by; raises LinkRefused.
    """
    edited = None if arguments is None else to_text(dict(arguments), what="the edited arguments", passed=True)
    text = to_text(value, what="the answer")
    app, run = begins or (None, None)
    return await store.do(AnswerApproval(approval, text, run, digest, edited, link, app, by=by, note=note))


def which_stands(approval: Approval) -> str:
    """The message for an answer that came too late."""
    match approval["state"]:
        case "answered":
            words = f"{approval['answered_by']} answered it at {approval['answered_at']}"
        case "expired":
            words = (
                f"it expired unanswered at {approval['due_at']}, and run {approval['run']} resumed without an answer"
            )
        case "withdrawn":
            words = f"run {approval['run']}, which asked it, is over"
        case state:
            words = f"it is {state}"
    return f"approval {approval['id']}: {words}. This answer changed nothing"
