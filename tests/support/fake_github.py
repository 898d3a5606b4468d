"""GitHub's REST API for issues and comments, as far as a channel and actions need it, with its checks and limits."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from support.receiver import Reply, Request
from support.service import Refused, Service, object_of, query_of, reply

TOKEN = "ghp_4f0c1b7e9a2d4c6f8b1e3a5d7c9f"
_ISSUES = re.compile(r"/repos/([^/]+/[^/]+)/issues(?:/(\d+))?(?:/(comments|labels))?").fullmatch
MARK = re.compile(r"^<!-- wakeful:(\S+) -->$", re.MULTILINE)


class FakeGitHub(Service):
    """One repository. `at`: the time of what is written from now on."""

    def __init__(self, repo: str = "octo/desk", page: int = 100) -> None:
        super().__init__()
        self.repo = repo
        self.page = page
        self.at = datetime(2026, 11, 18, tzinfo=UTC)
        self.entries: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.labels: dict[int, list[str]] = {}

    @property
    def written(self) -> list[str]:
        """All bodies, issues and comments."""
        return [
            one["body"] for one in (*self.entries.values(), *(c for several in self.comments.values() for c in several))
        ]

    @property
    def arrived(self) -> Counter[str]:
        """How often each message arrived, by its mark."""
        return Counter(mark for body in self.written for mark in MARK.findall(body or ""))

    def open_issue(self, title: str, body: str | None = None) -> int:
        """An issue of somebody else."""
        return int(self._new_issue({"title": title, "body": body})["number"])

    def handle(self, request: Request) -> Reply:
        self._check(request)
        path, query = query_of(request)
        found = _ISSUES(path)
        if found is None or found[1] != self.repo:
            raise Refused(404, {"message": "Not Found"})
        number = int(found[2]) if found[2] else None
        if number is not None and number not in self.entries:
            raise Refused(404, {"message": "Not Found"})
        match request.method, number, found[3]:
            case "GET", None, None:
                entries = list(self.entries.values())
                if query.get("sort", "created") != "created" or query.get("state") != "all":
                    raise Refused(422, {"message": "Validation Failed"})
                return self._listing(request, query, entries[:: 1 if query.get("direction") == "asc" else -1])
            case "POST", None, None:
                return reply(201, self._new_issue(object_of(request)))
            case "GET", int(), None:
                return reply(200, self.entries[number])
            case "GET", int(), "comments":
                return self._listing(request, query, self.comments[number])
            case "POST", int(), "comments":
                return reply(201, self._new_comment(number, object_of(request)))
            case "POST", int(), "labels":
                return self._add_labels(number, object_of(request))
        raise Refused(404, {"message": "Not Found"})

    def _check(self, request: Request) -> None:
        headers = request.headers
        if headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, {"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"})
        if not headers.get("user-agent"):
            raise Refused(403, {"message": "Request forbidden by administrative rules."})
        if headers.get("x-github-api-version") != "2022-11-28":
            raise Refused(400, {"message": "The API version is not supported"})
        if headers.get("accept") != "application/vnd.github+json":
            raise Refused(415, {"message": "Unsupported 'Accept' header"})

    def _new_issue(self, given: dict[str, Any]) -> dict[str, Any]:
        if not set(given) <= {"title", "body", "labels", "assignees"}:
            raise _unfit("Issue", "title", "unknown field")
        title = given.get("title")
        if not isinstance(title, str) or not title.strip() or "\n" in title:
            raise _unfit("Issue", "title", "missing_field")
        if len(title) > 256:
            raise _unfit("Issue", "title", "title is too long (maximum is 256 characters)")
        number = len(self.entries) + 1
        body = given.get("body")
        if body is not None:
            _check_body("Issue", body)
        self.entries[number] = {
            "id": 1000 + number,
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "labels": [{"name": one} for one in given.get("labels", [])],
            "created_at": _text(self.at),
            "updated_at": _text(self.at),
            "html_url": f"https://github.com/{self.repo}/issues/{number}",
        }
        self.comments[number] = []
        return self.entries[number]

    def _new_comment(self, number: int, given: dict[str, Any]) -> dict[str, Any]:
        if set(given) != {"body"}:
            raise _unfit("IssueComment", "body", "missing_field")
        _check_body("IssueComment", given["body"])
        identifier = 5000 + sum(map(len, self.comments.values()))
        comment = {
            "id": identifier,
            "body": given["body"],
            "created_at": _text(self.at),
            "updated_at": _text(self.at),
            "html_url": f"https://github.com/{self.repo}/issues/{number}#issuecomment-{identifier}",
        }
        self.comments[number].append(comment)
        self.entries[number]["updated_at"] = _text(self.at)
        return comment

    def _add_labels(self, number: int, given: dict[str, Any]) -> Reply:
        names = given.get("labels")
        if set(given) != {"labels"} or not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise _unfit("Label", "labels", "invalid")
        labels = self.entries[number]["labels"]
        labels.extend({"name": one} for one in names if {"name": one} not in labels)
        return reply(200, labels)

    def _listing(self, request: Request, query: dict[str, str], entries: list[dict[str, Any]]) -> Reply:
        size = min(int(query.get("per_page", "30")), self.page)
        page = int(query.get("page", "1"))
        since = query.get("since")
        if since is not None:
            datetime.strptime(since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            entries = [one for one in entries if one["updated_at"] >= since]
        part = entries[(page - 1) * size : page * size]
        headers = {}
        if page * size < len(entries):
            bare = re.sub(r"&page=\d+", "", request.path)
            headers["link"] = f'<{self.url}{bare}&page=1>; rel="first", <{self.url}{bare}&page={page + 1}>; rel="next"'
        return reply(200, part, **headers, x_ratelimit_remaining="4999", x_ratelimit_reset="1795000000")


def _check_body(resource: str, body: Any) -> None:
    if not isinstance(body, str) or not body.strip():
        raise _unfit(resource, "body", "missing_field")
    if len(body) > 65_536:
        raise _unfit(resource, "body", "body is too long (maximum is 65536 characters)")


def _unfit(resource: str, field: str, code: str) -> Refused:
    return Refused(
        422, {"message": "Validation Failed", "errors": [{"resource": resource, "field": field, "code": code}]}
    )


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
