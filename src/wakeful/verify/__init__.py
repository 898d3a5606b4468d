"""Who sent a webhook: one verifier for each way in which senders prove it."""

from wakeful.verify.base import Challenge, Delivered, Refused, Verifier, WebhookRequest

__all__ = ["Challenge", "Delivered", "Refused", "Verifier", "WebhookRequest"]
