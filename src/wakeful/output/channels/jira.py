"""`jira("https://acme.atlassian.net", "OPS", "bot@acme.com", env("JIRA_TOKEN"))`: each message is a new issue of a project.

Jira knows no id of ours, so each issue has a label, `wakeful-ID`, and a message in doubt is looked for by it. The index that is searched
lags behind, so that is done a minute after the call. A search that fails for good does not tell: the message waits for a person
(`on_doubt="hold"`).

Texts are in the Atlassian Document Format, in which nothing of a text is markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from wakeful.clock import Duration
from wakeful.errors import ConfigError
from wakeful.functions.options import Backoff
from wakeful.output.channels.addresses import Resolve, resolve
from wakeful.output.channels.base import Channel, Message, Sent, Surroundings
from wakeful.output.channels.client import read_trying
from wakeful.output.channels.jira_api import SUMMARY_LIMIT, JiraApi, document, is_project, label_of, summary_of
from wakeful.output.channels.text import text_of, title_of
from wakeful.secrets import Secret

OURS = frozenset({"project", "issuetype", "summary", "description"})


class Jira(Channel):
    """Opens issues in one project."""

    repeats = "find"
    on_doubt = "hold"

    def __init__(
        self,
        url: str,
        project: str,
        user: Secret,
        token: Secret,
        *,
        issue_type: str = "Task",
        fields: Mapping[str, Any] | None = None,
        settle: Duration = "1m",
        allow_private: bool = False,
        timeout: Duration = "20s",
        attempts: int | None = Channel.attempts,
        backoff: Backoff | Duration = Channel.backoff,
        resolve: Resolve = resolve,
    ) -> None:
        if not is_project(project):
            message = f'jira(…): {project!r} is not the key of a project, like "OPS"'
            raise ConfigError(message)
        self._where = f"jira({project})"
        if not isinstance(issue_type, str) or not issue_type.strip():
            message = f'{self._where}: issue_type must be the name of a type of issues, like "Task"'
            raise ConfigError(message)
        self.project, self.issue_type, self.allow_private, self.settle = project, issue_type, allow_private, settle
        self._fields = _read_fields({} if fields is None else fields, self._where)
        trying, limit = read_trying(self._where, timeout, attempts, backoff)
        self.attempts, self.backoff = trying.attempts, trying.backoff
        self._api = JiraApi(self._where, url, user, token, limit, allow_private=allow_private, resolve=resolve)

    async def open(self, around: Surroundings) -> None:  # noqa: ARG002 needs nothing of the app
        """Report a missing token now, not with the first message."""
        self._api.open()

    async def close(self) -> None:
        await self._api.close()

    async def deliver(self, messages: Sequence[Message]) -> list[Sent]:
        return [await self._create(message) for message in messages]

    async def _create(self, message: Message) -> Sent:
        labels = [*self._fields.get("labels", ()), label_of(message.id)]
        fields = {
            **self._fields,
            "project": {"key": self.project},
            "issuetype": {"name": self.issue_type},
            "summary": summary_of(title_of(message, SUMMARY_LIMIT)),
            "description": document(text_of(message)),
            "labels": labels,
        }
        return self._api.sent_of((await self._api.ask("POST", "issue", {"fields": fields})).json)

    async def find(self, message: Message) -> Sent | None:
        return await self._api.labelled(self.project, label_of(message.id))

    def missing(self) -> list[str]:
        return self._api.missing()

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "jira",
            "url": self._api.site,
            "project": self.project,
            "issue_type": self.issue_type,
            "fields": sorted(self._fields),
            "allow_private": self.allow_private,
        }

    def __repr__(self) -> str:
        return f'jira("{self._api.site}", "{self.project}")'


def jira(
    url: str,
    project: str,
    user: Secret,
    token: Secret,
    *,
    issue_type: str = "Task",
    fields: Mapping[str, Any] | None = None,
    settle: Duration = "1m",
    allow_private: bool = False,
    timeout: Duration = "20s",
    attempts: int | None = Channel.attempts,
    backoff: Backoff | Duration = Channel.backoff,
) -> Jira:
    """A new issue for each message. `user` is the account's address, `token` its API token; it needs the permissions to browse the
    project and to create issues. `fields` are further fields of each issue, by their names in the API. `settle`: how long the search
    index may lag.
    """
    return Jira(
        url,
        project,
        user,
        token,
        issue_type=issue_type,
        fields=fields,
        settle=settle,
        allow_private=allow_private,
        timeout=timeout,
        attempts=attempts,
        backoff=backoff,
    )


def _read_fields(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        message = f"{where}: fields must be an object of JSON, by the names of fields in the API"
        raise ConfigError(message)
    if ours := sorted(OURS & set(given)):
        message = f"{where}: fields: {', '.join(ours)} is set by the channel itself: leave it out"
        raise ConfigError(message)
    labels = given.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(one, str) and one and " " not in one for one in labels):
        message = f"{where}: fields: labels must be a list of texts without spaces"
        raise ConfigError(message)
    try:
        to_json(given)
    except PydanticSerializationError as error:
        message = f"{where}: fields: {error}"
        raise ConfigError(message) from None
    return dict(given)
