"""Who sent a webhook: one verifier for each way in which senders prove it."""

from wakeful.verify.anybody import none
from wakeful.verify.base import Answer, Challenge, Delivered, Refused, Verifier, WebhookRequest
from wakeful.verify.credentials import basic, bearer
from wakeful.verify.senders.alertmanager import alertmanager
from wakeful.verify.senders.github import github
from wakeful.verify.senders.gitlab import gitlab
from wakeful.verify.senders.jira import jira
from wakeful.verify.senders.pagerduty import pagerduty
from wakeful.verify.senders.shopify import shopify
from wakeful.verify.senders.slack import slack
from wakeful.verify.senders.standard_webhooks import standard_webhooks
from wakeful.verify.senders.stripe import stripe
from wakeful.verify.signed import hmac

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
