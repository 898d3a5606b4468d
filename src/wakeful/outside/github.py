"""`hub = github(env("GITHUB_TOKEN"))`, then `await run.act(hub.comment, "octo/desk", 7, "Done.")`.

Issues and comments are found by the hidden mark that each of our texts has; a label that is added twice is there once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from wakeful.clock import duration
from wakeful.errors import ConfigError, Persistent
from wakeful.execution.actions import Action, Operation, Risk, action
from wakeful.output.channels.base import Sent
from wakeful.output.channels.github_api import (
    GITHUB,
    TITLE_LIMIT,
    GitHubApi,
    body_of,
    has,
    is_repo,
    mark_of,
    only_text,
    sent_of,
)
from wakeful.output.channels.text import Text, visible
from wakeful.secrets import Secret

FOUND_FOR = timedelta(days=90)  # how far back an issue is looked for
REQUEST = "20s"
CALL = "2m"  # a call, or the pages of a list


class Written(TypedDict):
    """What an action wrote: the number of an issue or the id of a comment, and where people find it."""

    id: str | None
    url: str | None


class GitHubActions:
    """Actions with one token. They are named `github.create_issue`, `github.comment` and `github.label`."""

    def __init__(self, token: Secret, *, base_url: str, allow_private: bool, name: str, risk: Risk) -> None:
        if not isinstance(name, str) or not name.strip():
            message = "github(…): name must be a text: the actions are named after it"
            raise ConfigError(message)
        self._token, self._base_url, self._allow_private, self._name = token, base_url, allow_private, name
        self._api()
        self.create_issue: Action[[str, str, str], Written] = action(
            name=f"{name}.create_issue", safety="reconcile", find=self._find_issue, risk=risk, timeout=CALL
        )(self._create_issue)
        self.comment: Action[[str, int, str], Written] = action(
            name=f"{name}.comment", safety="reconcile", find=self._find_comment, risk=risk, timeout=CALL
        )(self._comment)
        self.label: Action[[str, int, list[str]], None] = action(
            name=f"{name}.label", safety="idempotent", idempotent_for="90d", risk=risk, timeout=CALL
        )(self._label)

    async def _create_issue(self, operation: Operation, repo: str, title: str, text: str) -> Written:
        async with self._connected(repo) as (api, issues):
            line = only_text(" ".join(visible(title).split()))[:TITLE_LIMIT]
            body = {"title": line, "body": body_of(Text(visible(text)), "", mark_of(operation.id))}
            return _written(sent_of((await api.ask("POST", issues, body)).json))

    async def _find_issue(self, operation: Operation, repo: str, *_rest: str, **_named: str) -> Written | None:
        since = (datetime.fromtimestamp(time.time(), UTC) - FOUND_FOR).strftime("%Y-%m-%dT%H:%M:%SZ")
        async with self._connected(repo) as (api, issues):
            return await _marked(
                api, f"{issues}?state=all&sort=created&direction=desc&since={since}", mark_of(operation.id)
            )

    async def _comment(self, operation: Operation, repo: str, issue: int, text: str) -> Written:
        async with self._connected(repo, issue) as (api, place):
            body = {"body": body_of(Text(visible(text)), "", mark_of(operation.id))}
            return _written(sent_of((await api.ask("POST", f"{place}/comments", body)).json))

    async def _find_comment(
        self, operation: Operation, repo: str, issue: int, *_rest: str, **_named: str
    ) -> Written | None:
        async with self._connected(repo, issue) as (api, place):
            return await _marked(api, f"{place}/comments?page=1", mark_of(operation.id))

    async def _label(self, _operation: Operation, repo: str, issue: int, labels: list[str]) -> None:
        async with self._connected(repo, issue) as (api, place):
            await api.ask("POST", f"{place}/labels", {"labels": labels})

    @asynccontextmanager
    async def _connected(self, repo: str, issue: int | None = None) -> AsyncIterator[tuple[GitHubApi, str]]:
        """The API, and the path of a repository's issues or of one of them. Arguments may come from a model: they name nothing else."""
        if not is_repo(repo) or (issue is not None and issue < 1):
            message = f'{self._name}: {repo!r} and {issue!r} are not a repository, like "owner/name", and the number of an issue in it'
            raise Persistent(message)
        api = self._api()
        try:
            yield api, api.issues(repo) if issue is None else f"{api.issues(repo)}/{issue}"
        finally:
            await api.close()

    def _api(self) -> GitHubApi:
        return GitHubApi(self._name, self._token, self._base_url, duration(REQUEST), allow_private=self._allow_private)


def github(
    token: Secret, *, base_url: str = GITHUB, allow_private: bool = False, name: str = "github", risk: Risk = "low"
) -> GitHubActions:
    """Actions on issues and pull requests: `create_issue(repo, title, text)`, `comment(repo, issue, text)`, `label(repo, issue, labels)`.

    An app with several tokens gives each a `name`, which the names of its actions begin with.
    """
    return GitHubActions(token, base_url=base_url, allow_private=allow_private, name=name, risk=risk)


async def _marked(api: GitHubApi, path: str, mark: str) -> Written | None:
    async for entry in api.entries(path):
        if has(entry, mark):
            return _written(sent_of(entry))
    return None


def _written(sent: Sent) -> Written:
    return {"id": sent.id, "url": sent.url}
