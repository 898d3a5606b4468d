"""/approve/{token}: the page of a link to an approval. Its token is the only one that is needed.

    GET    what will be done, or what became of it; changes nothing and does not use the link up, so that a scanner may fetch it
    POST   the answer, once: `answer` is approve or deny, `digest` is what the page showed, `note` is optional

    404   no such link, or one of another app    409   the link was used, or the approval was answered or has changed
    410   the link has expired                   429   too many wrong links from this address

Refused links are recorded, without the token, and counted in few rows.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wakeful.api import approve_page
from wakeful.clock import to_text
from wakeful.errors import LinkRefused
from wakeful.http.body import read_body
from wakeful.http.callers import address_of
from wakeful.http.change import NOTE_LIMIT
from wakeful.http.problem import Problem
from wakeful.http.security import ApiSettings
from wakeful.http.tries import AttemptWindow, WrongTries
from wakeful.resources import approvals
from wakeful.resources.approval_links import PATH, Link, author, decide, digest_shown, is_yes_or_no, opened, record
from wakeful.resources.desk import Desk
from wakeful.resources.refusals import Refused
from wakeful.resources.words import clock_time, in_json
from wakeful.stores.request import Actor
from wakeful.tokens import LENGTH

FORM = "application/x-www-form-urlencoded"
BODY_LIMIT = 4 * NOTE_LIMIT * 4  # a note of four-byte characters, each written as %XX
WRITES = 10  # of refusals within a minute; the others are counted by the next one
WAITING = 100  # refusals of different links that wait to be written
STATUS = {"forged": 404, "foreign": 404, "expired": 410, "used": 409}
NOT_VALID = "It is not complete, or it was never valid, or it belongs to another server. Ask for a new one."
EXPIRED = "It has expired. Ask for a new one."
STRANGER = Actor("stranger", "link")
_TOKEN = re.compile(rf"[A-Za-z0-9]{{{LENGTH}}}")

DeskOf = Callable[[Actor, str | None], Desk]
Redacted = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Refusals:
    """Records refused links: at once, but a few times a minute only."""

    def __init__(self, desk_of: DeskOf, app: str, clock: Callable[[], float] = time.time) -> None:
        self._desk_of = desk_of
        self._app = app
        self._clock = clock
        self._window = AttemptWindow(WRITES)
        self._waiting: dict[tuple[str, str], tuple[LinkRefused, Link | None, int]] = {}

    async def note(self, refusal: LinkRefused, link: Link | None) -> None:
        key = ("" if link is None else link.digest, refusal.reason if link is not None else "")
        if key in self._waiting or len(self._waiting) < WAITING:
            _, _, before = self._waiting.get(key, (refusal, link, 0))
            self._waiting[key] = (refusal, link, before + 1)
        if self._window.take(time.monotonic()):
            return
        waiting, self._waiting = self._waiting, {}
        hour = int(self._clock() // 3600)
        for one, behind, count in waiting.values():
            await record(self._desk_of(STRANGER, None), self._app, one, behind, hour, count)


class ApprovePage:
    """The two methods of the page."""

    def __init__(self, desk_of: DeskOf, settings: ApiSettings, redacted: Redacted) -> None:
        self._desk_of = desk_of
        self._app = settings.app
        self._redacted = redacted
        self._tries = WrongTries(what="link")
        self._refusals = Refusals(desk_of, settings.app or "")

    async def show(self, request: Request) -> Response:
        try:
            link = await self._opened(request)
        except LinkRefused as error:
            return await self._refused(request, error, None)
        one = await self._approval(link)
        if one is None:
            return approve_page.refusal_page("What it was about has been removed.", 410)
        refusal = link.refusal
        if refusal is not None and refusal.reason != "used":
            return await self._refused(request, refusal, link)
        if one["state"] != "open" or refusal is not None:
            return approve_page.outcome_page(one, outcome(one, link))
        if not is_yes_or_no(one):
            return approve_page.unanswerable_page(one, command=f"wakeful approvals answer {one['id'][:10]} ANSWER")
        until = to_text(link.expires_at)
        return approve_page.question_page(one, person=link.person, until=until, digest=digest_shown(one))

    async def answer(self, request: Request) -> Response:
        try:
            link = await self._opened(request)
        except LinkRefused as error:
            return await self._refused(request, error, None)
        given = await self._form(request)
        one = await self._approval(link)
        if one is None:
            return approve_page.refusal_page("What it was about has been removed.", 410)
        try:
            if (refusal := link.refusal) is not None:
                raise refusal
            if one["state"] != "open":
                return approve_page.outcome_page(one, outcome(one, link), status=409)
            if not is_yes_or_no(one):
                raise bad_form("this question needs more than a yes or a no", "answer")
            desk = self._desk_of(author(link), given.get("note") or None)
            await decide(desk, one, link, yes=given["answer"] == "approve", shown=given["digest"])
        except LinkRefused as error:
            return await self._refused(request, error, link, one)
        except Refused as error:
            present = await self._approval(link) or one
            words = outcome(present, link) if present["state"] != "open" else str(error)
            return approve_page.outcome_page(present, words, status=409)
        present = await self._approval(link) or one
        return approve_page.outcome_page(present, outcome(present, link, answered=True))

    async def _opened(self, request: Request) -> Link:
        token: str = request.path_params["token"]
        if not _TOKEN.fullmatch(token):
            raise LinkRefused("forged", "this is not a link")
        return await opened(self._desk_of(STRANGER, None), token, self._app)

    async def _approval(self, link: Link) -> Any:
        """The approval of a link, with redacted arguments."""
        found: Any = await approvals.find(self._desk_of(STRANGER, None), link.approval)
        if found is not None and isinstance(found.get("arguments"), Mapping):
            found = {**found, "arguments": self._redacted(found["arguments"])}
        return found

    async def _form(self, request: Request) -> dict[str, str]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != FORM:
            raise Problem(415, f"send the form of the page as {FORM}", kind="unsupported-content-type")
        body = await read_body(request.headers.get("content-length"), request.receive, limit=BODY_LIMIT)
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=3)
        except ValueError:
            raise bad_form("the form cannot be read", "body") from None
        given = {name: values[0] for name, values in fields.items() if len(values) == 1}
        if given.get("answer") not in {"approve", "deny"}:
            raise bad_form("answer must be approve or deny", "answer")
        if not given.get("digest"):
            raise bad_form("digest is missing: send the form of the page", "digest")
        note = given.get("note", "").replace("\r\n", "\n").strip()
        if len(note) > NOTE_LIMIT:
            raise bad_form(f"note has at most {NOTE_LIMIT:,} characters", "note")
        return {**given, "note": note}

    async def _refused(self, request: Request, error: LinkRefused, link: Link | None, one: Any = None) -> Response:
        await self._refusals.note(error, link)
        status, headers = STATUS[error.reason], {}
        if status == 404 and (wait := self._tries.add(address_of(request.scope))):
            status, headers = 429, {"Retry-After": str(max(1, math.ceil(wait)))}
        if error.reason == "used" and one is not None and link is not None:
            return approve_page.outcome_page(one, f"This link was used before. {outcome(one, link)}", status=status)
        return approve_page.refusal_page(EXPIRED if error.reason == "expired" else NOT_VALID, status, headers)


def outcome(one: Mapping[str, Any], link: Link, *, answered: bool = False) -> str:
    """What became of an approval, in a sentence. `answered`: the person has answered by this link just now."""
    answered = answered or link.used_at is not None
    match one["state"]:
        case "answered":
            answer = {True: "Approved", False: "Denied"}.get(one["answer"], f"Answered with {in_json(one['answer'])}")
            note = f": {one['note']}" if one["note"] else ""
            return f"{answer} by {one['answered_by']} at {clock_time(one['answered_at'])}{note}"
        case "expired":
            return "It expired without an answer."
        case "withdrawn":
            return "It was withdrawn: the run that asked is over."
        case "open" if answered and agreed(one):
            return f"{link.person} has answered. The policy has changed since: the run is judged by the policy in force before it begins."
        case "open" if answered:
            return f"{link.person} has answered. It waits for more answers."
        case state:
            return f"It is {state}."


def agreed(one: Mapping[str, Any]) -> bool:
    """Whether enough people have said yes, although the approval is open."""
    yeses = [vote for vote in one["votes"] if vote["counts"] and vote["answer"] and (vote["proved"] or one["of"] == 1)]
    return len(yeses) >= int(one["of"])


def bad_form(detail: str, field: str) -> Problem:
    return Problem(400, detail, kind="bad-body", title="The form is wrong", field=field)


def approve_routes(desk_of: DeskOf, settings: ApiSettings, redacted: Redacted) -> list[Route]:
    page = ApprovePage(desk_of, settings, redacted)
    path = f"{PATH}{{token}}"
    return [
        Route(path, page.show, methods=["GET"], include_in_schema=False),
        Route(path, page.answer, methods=["POST"], include_in_schema=False),
    ]
