"""`teams(env("TEAMS_URL"))`: each message is an Adaptive Card, posted to the webhook of a workflow of Microsoft Teams.

    POST {the URL}   {"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": {…}}]}
    202              the workflow has it

The answer has no id, and a workflow cannot be asked for what it posted. So a message in doubt goes again and says so, or waits for a person. The
URL is a secret: whoever has it can post.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from pydantic_core import to_json

from wakeful.clock import Duration
from wakeful.errors import ConfigError
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, check_url, resolve
from wakeful.output.channels.base import Channel, Message, OnDoubt, Surroundings
from wakeful.output.channels.client import Client, missing_secrets, read_secret, read_trying
from wakeful.output.channels.text import CUT, repetition_of, text_of, title_of
from wakeful.redaction import KNOWN
from wakeful.secrets import Env, Secret, reveal

WHERE = "teams(…)"
LIMIT = 28_000  # bytes of a request: Teams refuses more than 28 kB
TITLE_LIMIT = 200
SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
CARD = "application/vnd.microsoft.card.adaptive"
VERSION = "1.4"


class Teams(Channel):
    """Posts cards to one workflow."""

    def __init__(
        self,
        url: Secret,
        *,
        on_doubt: OnDoubt = Channel.on_doubt,
        allow_private: bool = False,
        timeout: Duration = "30s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        self._url = read_secret(url, "url", WHERE)
        if on_doubt not in {"repeat", "hold"}:
            message = f'{WHERE}: on_doubt must be "repeat" or "hold", not {on_doubt!r}'
            raise ConfigError(message)
        self.on_doubt, self.allow_private = on_doubt, allow_private
        trying, limit = read_trying(WHERE, timeout, attempts, backoff)
        self.timeout, self.attempts, self.backoff = timeout, trying.attempts, trying.backoff
        self._client = Client(WHERE, limit, allow_private=allow_private, resolve=resolve)
        if not isinstance(self._url, Env):
            self._revealed()

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report a missing or wrong URL now, not with the first message."""
        self._revealed()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    async def deliver(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self._client.send("POST", self._revealed(), {"content-type": "application/json"}, posted(message))

    def _revealed(self) -> str:
        """The URL, checked. It is never part of a message: its signature lets anyone post."""
        url = reveal(self._url, needed_by=f"{WHERE}, url")
        parts = check_url(url, where=WHERE, allow_private=self.allow_private)
        if parts.scheme != "https" and not self.allow_private:
            message = f"{WHERE}: the URL is a secret, and would be sent without encryption: it must begin with https://"
            raise ConfigError(message)
        KNOWN.learn("secret", *parse_qs(parts.query).get("sig", []))
        return url

    def missing(self) -> list[str]:
        return missing_secrets([(self._url, "url")], WHERE)

    def describe(self) -> dict[str, Any]:
        return {"kind": "teams", "on_doubt": self.on_doubt, "allow_private": self.allow_private}

    def __repr__(self) -> str:
        return WHERE


def posted(message: Message) -> bytes:
    """The request of a message. A text that is longer than Teams takes is cut at a line, or within its only one."""
    text = text_of(message)
    lines = text.words.split("\n")
    card = _request(message, lines, code=text.code)
    if len(card) <= LIMIT:
        return card
    fits, too_many = 0, len(lines)  # how many lines are known to fit, and how many are not
    while too_many - fits > 1:
        tried = (fits + too_many) // 2
        if len(_request(message, [*lines[:tried], CUT], code=text.code)) <= LIMIT:
            fits = tried
        else:
            too_many = tried
    if fits:
        return _request(message, [*lines[:fits], CUT], code=text.code)
    # A character takes up to 6 bytes in JSON, and the rest of the card a few hundred.
    return _request(message, [lines[0][: LIMIT // 8], CUT], code=text.code)


def _request(message: Message, lines: Sequence[str], *, code: bool) -> bytes:
    body = [_block(title_of(message, TITLE_LIMIT), weight="Bolder", size="Medium")] if message.subject else []
    body += [_line(line, code=code) for line in lines]
    if (repetition := repetition_of(message)) is not None:
        body.append(_block(repetition, isSubtle=True))
    content = {"$schema": SCHEMA, "type": "AdaptiveCard", "version": VERSION, "body": body}
    attachment = {"contentType": CARD, "contentUrl": None, "content": content}
    return to_json({"type": "message", "attachments": [attachment]})


def _line(line: str, *, code: bool) -> dict[str, Any]:
    # Spaces at the beginning of a line, which would be dropped, stay as spaces that do not break.
    bare = line.replace("\t", "    ").lstrip(" ")
    spaces = len(line.replace("\t", "    ")) - len(bare)
    font = {"fontType": "Monospace"} if code else {}
    return {**_block("\u00a0" * spaces + bare or "\u00a0", **font), "spacing": "None"}


def _block(text: str, **look: Any) -> dict[str, Any]:
    """A run of text, in which nothing is Markdown, unlike in a TextBlock; and a mention needs an entity, which no card here has."""
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **look}]}


def teams(
    url: Secret,
    *,
    on_doubt: OnDoubt = Channel.on_doubt,
    allow_private: bool = False,
    timeout: Duration = "30s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> Teams:
    """Cards in Microsoft Teams, by the URL of a workflow that starts when a Teams webhook request is received: `env("NAME")`, or a text.

    The workflow does not tell whether it got a message whose answer was lost: it is posted again and says so, or with `on_doubt="hold"` a
    person decides.
    """
    return Teams(
        url, on_doubt=on_doubt, allow_private=allow_private, timeout=timeout, attempts=attempts, backoff=backoff
    )
