"""`desk = jira("https://acme.atlassian.net", "bot@acme.com", env("JIRA_TOKEN"))`, then `await run.act(desk.create, "OPS", "Late", "…")`.

An issue is found by its label, a comment by its last line. An issue that is assigned to the same person twice is assigned once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypedDict

from wakeful.clock import Duration, duration
from wakeful.errors import ConfigError, Persistent, Transient
from wakeful.execution.actions import Action, Operation, Risk, action
from wakeful.output.channels.jira_api import (
    DESCRIPTION_LIMIT,
    JiraApi,
    document,
    is_key,
    is_project,
    label_of,
    summary_of,
)
from wakeful.output.channels.text import Text, visible
from wakeful.secrets import Secret

REQUEST = "20s"
CALL = "2m"  # a call, or the pages of a list
PAGE = 100
MOST_PAGES = 50
ROOM_FOR_LINE = 400  # of a comment, for its last line


class Issue(TypedDict):
    """An issue that was made: its key, like OPS-7, and where people find it."""

    key: str | None
    url: str | None


class Comment(TypedDict):
    """A comment that was written."""

    id: str | None


class JiraActions:
    """Actions with one account. They are named `jira.create`, `jira.comment` and `jira.assign`."""

    def __init__(
        self,
        url: str,
        user: Secret,
        token: Secret,
        *,
        issue_type: str,
        settle: Duration,
        allow_private: bool,
        name: str,
        risk: Risk,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            message = "jira(…): name must be a text: the actions are named after it"
            raise ConfigError(message)
        self._url, self._user, self._token, self._allow_private = url, user, token, allow_private
        self._issue_type, self._name = issue_type, name
        self._api()
        self.create: Action[[str, str, str], Issue] = action(
            name=f"{name}.create", safety="reconcile", find=self._find_issue, settle=settle, risk=risk, timeout=CALL
        )(self._create)
        self.comment: Action[[str, str], Comment] = action(
            name=f"{name}.comment", safety="reconcile", find=self._find_comment, risk=risk, timeout=CALL
        )(self._comment)
        self.assign: Action[[str, str | None], None] = action(
            name=f"{name}.assign", safety="idempotent", risk=risk, timeout=CALL
        )(self._assign)

    async def _create(self, operation: Operation, project: str, summary: str, text: str) -> Issue:
        _refuse(self._name, project, is_project(project), 'the key of a project, like "OPS"')
        fields = {
            "project": {"key": project},
            "issuetype": {"name": self._issue_type},
            "summary": summary_of(" ".join(visible(summary).split())),
            "description": document(Text(visible(text))),
            "labels": [label_of(operation.id)],
        }
        async with self._connected() as api:
            made = api.sent_of((await api.ask("POST", "issue", {"fields": fields})).json)
        return {"key": made.id, "url": made.url}

    async def _find_issue(self, operation: Operation, project: str, *_rest: str, **_named: str) -> Issue | None:
        async with self._connected() as api:
            found = await api.labelled(project, label_of(operation.id))
        return None if found is None else {"key": found.id, "url": found.url}

    async def _comment(self, operation: Operation, issue: str, text: str) -> Comment:
        _refuse(self._name, issue, is_key(issue), 'the key of an issue, like "OPS-7"')
        body = document(Text(visible(text)), DESCRIPTION_LIMIT - ROOM_FOR_LINE)
        line = {"type": "text", "text": label_of(operation.id)}
        body["content"].append({"type": "paragraph", "content": [line]})
        async with self._connected() as api:
            return _comment_of((await api.ask("POST", f"issue/{issue}/comment", {"body": body})).json)

    async def _find_comment(self, operation: Operation, issue: str, *_rest: str, **_named: str) -> Comment | None:
        wanted, seen = label_of(operation.id), 0
        async with self._connected() as api:
            for _ in range(MOST_PAGES):
                page = (await api.ask("GET", f"issue/{issue}/comment?startAt={seen}&maxResults={PAGE}")).json
                comments = page.get("comments") if isinstance(page, dict) else None
                if not isinstance(comments, list) or not isinstance(page.get("total"), int):
                    message = f"{self._name}: the answer has no comments, or did not arrive whole"
                    raise Transient(message)
                for comment in comments:
                    if _last_line(comment) == wanted:
                        return _comment_of(comment)
                seen += len(comments)
                if not comments or seen >= page["total"]:
                    return None
        message = f"{self._name}: {issue} has more than {MOST_PAGES * PAGE:,} comments: the list does not tell"
        raise Persistent(message)

    async def _assign(self, _operation: Operation, issue: str, account: str | None) -> None:
        """To nobody: None."""
        _refuse(self._name, issue, is_key(issue), 'the key of an issue, like "OPS-7"')
        async with self._connected() as api:
            await api.ask("PUT", f"issue/{issue}/assignee", {"accountId": account})

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[JiraApi]:
        api = self._api()
        try:
            yield api
        finally:
            await api.close()

    def _api(self) -> JiraApi:
        return JiraApi(
            self._name, self._url, self._user, self._token, duration(REQUEST), allow_private=self._allow_private
        )


def jira(
    url: str,
    user: Secret,
    token: Secret,
    *,
    issue_type: str = "Task",
    settle: Duration = "1m",
    allow_private: bool = False,
    name: str = "jira",
    risk: Risk = "low",
) -> JiraActions:
    """Actions on issues: `create(project, summary, text)`, `comment(issue, text)`, `assign(issue, account)`.

    An app with several accounts gives each a `name`, which the names of its actions begin with. `settle`: how long the search index
    may lag.
    """
    return JiraActions(
        url, user, token, issue_type=issue_type, settle=settle, allow_private=allow_private, name=name, risk=risk
    )


def _refuse(name: str, given: str, fits: bool, what: str) -> None:
    """Arguments may come from a model: they name nothing else in a path or a search."""
    if not fits:
        message = f"{name}: {given!r} is not {what}"
        raise Persistent(message)


def _comment_of(answer: Any) -> Comment:
    found = answer.get("id") if isinstance(answer, Mapping) else None
    return {"id": found if isinstance(found, str) else None}


def _last_line(comment: Any) -> str | None:
    try:
        words = comment["body"]["content"][-1]["content"][-1]["text"]
    except (KeyError, IndexError, TypeError):
        return None
    return words if isinstance(words, str) else None
