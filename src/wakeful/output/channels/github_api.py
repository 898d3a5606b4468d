"""GitHub's REST API for issues, as the channel and the actions use it: requests, lists, rate limits, and the marks of our texts.

GitHub knows no id of ours, so each text ends with a hidden mark on a line of its own: `<!-- wakeful:ID -->`.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from wakeful.clock import Microseconds
from wakeful.errors import Persistent, RateLimited, Transient
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
from wakeful.secrets import Env, Secret, reveal

GITHUB = "https://api.github.com"
VERSION = "2022-11-28"
BODY_LIMIT = 65_536  # characters
TITLE_LIMIT = 256
PAGE = 100
MOST_PAGES = 50  # of a list in which a text is looked for
SECONDARY_WAIT = 60.0
LONGEST_WAIT = 3_600.0
_REPO = re.compile(r"[A-Za-z0-9_-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}").fullmatch
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="next"').search
# What GitHub would obey: a mention, a tag or comment of HTML, a character by its name (which may spell a mention). The same characters
# followed by a space of no width are only text.
_OBEYED = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])|<(?!https?://)(?=[A-Za-z/!?])|&(?=[#A-Za-z])")


class GitHubApi:
    """The issues of one server, with one token."""

    def __init__(
        self,
        where: str,
        token: Secret,
        base_url: str,
        limit: Microseconds,
        *,
        allow_private: bool,
        resolve: Resolve = resolve,
    ) -> None:
        self._where = where
        self.url = check_service(base_url, where, allow_private=allow_private)
        self._token = read_secret(token, "token", where)
        self._client = Client(where, limit, allow_private=allow_private, resolve=resolve)
        if not isinstance(self._token, Env):
            self._headers()

    def open(self) -> None:
        """Report a missing token now, not with the first request."""
        self._headers()
        self._client.ready()

    async def close(self) -> None:
        await self._client.close()

    def issues(self, repo: str) -> str:
        return f"{self.url}/repos/{repo}/issues"

    async def entries(
        self, path: str, *, pages: int | None = None, whole: bool = True
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The entries of a list, page by page. Raises if it is to be whole and is not."""
        url, pages = f"{path}&per_page={PAGE}", pages or MOST_PAGES
        for _ in range(pages):
            answer = await self.ask("GET", url)
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
        if not found[1].startswith(self.url + "/"):  # the token goes nowhere else
            message = f"{self._where}: the next page of a list is at another place: declare the channel with base_url= of that place"
            raise Persistent(message)
        return found[1]

    async def ask(self, method: str, url: str, body: Any = None) -> Answer:
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


def is_repo(repo: Any) -> bool:
    """Whether this names a repository, and nothing else in a path."""
    return isinstance(repo, str) and _REPO(repo) is not None


def body_of(text: Text, head: str, *marks: str) -> str:
    """The body of an issue or comment: not longer than GitHub takes, with its marks at the end."""
    end = "".join(f"\n{mark}" for mark in marks)
    room = BODY_LIMIT - len(head) - len(end) - len("```json\n\n```\n")
    words = f"```json\n{cut(text.words, room)}\n```" if text.code else cut(only_text(text.words), room)
    return f"{head}{words}\n{end}"


def only_text(words: str) -> str:
    return _OBEYED.sub("\\g<0>\u200b", words)


def mark_of(identifier: str) -> str:
    return f"<!-- wakeful:{identifier} -->"


def has(entry: Mapping[str, Any], mark: str) -> bool:
    """Whether the body of an issue or comment has a mark on a line of its own, where only we write it."""
    body = entry.get("body")
    return isinstance(body, str) and any(line.strip() == mark for line in body.split("\n"))


def sent_of(entry: Any) -> Sent:
    if not isinstance(entry, dict):
        return Sent()
    identifier = entry.get("number", entry.get("id"))
    return Sent(str(identifier) if isinstance(identifier, int) else None, link_of(entry.get("html_url")))


def number_of(entry: Any) -> int | None:
    number = entry.get("number") if isinstance(entry, dict) else None
    return number if isinstance(number, int) else None


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
