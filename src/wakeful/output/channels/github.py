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
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic_core import to_json

from wakeful.clock import Duration, Microseconds, to_datetime
from wakeful.errors import ConfigError, NotSent, Persistent, RateLimited, Transient
from wakeful.failures import classify
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, resolve
from wakeful.output.channels.base import Channel, Message, Sent, Surroundings
from wakeful.output.channels.client import (
    Answer,
    Client,
    check_header_value,
    check_service,
    link_of,
    missing_secrets,
    read_secret,
    read_trying,
)
from wakeful.output.channels.text import cut, text_of, title_of
from wakeful.secrets import Env, Secret, reveal

GITHUB = "https://api.github.com"
VERSION = "2022-11-28"
BODY_LIMIT = 65_536  # characters
TITLE_LIMIT = 256
PAGE = 100
MOST_PAGES = 50  # of a list in which a message is looked for
PAGES_OF_THREADS = 5  # of the list of issues in which the one of a thread is looked for
THREADS_FOR = timedelta(days=30)  # a thread whose issue did not change for so long begins a new one
MOST_THREADS = 1_000  # whose issues are kept in mind
CLOCKS_DIFFER = timedelta(hours=1)
SECONDARY_WAIT = 60.0
LONGEST_WAIT = 3_600.0
_REPO = re.compile(r"[A-Za-z0-9_-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}").fullmatch
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="next"').search
# What GitHub would obey: a mention, a tag or comment of HTML, a character by its name (which may spell a mention). The same characters
# followed by a space of no width are only text.
_OBEYED = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])|<(?!https?://)(?=[A-Za-z/!?])|&(?=[#A-Za-z])")
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
        if not isinstance(repo, str) or not _REPO(repo):
            message = f'github({repo!r}): a repository is "owner/name"'
            raise ConfigError(message)
        self._where = f"github({repo})"
        if issue is not None and (not isinstance(issue, int) or isinstance(issue, bool) or issue < 1):
            message = f"{self._where}: issue must be the number of an issue or pull request, like 7"
            raise ConfigError(message)
        self.repo, self.issue, self.allow_private = repo, issue, allow_private
        self._api = check_service(base_url, self._where, allow_private=allow_private)
        self._token = read_secret(token, "token", self._where)
        trying, limit = read_trying(self._where, timeout, attempts, backoff)
        self.attempts, self.backoff = trying.attempts, trying.backoff
        self._client = Client(self._where, limit, allow_private=allow_private, resolve=resolve)
        self._threads: dict[str, int] = {}
        if not isinstance(self._token, Env):
            self._headers()

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report a missing token now, not with the first message."""
        self._headers()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        return [await self._write(message) for message in messages]

    async def _write(self, message: Message) -> Sent:
        thread = _thread_mark(message)
        number = self.issue or (await self._issue_before(thread, message) if thread else None)
        if number is not None:
            answer = await self._ask("POST", f"{self._issues}/{number}/comments", {"body": _comment(message)})
            return _sent(answer.json)
        answer = await self._ask("POST", self._issues, _issue(message, thread))
        if thread and (made := _number(answer.json)) is not None:
            self._remember(thread, made)
        return _sent(answer.json)

    async def find(self, message: Message) -> Sent | None:
        mark = _mark(message)
        since = _time(message.committed_at, CLOCKS_DIFFER)
        if self.issue is not None:
            return await self._comment_with(mark, self.issue, since)
        thread, numbers = _thread_mark(message), []
        async for issue in self._list(f"{self._issues}?state=all&sort=created&direction=asc&since={since}"):
            if _has(issue, mark):
                return _sent(issue)
            if thread and _has(issue, thread) and (number := _number(issue)) is not None:
                numbers.append(number)
        # A comment counts as a change of its issue, so this thread's issue is in the list if the message is one.
        for number in numbers:
            found = await self._comment_with(mark, number, since)
            if found is not None:
                return found
        return None

    async def _comment_with(self, mark: str, number: int, since: str) -> Sent | None:
        async for comment in self._list(f"{self._issues}/{number}/comments?since={since}"):
            if _has(comment, mark):
                return _sent(comment)
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
        async for issue in self._list(query, pages=PAGES_OF_THREADS, whole=False):
            if _has(issue, thread) and (number := _number(issue)) is not None:
                self._remember(thread, number)
                return number
        return None

    def _remember(self, thread: str, number: int) -> None:
        while len(self._threads) >= MOST_THREADS:
            del self._threads[next(iter(self._threads))]
        self._threads[thread] = number

    async def _list(
        self, path: str, *, pages: int | None = None, whole: bool = True
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The entries of a list, page by page. Raises if it is to be whole and is not."""
        url, pages = f"{path}&per_page={PAGE}", pages or MOST_PAGES
        for _ in range(pages):
            answer = await self._ask("GET", url)
            if not isinstance(answer.json, list):
                message = f"{self._where}: the answer is not a list, or did not arrive whole"
                raise Transient(message)
            for one in answer.json:
                if isinstance(one, dict):
                    yield one
            following = self._next(answer)
            if following is None:
                return
            url = following
        if whole:
            message = f"{self._where}: more than {pages * PAGE:,} entries changed since the message was sent: the list does not tell whether it arrived"
            raise Persistent(message)

    def _next(self, answer: Answer) -> str | None:
        found = _NEXT(answer.headers.get("link", ""))
        if found is None:
            return None
        if not found[1].startswith(self._api + "/"):  # the token goes nowhere else
            message = f"{self._where}: the next page of a list is at another place: declare the channel with base_url= of that place"
            raise Persistent(message)
        return found[1]

    @property
    def _issues(self) -> str:
        return f"{self._api}/repos/{self.repo}/issues"

    async def _ask(self, method: str, url: str, body: Any = None) -> Answer:
        import httpx2

        try:
            return await self._client.ask(method, url, self._headers(), body)
        except httpx2.HTTPStatusError as error:
            wait = _asked_to_wait(error.response.status_code, error.response.headers, str(error))
            if wait is None:
                raise
            raise RateLimited(str(error), retry_after=wait) from error

    def _headers(self) -> dict[str, str]:
        token = reveal(self._token, needed_by=f"{self._where}, token")
        authorization = f"Bearer {token}"
        check_header_value("authorization", authorization, self._where)
        return {
            "authorization": authorization,
            "accept": "application/vnd.github+json",
            "x-github-api-version": VERSION,
        }

    def missing(self) -> list[str]:
        return missing_secrets([(self._token, "token")], self._where)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "github",
            "url": self._api,
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
    return {"title": _only_text(title_of(message, TITLE_LIMIT))[:TITLE_LIMIT], "body": _body(message, "", thread)}


def _comment(message: Message) -> str:
    subject = " ".join((message.subject or "").split())[:TITLE_LIMIT]
    shown = _PUNCTUATION.sub(r"\\\1", _only_text(subject))
    return _body(message, f"**{shown}**\n\n" if subject else "", None)


def _body(message: Message, head: str, thread: str | None) -> str:
    text = text_of(message)
    end = "".join(f"\n{mark}" for mark in (thread, _mark(message)) if mark)
    room = BODY_LIMIT - len(head) - len(end) - len("```json\n\n```\n")
    words = f"```json\n{cut(text.words, room)}\n```" if text.code else cut(_only_text(text.words), room)
    return f"{head}{words}\n{end}"


def _only_text(words: str) -> str:
    return _OBEYED.sub("\\g<0>\u200b", words)


def _mark(message: Message) -> str:
    return f"<!-- wakeful:{message.id} -->"


def _thread_mark(message: Message) -> str | None:
    if message.thread is None:
        return None
    named = to_json([message.app, message.channel, message.thread])
    return f"<!-- wakeful-thread:{hashlib.sha256(named).hexdigest()[:32]} -->"


def _has(entry: Mapping[str, Any], mark: str) -> bool:
    """Whether the body of an issue or comment has a mark on a line of its own, where only we write it."""
    body = entry.get("body")
    return isinstance(body, str) and any(line.strip() == mark for line in body.split("\n"))


def _sent(entry: Any) -> Sent:
    if not isinstance(entry, dict):
        return Sent()
    identifier = entry.get("number", entry.get("id"))
    return Sent(str(identifier) if isinstance(identifier, int) else None, link_of(entry.get("html_url")))


def _number(entry: Any) -> int | None:
    number = entry.get("number") if isinstance(entry, dict) else None
    return number if isinstance(number, int) else None


def _time(at: Microseconds, before: timedelta) -> str:
    return (to_datetime(at) - before).strftime("%Y-%m-%dT%H:%M:%SZ")


def _asked_to_wait(status: int, headers: Mapping[str, str], words: str) -> float | None:
    """Seconds to wait, if the answer says that there were too many requests. A 403 may also be a missing permission; its headers tell."""
    if status not in {403, 429}:
        return None
    after = headers.get("retry-after", "")
    if after.isdecimal():
        return min(float(after[:9]), LONGEST_WAIT)
    reset = headers.get("x-ratelimit-reset", "")
    if reset.isdecimal() and headers.get("x-ratelimit-remaining", "0") == "0":
        now = time.time()
        with suppress(ValueError):  # by the clock of the other side, if it says the time
            now = parsedate_to_datetime(headers.get("date", "")).timestamp()
        return min(max(1.0, float(reset[:12]) - now + 1), LONGEST_WAIT)
    return SECONDARY_WAIT if status == 429 or "secondary rate limit" in words.lower() else None
