"""A workflow of Microsoft Teams that posts the cards that its webhook gets, with its checks and limits."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from support.receiver import Reply, Request
from support.service import Refused, Service, object_of

SIGNATURE = "Jt6yZr3pQ1mK9sW4vB7nX2cL8dF5gH0aEuIoP_TyRkM"
PATH = "/workflows/4f0c1b7e9a2d/triggers/manual/paths/invoke"
LOOKS = frozenset({"type", "text", "weight", "size", "isSubtle", "fontType"})


class FakeTeams(Service):
    """`cards`: what was posted, as the lines of each card."""

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[list[str]] = []

    @property
    def webhook(self) -> str:
        return f"{self.url}{PATH}?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={SIGNATURE}"

    def handle(self, request: Request) -> Reply:
        path, _, query = request.path.partition("?")
        if path != PATH:
            raise Refused(404, {"error": {"code": "WorkflowNotFound"}})
        if request.method != "POST":
            raise Refused(405, {"error": {"code": "MethodNotAllowed"}})
        if parse_qs(query).get("sig") != [SIGNATURE]:
            raise Refused(401, {"error": {"code": "DirectApiAuthorizationRequired"}})
        if len(request.body) > 28 * 1024:
            raise Refused(413, {"error": {"code": "RequestEntityTooLarge"}})
        self.cards.append(_lines(object_of(request)))
        return Reply(202)


def _lines(body: dict[str, Any]) -> list[str]:
    if set(body) != {"type", "attachments"} or body["type"] != "message" or len(body["attachments"]) != 1:
        raise _malformed("message")
    attachment = body["attachments"][0]
    card = attachment.get("content")
    if attachment.get("contentType") != "application/vnd.microsoft.card.adaptive" or not isinstance(card, dict):
        raise _malformed("attachment")
    if set(card) != {"$schema", "type", "version", "body"} or card["type"] != "AdaptiveCard":
        raise _malformed("card")
    lines = []
    for block in card["body"]:
        if block.get("type") != "RichTextBlock" or not set(block) <= {"type", "inlines", "spacing"}:
            raise _malformed("block")
        for run in block["inlines"]:
            if run.get("type") != "TextRun" or not set(run) <= LOOKS or not run["text"]:
                raise _malformed("run of text")
        lines.append("".join(run["text"] for run in block["inlines"]))
    return lines


def _malformed(what: str) -> Refused:
    return Refused(400, {"error": {"code": "TriggerInputSchemaMismatch", "message": f"the {what} is malformed"}})
