"""The models of what senders send: they take what is documented, keep what they do not name, and say what does not fit."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from support.senders import (
    ALERTS,
    GITLAB_PIPELINE,
    GITLAB_PUSH,
    INCIDENT,
    ISSUE,
    JIRA_ISSUE,
    MERGE_REQUEST,
    NOW,
    OCTOCAT,
    ORDER,
    PULL_REQUEST,
    PUSH,
    REPOSITORY,
    SLACK_BUTTON,
    SLACK_COMMAND,
    SLACK_MENTION,
    STRIPE_EVENT,
)
from wakeful import senders
from wakeful.senders import alertmanager, github, gitlab, jira, pagerduty, shopify, slack, stripe
from wakeful.senders.base import Sent


def of_stripe(kind: str, **fields: Any) -> dict[str, Any]:
    return {**STRIPE_EVENT, "type": kind, "data": {"object": {"object": kind.rpartition(".")[0], **fields}}}


COMMENT = {
    "id": 99262140,
    "body": "You are totally right!",
    "html_url": "https://github.com/octo/shop/issues/2#c1",
    "user": OCTOCAT,
}
WORKFLOW_RUN = {
    "id": 30433642,
    "name": "Build",
    "status": "completed",
    "conclusion": "failure",
    "event": "push",
    "head_branch": "main",
    "head_sha": "acb5820ced9479c074f688cc328bf03f341a511d",
    "run_number": 562,
    "run_attempt": 1,
    "html_url": "https://github.com/octo/shop/actions/runs/30433642",
    "pull_requests": [],
}
CHARGE = of_stripe(
    "charge.failed", id="ch_1", amount=100, currency="eur", status="failed", paid=False, failure_code="card_declined"
)
SUBSCRIPTION = of_stripe(
    "customer.subscription.updated",
    id="sub_1",
    status="past_due",
    customer="cus_1",
    items={"object": "list", "data": []},
)
INVOICE = of_stripe(
    "invoice.upcoming", amount_due=500, currency="usd", customer={"id": "cus_1", "object": "customer"}, status="draft"
)
MESSAGE = {
    **SLACK_MENTION,
    "event": {"type": "message", "subtype": "message_changed", "channel": "C1", "message": {"text": "x"}, "ts": "1.2"},
}

EXAMPLES: list[tuple[type[Sent], Any]] = [
    (github.PushEvent, PUSH),
    (github.PullRequestEvent, PULL_REQUEST),
    (github.IssuesEvent, {"action": "opened", "issue": ISSUE, "repository": REPOSITORY, "sender": OCTOCAT}),
    (
        github.IssueCommentEvent,
        {
            "action": "created",
            "issue": {**ISSUE, "pull_request": {"url": "x"}},
            "comment": COMMENT,
            "repository": REPOSITORY,
        },
    ),
    (
        github.WorkflowRunEvent,
        {"action": "completed", "workflow_run": WORKFLOW_RUN, "workflow": {"id": 1}, "repository": REPOSITORY},
    ),
    (stripe.StripeEvent, STRIPE_EVENT),
    (stripe.PaymentIntentEvent, STRIPE_EVENT),
    (stripe.ChargeEvent, CHARGE),
    (stripe.SubscriptionEvent, SUBSCRIPTION),
    (stripe.InvoiceEvent, INVOICE),
    (slack.AppMentionEvent, SLACK_MENTION),
    (slack.MessageEvent, MESSAGE),
    (slack.Command, SLACK_COMMAND),
    (slack.Interaction, SLACK_BUTTON),
    (gitlab.PushEvent, GITLAB_PUSH),
    (gitlab.MergeRequestEvent, MERGE_REQUEST),
    (gitlab.PipelineEvent, GITLAB_PIPELINE),
    (shopify.Order, ORDER),
    (jira.IssueEvent, JIRA_ISSUE),
    (pagerduty.IncidentEvent, INCIDENT),
    (alertmanager.AlertGroup, ALERTS),
]
examples = pytest.mark.parametrize(
    ("model", "data"), EXAMPLES, ids=lambda one: one.__name__ if isinstance(one, type) else ""
)


@examples
def test_what_is_documented_fits(model: type[Sent], data: Any):
    """As a handler takes it: out of the JSON that was stored."""
    stored = from_json(to_json(data))
    TypeAdapter(model).validate_python(stored)


@examples
def test_nothing_that_came_is_lost(model: type[Sent], data: Any):
    """Whatever is not named is kept, at every depth."""
    read = model.model_validate({**data, "a_new_field": {"x": 1}})
    written = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert written["a_new_field"] == {"x": 1}
    assert shape(written) == shape({**data, "a_new_field": {"x": 1}})


def shape(value: Any) -> Any:
    """The names in a value: times and amounts are written in other ways."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else None


@examples
def test_something_else_does_not_fit(model: type[Sent], data: Any):
    with pytest.raises(ValidationError):
        model.model_validate({})
    with pytest.raises(ValidationError):
        model.model_validate([data])


def test_names_and_types():
    pull_request = github.PullRequestEvent.model_validate(PULL_REQUEST).pull_request
    assert (pull_request.head.ref, pull_request.labels[0].name) == ("more", "feature")
    assert pull_request.created_at == datetime(2026, 5, 1, 12, tzinfo=UTC)

    payment = stripe.PaymentIntentEvent.model_validate(STRIPE_EVENT)
    assert (payment.data.object.amount, payment.data.object.metadata) == (2000, {"order": "42"})
    assert payment.created == datetime.fromtimestamp(NOW - 3, UTC)

    order = shopify.Order.model_validate(ORDER)
    assert order.total_price == Decimal("388.00")
    assert order.customer is not None
    assert order.customer.id == 115310627314723954

    issue = jira.IssueEvent.model_validate(JIRA_ISSUE)
    assert issue.timestamp == datetime.fromtimestamp(NOW, UTC)
    assert issue.changelog is not None
    assert issue.changelog.items[0].after_text == "In Progress"
    assert (issue.issue.fields.model_extra or {})["customfield_10101"] == 5

    group = alertmanager.AlertGroup.model_validate(ALERTS)
    assert (group.group_labels, len(group.alerts)) == ({"alertname": "HighLatency"}, 2)

    assert gitlab.MergeRequestEvent.model_validate(MERGE_REQUEST).object_attributes.iid == 1
    assert pagerduty.IncidentEvent.model_validate(INCIDENT).event.data.title == "A little bump in the road"
    assert slack.Command.model_validate(SLACK_COMMAND).text == "94070"


def test_every_model_takes_what_it_does_not_know():
    modules = [
        importlib.import_module(f"wakeful.senders.{found.name}") for found in pkgutil.iter_modules(senders.__path__)
    ]
    models = [
        one
        for module in modules
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, BaseModel)
    ]
    assert len(models) > 40
    for model in models:
        assert model is BaseModel or model.model_config["extra"] == "allow", model
