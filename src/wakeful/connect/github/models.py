"""GitHub: https://docs.github.com/en/webhooks/webhook-events-and-payloads"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from wakeful.connect.sent import Sent


class Account(Sent):
    """A user, an organisation or a bot."""

    login: str
    id: int
    type: str | None = None
    html_url: str | None = None


class Owner(Sent):
    """The owner of a repository. A push has `name`, all other events have `login`."""

    login: str | None = None
    name: str | None = None
    id: int | None = None


class Repository(Sent):
    id: int
    name: str
    full_name: str
    private: bool = False
    html_url: str | None = None
    default_branch: str | None = None
    owner: Owner | None = None


class Label(Sent):
    name: str
    color: str | None = None


class Branch(Sent):
    """One side of a pull request. The repository is missing if it was deleted."""

    ref: str
    sha: str
    repo: Repository | None = None


class PullRequest(Sent):
    id: int
    number: int
    state: str
    title: str
    body: str | None = None
    draft: bool | None = None
    merged: bool | None = None
    merge_commit_sha: str | None = None
    html_url: str
    user: Account | None = None
    labels: list[Label] = Field(default_factory=list)
    head: Branch
    base: Branch
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Issue(Sent):
    """An issue; `pull_request` is set if a comment was made on a pull request."""

    id: int
    number: int
    state: str | None = None
    title: str
    body: str | None = None
    html_url: str
    user: Account | None = None
    labels: list[Label] = Field(default_factory=list)
    assignees: list[Account] = Field(default_factory=list)
    pull_request: dict[str, Any] | None = None
    created_at: datetime | None = None


class Comment(Sent):
    id: int
    body: str
    html_url: str
    user: Account | None = None
    created_at: datetime | None = None


class Author(Sent):
    name: str | None = None
    email: str | None = None
    username: str | None = None


class Commit(Sent):
    id: str
    message: str
    timestamp: datetime | None = None
    url: str | None = None
    author: Author | None = None
    added: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)
    modified: list[str] = Field(default_factory=list)


class WorkflowRun(Sent):
    id: int
    name: str | None = None
    status: str | None = None
    conclusion: str | None = None
    event: str | None = None
    head_branch: str | None = None
    head_sha: str
    run_number: int | None = None
    run_attempt: int | None = None
    html_url: str


class GitHubEvent(Sent):
    """The fields of every event."""

    repository: Repository | None = None
    organization: dict[str, Any] | None = None
    installation: dict[str, Any] | None = None
    sender: Account | None = None


class PushEvent(GitHubEvent):
    """`github.push`"""

    ref: str
    before: str
    after: str
    created: bool = False
    deleted: bool = False
    forced: bool = False
    compare: str | None = None
    commits: list[Commit] = Field(default_factory=list)
    head_commit: Commit | None = None
    pusher: Author | None = None


class PullRequestEvent(GitHubEvent):
    """`github.pull_request.*`"""

    action: str
    number: int
    pull_request: PullRequest
    changes: dict[str, Any] | None = None
    label: Label | None = None


class IssuesEvent(GitHubEvent):
    """`github.issues.*`"""

    action: str
    issue: Issue
    changes: dict[str, Any] | None = None
    label: Label | None = None


class IssueCommentEvent(GitHubEvent):
    """`github.issue_comment.*`, for issues and pull requests."""

    action: str
    issue: Issue
    comment: Comment


class WorkflowRunEvent(GitHubEvent):
    """`github.workflow_run.*`"""

    action: str
    workflow_run: WorkflowRun
    workflow: dict[str, Any] | None = None
