"""Shopify: X-Shopify-Hmac-SHA256 over the body, in base64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.connect.verifiers.proof import aliases_of, from_base64, require_signature, required
from wakeful.connect.verifiers.reading import label, moment, read_object, required_word
from wakeful.connect.verifiers.secrets import GivenSecret, Secrets
from wakeful.triggers.verifier import Delivered, Verifier, WebhookRequest

SIGNATURE = "X-Shopify-Hmac-SHA256"


@dataclass(frozen=True, repr=False)
class Shopify(Verifier):
    """Only the body is signed: neither the delivery id nor a time, nor the topic. Requests with the same topic and signature are the
    same event. The topic counts because Shopify sends one body under several: an order that is paid at once is `orders/create`
    and `orders/paid`. So an attacker with a captured request could send it under another topic: base decisions on the body.
    """

    name: ClassVar[str] = "shopify"
    secrets: Secrets

    def open(self, where: str) -> None:
        self.secrets.open(f"{where}: {self.name}")

    def verify(self, request: WebhookRequest) -> None:
        require_signature([_signature(request)], self.secrets.as_keys(), request.body, name=SIGNATURE)

    def read(self, request: WebhookRequest) -> Delivered:
        # orders/create, and `customers_marketing_consent/update`
        topic = required_word(request.headers.get("x-shopify-topic", "").replace("/", "."), "X-Shopify-Topic")
        data = read_object(request.body)
        shop = label(request.headers.get("x-shopify-shop-domain"))
        return Delivered(
            data,
            type=f"shopify.{topic}",
            id=label(request.headers.get("x-shopify-webhook-id")),
            subject=label(data.get("id")),
            time=moment(request.headers.get("x-shopify-triggered-at")),
            aliases=aliases_of(self.name, request, _signature, topic),
            extensions={"shop": shop} if shop else {},
        )

    def reads(self) -> tuple[str, ...]:
        return (SIGNATURE, "X-Shopify-Topic", "X-Shopify-Shop-Domain", "X-Shopify-Webhook-Id", "X-Shopify-Triggered-At")

    def describe(self) -> str:
        return f"shopify(secret={self.secrets!r})"

    __repr__ = describe


def shopify(secret: GivenSecret) -> Verifier:
    """Requests of Shopify's webhooks. Types are `shopify.<topic>`, like `shopify.orders.create`. The secret is the app's client
    secret, or the one shown below the webhooks in the shop's settings.
    """
    return Shopify(Secrets.of(secret, where="shopify"))


def _signature(request: WebhookRequest) -> bytes:
    return from_base64(required(request, SIGNATURE), SIGNATURE)
