"""Jira Cloud's REST API for issues, as the channel and the actions use it: requests, the search by label, and texts.

Jira knows no id of ours, so each issue has a label, `wakeful-ID`. The index that is searched lags behind.
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlencode

from pydantic_core import to_json

from wakeful.clock import Microseconds
from wakeful.errors import ConfigError, Persistent, Transient
from wakeful.output.channels.addresses import Resolve, resolve
from wakeful.output.channels.base import Sent
from wakeful.output.channels.client import (
    Answer,
    Client,
    check_header_value,
    check_service,
    link_of,
    missing_secrets,
    read_secret,
)
from wakeful.output.channels.text import Text, cut
from wakeful.redaction import KNOWN
from wakeful.secrets import Env, Secret, reveal

SUMMARY_LIMIT = 255  # in UTF-16, like the next one: an emoji counts as two
DESCRIPTION_LIMIT = 32_767
MOST_PAGES = 10  # of a search; one is expected
_PROJECT = re.compile(r"[A-Z][A-Z0-9_]{1,99}").fullmatch
_KEY = re.compile(r"[A-Z][A-Z0-9_]{1,99}-[0-9]{1,18}").fullmatch


class JiraApi:
    """The issues of one site, with one account."""

    def __init__(
        self,
        where: str,
        url: str,
        user: Secret,
        token: Secret,
        limit: Microseconds,
        *,
        allow_private: bool,
        resolve: Resolve = resolve,
    ) -> None:
        self._where = where
        self.site = check_service(url, where, allow_private=allow_private)
        self._user = _read_user(user, where)
        self._token = read_secret(token, "token", where)
        self._client = Client(where, limit, allow_private=allow_private, resolve=resolve)
        if not isinstance(self._token, Env) and not isinstance(self._user, Env):
            self._headers()

    def open(self) -> None:
        """Report a missing token now, not with the first request."""
        self._headers()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return await self._client.ask(method, f"{self.site}/rest/api/3/{path}", self._headers(), body)

    async def labelled(self, project: str, label: str) -> Sent | None:
        """The oldest issue of a project with a label."""
        asked = {
            "jql": f'project = "{project}" AND labels = "{label}" ORDER BY created ASC',
            "fields": "labels",
            "maxResults": "50",
        }
        for _ in range(MOST_PAGES):
            page = (await self.ask("GET", f"search/jql?{urlencode(asked)}")).json
            issues = page.get("issues") if isinstance(page, dict) else None
            if not isinstance(issues, list):
                message = f"{self._where}: the answer to a search has no issues, or did not arrive whole"
                raise Transient(message)
            for issue in issues:
                if _has(issue, label):
                    return self.sent_of(issue)
            token = page.get("nextPageToken")
            if not isinstance(token, str):
                return None
            asked["nextPageToken"] = token
        message = f"{self._where}: the search for {label} does not end: it does not tell whether the message arrived"
        raise Persistent(message)

    def sent_of(self, issue: Any) -> Sent:
        key = issue.get("key") if isinstance(issue, dict) else None
        if not is_key(key):
            return Sent()
        return Sent(key, link_of(f"{self.site}/browse/{key}"))

    def _headers(self) -> dict[str, str]:
        user = reveal(self._user, needed_by=f"{self._where}, user")
        token = reveal(self._token, needed_by=f"{self._where}, token")
        both = f"{user}:{token}"
        check_header_value("authorization", both, self._where)
        encoded = base64.b64encode(both.encode()).decode()
        KNOWN.learn("secret", encoded)
        return {"authorization": f"Basic {encoded}", "accept": "application/json"}

    def missing(self) -> list[str]:
        return missing_secrets([(self._user, "user"), (self._token, "token")], self._where)


def is_project(project: Any) -> bool:
    return isinstance(project, str) and _PROJECT(project) is not None


def is_key(key: Any) -> bool:
    """Whether this names an issue, and nothing else in a path."""
    return isinstance(key, str) and _KEY(key) is not None


def label_of(identifier: str) -> str:
    return f"wakeful-{identifier}"


def _read_user(user: Any, where: str) -> Secret:
    """The account that a token belongs to: an address, no secret."""
    if isinstance(user, Env):
        return user
    if not isinstance(user, str) or not user or ":" in user:
        message = f'{where}: user must be the address of the account that the token belongs to, or env("NAME")'
        raise ConfigError(message)
    return user


def document(text: Text, limit: int = DESCRIPTION_LIMIT) -> dict[str, Any]:
    """A text in the Atlassian Document Format, which as a whole is not longer than Jira takes."""
    room = limit
    while True:
        made = _document(Text(cut(text.words, room), text.code))
        if _length(to_json(made).decode()) <= limit:
            return made
        room = room * 3 // 4


def summary_of(line: str) -> str:
    """A title that is not longer than Jira takes."""
    room = SUMMARY_LIMIT
    while _length(line) > SUMMARY_LIMIT:
        line = line[: room - 1] + "…"
        room -= (_length(line) - SUMMARY_LIMIT + 1) // 2
    return line


def _length(words: str) -> int:
    return len(words.encode("utf-16-le")) // 2


def _document(text: Text) -> dict[str, Any]:
    if text.code:
        content = [{"type": "codeBlock", "attrs": {"language": "json"}, "content": [_words(text.words)]}]
    else:
        content = [
            {"type": "paragraph", "content": _lines(part)} for part in re.split(r"\n{2,}", text.words) if part.strip()
        ]
    return {"type": "doc", "version": 1, "content": content or [{"type": "paragraph", "content": []}]}


def _lines(part: str) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for line in part.strip("\n").split("\n"):
        if nodes:
            nodes.append({"type": "hardBreak"})
        if line:  # an empty text is no node
            nodes.append(_words(line))
    return nodes


def _words(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _has(issue: Any, label: str) -> bool:
    fields = issue.get("fields") if isinstance(issue, dict) else None
    labels = fields.get("labels") if isinstance(fields, dict) else None
    return isinstance(labels, list) and label in labels
