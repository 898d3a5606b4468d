"""`github("octo/desk", token=env("GITHUB_TOKEN"), issue=7)`: each message is a comment on an issue or pull request.

Without `issue`, each message is a new issue; further messages of a thread are comments on the issue of its first one.

GitHub knows no id of ours, so each text ends with a hidden mark, and a message in doubt is looked for in the lists of issues and comments,
which are those that changed since the message was committed:

    …the text
    <!-- wakeful-thread:… -->     only in the issue that a thread began
    <!-- wakeful:ID -->

A list that cannot be read to its end does not tell: the message waits for a person (`on_doubt="hold"`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic_core import to_json

from wakeful.clock import Duration, Microseconds, to_datetime
from wakeful.errors import ConfigError, NotSent
from wakeful.failures import classify
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, resolve
from wakeful.output.channels.base import Channel, Message, Sent, Surroundings
from wakeful.output.channels.client import read_trying
from wakeful.output.channels.github_api import (
    GITHUB,
    TITLE_LIMIT,
    GitHubApi,
    body_of,
    has,
    is_repo,
    mark_of,
    number_of,
    only_text,
    sent_of,
)
from wakeful.output.channels.text import text_of, title_of
from wakeful.secrets import Secret

PAGES_OF_THREADS = 5  # of the list of issues in which the one of a thread is looked for
THREADS_FOR = timedelta(days=30)  # a thread whose issue did not change for so long begins a new one
MOST_THREADS = 1_000  # whose issues are kept in mind
CLOCKS_DIFFER = timedelta(hours=1)
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>])")


class GitHub(Channel):
    """Writes comments, or opens issues, in one repository."""

    repeats = "find"
    on_doubt = "hold"
    timeout = "2m"  # for a message: a few requests, or the pages of a list

    def __init__(
        self,
        repo: str,
        token: Secret,
        issue: int | None = None,
        *,
        base_url: str = GITHUB,
        allow_private: bool = False,
        timeout: Duration = "20s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        if not is_repo(repo):
            message = f'github({repo!r}): a repository is "owner/name"'
            raise ConfigError(message)
        self._where = f"github({repo})"
        if issue is not None and (not isinstance(issue, int) or isinstance(issue, bool) or issue < 1):
            message = f"{self._where}: issue must be the number of an issue or pull request, like 7"
            raise ConfigError(message)
        self.repo, self.issue, self.allow_private = repo, issue, allow_private
        trying, limit = read_trying(self._where, timeout, attempts, backoff)
        self.attempts, self.backoff = trying.attempts, trying.backoff
        self._api = GitHubApi(self._where, token, base_url, limit, allow_private=allow_private, resolve=resolve)
        self._issues = self._api.issues(repo)
        self._threads: dict[str, int] = {}

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report a missing token now, not with the first message."""
        self._api.open()

    async def close(self) -> None:
        await self._api.close()

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        return [await self._write(message) for message in messages]

    async def _write(self, message: Message) -> Sent:
        thread = _thread_mark(message)
        number = self.issue or (await self._issue_before(thread, message) if thread else None)
        if number is not None:
            answer = await self._api.ask("POST", f"{self._issues}/{number}/comments", {"body": _comment(message)})
            return sent_of(answer.json)
        answer = await self._api.ask("POST", self._issues, _issue(message, thread))
        if thread and (made := number_of(answer.json)) is not None:
            self._remember(thread, made)
        return sent_of(answer.json)

    async def find(self, message: Message) -> Sent | None:
        mark = mark_of(message.id)
        since = _time(message.committed_at, CLOCKS_DIFFER)
        if self.issue is not None:
            return await self._comment_with(mark, self.issue, since)
        thread, numbers = _thread_mark(message), []
        async for issue in self._api.entries(f"{self._issues}?state=all&sort=created&direction=asc&since={since}"):
            if has(issue, mark):
                return sent_of(issue)
            if thread and has(issue, thread) and (number := number_of(issue)) is not None:
                numbers.append(number)
        # A comment counts as a change of its issue, so this thread's issue is in the list if the message is one.
        for number in numbers:
            found = await self._comment_with(mark, number, since)
            if found is not None:
                return found
        return None

    async def _comment_with(self, mark: str, number: int, since: str) -> Sent | None:
        async for comment in self._api.entries(f"{self._issues}/{number}/comments?since={since}"):
            if has(comment, mark):
                return sent_of(comment)
        return None

    async def _issue_before(self, thread: str, message: Message) -> int | None:
        try:
            return await self._issue_of(thread, message)
        except Exception as error:
            if classify(error).failure != "transient":
                raise
            raise NotSent(f"the issue of its thread was not found yet: {error}") from error

    async def _issue_of(self, thread: str, message: Message) -> int | None:
        """The issue that an earlier message of a thread made. None: this message makes it."""
        if thread in self._threads:
            return self._threads[thread]
        since = _time(message.committed_at, THREADS_FOR)
        query = f"{self._issues}?state=all&sort=created&direction=desc&since={since}"
        async for issue in self._api.entries(query, pages=PAGES_OF_THREADS, whole=False):
            if has(issue, thread) and (number := number_of(issue)) is not None:
                self._remember(thread, number)
                return number
        return None

    def _remember(self, thread: str, number: int) -> None:
        while len(self._threads) >= MOST_THREADS:
            del self._threads[next(iter(self._threads))]
        self._threads[thread] = number

    def missing(self) -> list[str]:
        return self._api.missing()

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "github",
            "url": self._api.url,
            "repo": self.repo,
            "issue": self.issue,
            "allow_private": self.allow_private,
        }

    def __repr__(self) -> str:
        return f'github("{self.repo}")'


def github(
    repo: str,
    token: Secret,
    issue: int | None = None,
    *,
    base_url: str = GITHUB,
    allow_private: bool = False,
    timeout: Duration = "20s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> GitHub:
    """A comment on an issue or pull request for each message; without `issue`, a new issue for each message or thread.

    The token needs the permission to write issues. `base_url` is the API of a GitHub Enterprise Server: `https://HOST/api/v3`.
    """
    return GitHub(
        repo,
        token,
        issue,
        base_url=base_url,
        allow_private=allow_private,
        timeout=timeout,
        attempts=attempts,
        backoff=backoff,
    )


def _issue(message: Message, thread: str | None) -> dict[str, str]:
    return {
        "title": only_text(title_of(message, TITLE_LIMIT))[:TITLE_LIMIT],
        "body": body_of(text_of(message), "", *([thread] if thread else []), mark_of(message.id)),
    }


def _comment(message: Message) -> str:
    subject = " ".join((message.subject or "").split())[:TITLE_LIMIT]
    shown = _PUNCTUATION.sub(r"\\\1", only_text(subject))
    return body_of(text_of(message), f"**{shown}**\n\n" if subject else "", mark_of(message.id))


def _thread_mark(message: Message) -> str | None:
    if message.thread is None:
        return None
    named = to_json([message.app, message.channel, message.thread])
    return f"<!-- wakeful-thread:{hashlib.sha256(named).hexdigest()[:32]} -->"


def _time(at: Microseconds, before: timedelta) -> str:
    return (to_datetime(at) - before).strftime("%Y-%m-%dT%H:%M:%SZ")
