"""Stripe: https://docs.stripe.com/api/events"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import Field

from wakeful.connect.sent import Sent

Reference = str | dict[str, Any] | None  # an id, or the whole object if the account expands it


class StripeObject(Sent):
    """Any Stripe object. `object` names its kind."""

    id: str | None = None
    object: str


class PaymentIntent(StripeObject):
    amount: int
    amount_received: int | None = None
    currency: str
    status: str
    customer: Reference = None
    description: str | None = None
    latest_charge: Reference = None
    metadata: dict[str, str] = Field(default_factory=dict)


class Charge(StripeObject):
    amount: int
    amount_refunded: int = 0
    currency: str
    status: str
    paid: bool = False
    refunded: bool = False
    disputed: bool = False
    customer: Reference = None
    description: str | None = None
    failure_code: str | None = None
    failure_message: str | None = None
    payment_intent: Reference = None
    receipt_url: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)


class Subscription(StripeObject):
    status: str
    customer: Reference = None
    currency: str | None = None
    cancel_at: int | None = None
    cancel_at_period_end: bool = False
    canceled_at: int | None = None
    ended_at: int | None = None
    items: dict[str, Any] = Field(default_factory=dict)
    latest_invoice: Reference = None
    metadata: dict[str, str] = Field(default_factory=dict)


class Invoice(StripeObject):
    """An invoice; a preview has no id."""

    status: str | None = None
    customer: Reference = None
    customer_email: str | None = None
    currency: str
    amount_due: int
    amount_paid: int = 0
    amount_remaining: int = 0
    total: int | None = None
    number: str | None = None
    billing_reason: str | None = None
    hosted_invoice_url: str | None = None
    metadata: dict[str, str] | None = None


Concerned = TypeVar("Concerned", bound=StripeObject)


class Change(Sent, Generic[Concerned]):
    """The object as it is now, and the previous values of the fields that an update changed."""

    object: Concerned
    previous_attributes: dict[str, Any] | None = None


class EventOf(Sent, Generic[Concerned]):
    """The envelope of every event: `EventOf[PaymentIntent]` for `stripe.payment_intent.*`."""

    id: str
    type: str
    created: datetime
    livemode: bool
    data: Change[Concerned]
    account: str | None = None
    api_version: str | None = None
    request: dict[str, Any] | None = None


class StripeEvent(EventOf[StripeObject]):
    """Any event."""


class PaymentIntentEvent(EventOf[PaymentIntent]):
    """`stripe.payment_intent.*`"""


class ChargeEvent(EventOf[Charge]):
    """`stripe.charge.*` except disputes and refunds, which are objects of their own."""


class SubscriptionEvent(EventOf[Subscription]):
    """`stripe.customer.subscription.*`"""


class InvoiceEvent(EventOf[Invoice]):
    """`stripe.invoice.*`"""
