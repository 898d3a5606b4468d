"""Who sent a webhook: one verifier for each way in which senders prove it."""

from wakeful.verify.anybody import none
from wakeful.verify.base import Answer, Challenge, Delivered, Refused, Verifier, WebhookRequest
from wakeful.verify.credentials import basic, bearer
from wakeful.verify.senders.github import github
from wakeful.verify.signed import hmac

__all__ = [
    "Answer",
    "Challenge",
    "Delivered",
    "Refused",
    "Verifier",
    "WebhookRequest",
    "basic",
    "bearer",
    "github",
    "hmac",
    "none",
]
