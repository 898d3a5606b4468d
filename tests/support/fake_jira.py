"""Jira Cloud's REST API for issues, as far as a channel and actions need it, with its checks and limits. Its search index lags."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from support.receiver import Reply, Request
from support.service import Refused, Service, object_of, query_of, reply
from wakeful.clock import SECOND

USER = "bot@example.com"
TOKEN = "ATATT3xFfGF0T4f0c1b7e9a2d4c6f8b1e"
SECRET = base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
_ISSUE = re.compile(r"/rest/api/3/issue(?:/([A-Z]+-\d+))?(?:/(comment|assignee))?").fullmatch
_JQL = re.compile(r'project = "([A-Z]+)" AND labels = "([^" ]+)" ORDER BY created ASC').fullmatch


class FakeJira(Service):
    """One project. `now`: its time; an issue is found `lag` seconds after it was made."""

    def __init__(
        self, project: str = "OPS", *, now: Callable[[], int] = lambda: 0, lag: int = 0, page: int = 50
    ) -> None:
        super().__init__()
        self.project, self.now, self.lag, self.page = project, now, lag, page
        self.issues: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.made_at: dict[str, int] = {}

    @property
    def arrived(self) -> Counter[str]:
        """How often each message arrived, by its label."""
        labels = (label for one in self.issues.values() for label in one["labels"])
        return Counter(label.removeprefix("wakeful-") for label in labels if label.startswith("wakeful-"))

    def handle(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Basic {SECRET}":
            raise Refused(401, {"errorMessages": ["Client must be authenticated to access this resource."]})
        if request.headers.get("accept") != "application/json":
            raise Refused(406, {"errorMessages": ["Not acceptable"]})
        path, query = query_of(request)
        if request.method == "GET" and path == "/rest/api/3/search/jql":
            return self._search(query)
        found = _ISSUE(path)
        if found is None:
            raise Refused(404, {"errorMessages": ["Not found"]})
        if request.method == "POST" and found[1] is None:
            return self._create(object_of(request))
        if found[1] not in self.issues:
            raise Refused(404, {"errorMessages": ["Issue does not exist or you do not have permission to see it."]})
        match request.method, found[2]:
            case "GET", None:
                return reply(200, {"id": "1", "key": found[1], "fields": self.issues[found[1]]})
            case "PUT", "assignee":
                return self._assign(found[1], object_of(request))
            case "POST", "comment":
                return self._comment(found[1], object_of(request))
            case "GET", "comment":
                return self._comments(found[1], query)
        raise Refused(405, {"errorMessages": ["Method not allowed"]})

    def _create(self, given: dict[str, Any]) -> Reply:
        fields = given.get("fields")
        if set(given) != {"fields"} or not isinstance(fields, dict):
            raise Refused(400, {"errorMessages": ["fields is required"], "errors": {}})
        errors = {}
        if fields.get("project") != {"key": self.project}:
            errors["project"] = "valid project is required"
        if fields.get("issuetype") not in ({"name": "Task"}, {"name": "Bug"}):
            errors["issuetype"] = "Specify a valid issue type"
        summary = fields.get("summary")
        if not isinstance(summary, str) or not summary.strip():
            errors["summary"] = "You must specify a summary of the issue."
        elif "\n" in summary:
            errors["summary"] = "The summary is invalid because it contains newline characters."
        elif _length(summary) > 255:
            errors["summary"] = "Summary can't exceed 255 characters."
        if not is_document(fields.get("description")):
            errors["description"] = "Operation value must be an Atlassian Document (see the Atlassian Document Format)"
        elif _length(json.dumps(fields["description"], ensure_ascii=False, separators=(",", ":"))) > 32_767:
            errors["description"] = "The entered text is too long. It exceeds the allowed limit of 32,767 characters."
        labels = fields.get("labels", [])
        if not isinstance(labels, list) or any(not one or " " in one or len(one) > 255 for one in labels):
            errors["labels"] = "The label contains spaces which is invalid."
        for name in set(fields) - {"project", "issuetype", "summary", "description", "labels", "priority"}:
            errors[name] = f"Field '{name}' cannot be set. It is not on the appropriate screen, or unknown."
        if errors:
            raise Refused(400, {"errorMessages": [], "errors": errors})
        key = f"{self.project}-{len(self.issues) + 1}"
        self.issues[key] = fields
        self.comments[key] = []
        self.made_at[key] = self.now()
        return reply(201, {"id": str(10_000 + len(self.issues)), "key": key, "self": f"{self.url}/rest/api/3/issue/1"})

    def _search(self, query: dict[str, str]) -> Reply:
        jql = _JQL(query.get("jql", ""))
        if jql is None:
            raise Refused(400, {"errorMessages": ["Error in the JQL Query"], "errors": {}})
        if jql[1] != self.project:
            words = f"The value '{jql[1]}' does not exist for the field 'project'."
            raise Refused(400, {"errorMessages": [words], "errors": {}})
        known = [key for key in self.issues if self.made_at[key] + self.lag * SECOND <= self.now()]
        found = [key for key in known if jql[2] in self.issues[key]["labels"]]
        size, start = min(int(query.get("maxResults", "50")), self.page), int(query.get("nextPageToken", "p0")[1:])
        wanted = query.get("fields", "id").split(",")
        issues = [
            {"id": key, "key": key, "fields": {name: self.issues[key][name] for name in wanted if name != "id"}}
            for key in found[start : start + size]
        ]
        more = start + size < len(found)
        return reply(
            200, {"issues": issues, "isLast": not more, **({"nextPageToken": f"p{start + size}"} if more else {})}
        )

    def _assign(self, key: str, given: dict[str, Any]) -> Reply:
        if set(given) != {"accountId"} or not isinstance(given["accountId"], str | None):
            raise Refused(400, {"errorMessages": ["accountId is required"]})
        if given["accountId"] not in {None, "5b10ac8d82e05b22cc7d4ef5"}:
            raise Refused(400, {"errorMessages": [], "errors": {"assignee": "User cannot be assigned issues."}})
        self.issues[key]["assignee"] = given["accountId"]
        return Reply(204)

    def _comment(self, key: str, given: dict[str, Any]) -> Reply:
        if not is_document(given.get("body")) or set(given) != {"body"}:
            raise Refused(400, {"errorMessages": ["Comment body is not valid!"], "errors": {}})
        comment = {"id": str(7000 + len(self.comments[key])), **given}
        self.comments[key].append(comment)
        return reply(201, comment)

    def _comments(self, key: str, query: dict[str, str]) -> Reply:
        start, size = int(query.get("startAt", "0")), min(int(query.get("maxResults", "50")), self.page)
        shown = [dict(one) for one in self.comments[key][start : start + size]]
        total = len(self.comments[key])
        return reply(200, {"startAt": start, "maxResults": size, "total": total, "comments": shown})


def _length(words: str) -> int:
    """As Java counts."""
    return len(words.encode("utf-16-le")) // 2


def is_document(node: Any) -> bool:
    """Whether this is a document of the nodes that the schema of the format has, as far as we write them."""
    if not isinstance(node, dict) or set(node) != {"type", "version", "content"}:
        return False
    return node["type"] == "doc" and node["version"] == 1 and all(map(_is_block, node["content"]))


def _is_block(node: Any) -> bool:
    if node.get("type") == "codeBlock":
        texts = all(set(one) == {"type", "text"} and one["type"] == "text" and one["text"] for one in node["content"])
        return texts and set(node) <= {"type", "attrs", "content"}
    return (
        node.get("type") == "paragraph" and set(node) == {"type", "content"} and all(map(_is_inline, node["content"]))
    )


def _is_inline(node: Any) -> bool:
    if node == {"type": "hardBreak"}:
        return True
    return set(node) == {"type", "text"} and node["type"] == "text" and bool(node["text"])


def words_of(node: Any) -> str:
    """The text of a document, with its line breaks."""
    if node.get("type") == "hardBreak":
        return "\n"
    if "text" in node:
        return str(node["text"])
    return ("\n\n" if node["type"] == "doc" else "").join(words_of(one) for one in node["content"])
