"""`jira("https://acme.atlassian.net", "OPS", "bot@acme.com", env("JIRA_TOKEN"))`: each message is a new issue of a project.

Jira knows no id of ours, so each issue has a label, `wakeful-ID`, and a message in doubt is looked for by it. The index that is searched
lags behind, so that is done a minute after the call. A search that fails for good does not tell: the message waits for a person
(`on_doubt="hold"`).

Texts are in the Atlassian Document Format, in which nothing of a text is markup.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from pydantic_core import PydanticSerializationError, to_json

from wakeful.clock import Duration
from wakeful.errors import ConfigError, Persistent, Transient
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, resolve
from wakeful.output.channels.base import Channel, Message, Sent, Surroundings
from wakeful.output.channels.client import (
    Client,
    check_header_value,
    check_service,
    link_of,
    missing_secrets,
    read_secret,
    read_trying,
)
from wakeful.output.channels.text import Text, cut, text_of, title_of
from wakeful.redaction import KNOWN
from wakeful.secrets import Env, Secret, reveal

SUMMARY_LIMIT = 255  # in UTF-16, like the next one: an emoji counts as two
DESCRIPTION_LIMIT = 32_767
MOST_PAGES = 10  # of a search; one is expected
OURS = frozenset({"project", "issuetype", "summary", "description"})
_PROJECT = re.compile(r"[A-Z][A-Z0-9_]{1,99}").fullmatch
_KEY = re.compile(r"[A-Z][A-Z0-9_]{1,99}-[0-9]{1,18}").fullmatch


class Jira(Channel):
    """Opens issues in one project."""

    repeats = "find"
    on_doubt = "hold"

    def __init__(
        self,
        url: str,
        project: str,
        user: Secret,
        token: Secret,
        *,
        issue_type: str = "Task",
        fields: Mapping[str, Any] | None = None,
        settle: Duration = "1m",
        allow_private: bool = False,
        timeout: Duration = "20s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        if not isinstance(project, str) or not _PROJECT(project):
            message = f'jira(…): {project!r} is not the key of a project, like "OPS"'
            raise ConfigError(message)
        self._where = f"jira({project})"
        if not isinstance(issue_type, str) or not issue_type.strip():
            message = f'{self._where}: issue_type must be the name of a type of issues, like "Task"'
            raise ConfigError(message)
        self.project, self.issue_type, self.allow_private, self.settle = project, issue_type, allow_private, settle
        self._site = check_service(url, self._where, allow_private=allow_private)
        self._user = read_user(user, self._where)
        self._token = read_secret(token, "token", self._where)
        self._fields = _read_fields({} if fields is None else fields, self._where)
        trying, limit = read_trying(self._where, timeout, attempts, backoff)
        self.attempts, self.backoff = trying.attempts, trying.backoff
        self._client = Client(self._where, limit, allow_private=allow_private, resolve=resolve)
        if not isinstance(self._token, Env) and not isinstance(self._user, Env):
            self._headers()

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report a missing token now, not with the first message."""
        self._headers()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        return [await self._create(message) for message in messages]

    async def _create(self, message: Message) -> Sent:
        labels = [*self._fields.get("labels", ()), _label(message)]
        fields = {
            **self._fields,
            "project": {"key": self.project},
            "issuetype": {"name": self.issue_type},
            "summary": _summary(message),
            "description": document(text_of(message)),
            "labels": labels,
        }
        answer = await self._client.ask("POST", f"{self._site}/rest/api/3/issue", self._headers(), {"fields": fields})
        return self._sent(answer.json)

    async def find(self, message: Message) -> Sent | None:
        label = _label(message)
        asked = {
            "jql": f'project = "{self.project}" AND labels = "{label}" ORDER BY created ASC',
            "fields": "labels",
            "maxResults": "50",
        }
        for _ in range(MOST_PAGES):
            url = f"{self._site}/rest/api/3/search/jql?{urlencode(asked)}"
            page = (await self._client.ask("GET", url, self._headers())).json
            issues = page.get("issues") if isinstance(page, dict) else None
            if not isinstance(issues, list):
                problem = f"{self._where}: the answer to a search has no issues, or did not arrive whole"
                raise Transient(problem)
            for issue in issues:
                if _has(issue, label):
                    return self._sent(issue)
            token = page.get("nextPageToken")
            if not isinstance(token, str):
                return None
            asked["nextPageToken"] = token
        problem = f"{self._where}: the search for {label} does not end: it does not tell whether the message arrived"
        raise Persistent(problem)

    def _sent(self, issue: Any) -> Sent:
        key = issue.get("key") if isinstance(issue, dict) else None
        if not isinstance(key, str) or not _KEY(key):
            return Sent()
        return Sent(key, link_of(f"{self._site}/browse/{key}"))

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

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "jira",
            "url": self._site,
            "project": self.project,
            "issue_type": self.issue_type,
            "fields": sorted(self._fields),
            "allow_private": self.allow_private,
        }

    def __repr__(self) -> str:
        return f'jira("{self._site}", "{self.project}")'


def jira(
    url: str,
    project: str,
    user: Secret,
    token: Secret,
    *,
    issue_type: str = "Task",
    fields: Mapping[str, Any] | None = None,
    settle: Duration = "1m",
    allow_private: bool = False,
    timeout: Duration = "20s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> Jira:
    """A new issue for each message. `user` is the account's address, `token` its API token; it needs the permissions to browse the
    project and to create issues. `fields` are further fields of each issue, by their names in the API. `settle`: how long the search
    index may lag.
    """
    return Jira(
        url,
        project,
        user,
        token,
        issue_type=issue_type,
        fields=fields,
        settle=settle,
        allow_private=allow_private,
        timeout=timeout,
        attempts=attempts,
        backoff=backoff,
    )


def read_user(user: Any, where: str) -> Secret:
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


def _summary(message: Message) -> str:
    room = SUMMARY_LIMIT
    while _length(line := title_of(message, room)) > SUMMARY_LIMIT:
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


def _label(message: Message) -> str:
    return f"wakeful-{message.id}"


def _has(issue: Any, label: str) -> bool:
    fields = issue.get("fields") if isinstance(issue, dict) else None
    labels = fields.get("labels") if isinstance(fields, dict) else None
    return isinstance(labels, list) and label in labels


def _read_fields(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        message = f"{where}: fields must be an object of JSON, by the names of fields in the API"
        raise ConfigError(message)
    if ours := sorted(OURS & set(given)):
        message = f"{where}: fields: {', '.join(ours)} is set by the channel itself: leave it out"
        raise ConfigError(message)
    labels = given.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(one, str) and one and " " not in one for one in labels):
        message = f"{where}: fields: labels must be a list of texts without spaces"
        raise ConfigError(message)
    try:
        to_json(given)
    except PydanticSerializationError as error:
        message = f"{where}: fields: {error}"
        raise ConfigError(message) from None
    return dict(given)
