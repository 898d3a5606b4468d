"""Verifiers of webhooks: one for each way in which senders prove who they are."""

from wakeful.connect.alertmanager.verify import alertmanager
from wakeful.connect.github.verify import github
from wakeful.connect.gitlab.verify import gitlab
from wakeful.connect.jira.verify import jira
from wakeful.connect.pagerduty.verify import pagerduty
from wakeful.connect.shopify.verify import shopify
from wakeful.connect.slack.verify import slack
from wakeful.connect.standard_webhooks.verify import standard_webhooks
from wakeful.connect.stripe.verify import stripe
from wakeful.connect.verifiers.anybody import none
from wakeful.connect.verifiers.credentials import basic, bearer
from wakeful.connect.verifiers.signed import hmac
from wakeful.triggers.verifier import Answer, Challenge, Delivered, Refused, Verifier, WebhookRequest

__all__ = [
    "Answer",
    "Challenge",
    "Delivered",
    "Refused",
    "Verifier",
    "WebhookRequest",
    "alertmanager",
    "basic",
    "bearer",
    "github",
    "gitlab",
    "hmac",
    "jira",
    "none",
    "pagerduty",
    "shopify",
    "slack",
    "standard_webhooks",
    "stripe",
]
