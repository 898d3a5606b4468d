"""GitLab: https://docs.gitlab.com/user/project/integrations/webhook_events/"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from wakeful.connect.sent import Sent


class User(Sent):
    id: int | None = None
    name: str | None = None
    username: str | None = None


class Project(Sent):
    id: int | None = None
    name: str
    path_with_namespace: str
    web_url: str | None = None
    default_branch: str | None = None


class Commit(Sent):
    id: str
    message: str | None = None
    title: str | None = None
    url: str | None = None
    author: dict[str, Any] | None = None
    added: list[str] = Field(default_factory=list)
    modified: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)


class MergeRequest(Sent):
    id: int
    iid: int
    title: str
    description: str | None = None
    state: str
    action: str | None = None
    source_branch: str
    target_branch: str
    draft: bool | None = None
    url: str | None = None
    last_commit: Commit | None = None


class Pipeline(Sent):
    id: int
    iid: int | None = None
    ref: str
    sha: str
    status: str
    source: str | None = None
    duration: float | None = None
    url: str | None = None


class PushEvent(Sent):
    """`gitlab.push`. `checkout_sha` is missing if a branch was deleted."""

    object_kind: str
    ref: str
    before: str
    after: str
    checkout_sha: str | None = None
    user_name: str | None = None
    user_username: str | None = None
    project: Project
    commits: list[Commit] = Field(default_factory=list)
    total_commits_count: int = 0


class MergeRequestEvent(Sent):
    """`gitlab.merge_request.*`"""

    object_kind: str
    user: User | None = None
    project: Project
    object_attributes: MergeRequest
    labels: list[dict[str, Any]] | None = None
    changes: dict[str, Any] | None = None


class PipelineEvent(Sent):
    """`gitlab.pipeline.*`"""

    object_kind: str
    user: User | None = None
    project: Project
    object_attributes: Pipeline
    merge_request: dict[str, Any] | None = None
    commit: Commit | None = None
    builds: list[dict[str, Any]] = Field(default_factory=list)
