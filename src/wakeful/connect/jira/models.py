"""Jira: https://developer.atlassian.com/cloud/jira/platform/webhooks/"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from wakeful.connect.sent import Sent, SentInCamelCase


class Named(Sent):
    """A status, a priority or an issue type."""

    id: str | None = None
    name: str | None = None


class Project(Sent):
    id: str | None = None
    key: str
    name: str | None = None


class User(SentInCamelCase):
    """Jira Cloud identifies users by `account_id`, Jira Data Center by `name`."""

    account_id: str | None = None
    name: str | None = None
    display_name: str | None = None


class Fields(Sent):
    """The fields of an issue. Custom fields are kept too: `fields.model_extra["customfield_10101"]`."""

    summary: str | None = None
    description: Any = None
    status: Named | None = None
    priority: Named | None = None
    issuetype: Named | None = None
    project: Project | None = None
    assignee: User | None = None
    reporter: User | None = None
    labels: list[str] = Field(default_factory=list)


class Issue(Sent):
    id: str
    key: str
    fields: Fields = Field(default_factory=Fields)


class ChangedField(SentInCamelCase):
    """One field of an issue before and after: Jira's internal value and its text."""

    field: str
    before: str | None = Field(default=None, alias="from")
    after: str | None = Field(default=None, alias="to")
    before_text: str | None = Field(default=None, alias="fromString")
    after_text: str | None = Field(default=None, alias="toString")


class Changelog(Sent):
    id: str | int | None = None
    items: list[ChangedField] = Field(default_factory=list)


class IssueEvent(SentInCamelCase):
    """`jira.issue.*` and `jira.comment.*`"""

    webhook_event: str
    timestamp: datetime | None = None
    user: User | None = None
    issue: Issue
    changelog: Changelog | None = None
    comment: dict[str, Any] | None = None
