"""Shopify: https://shopify.dev/docs/api/admin-rest/latest/resources/order"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import Field

from wakeful.connect.sent import Sent


class Customer(Sent):
    id: int
    email: str | None = None
    first_name: str | None = None
    last_name: str | None = None


class LineItem(Sent):
    id: int
    title: str | None = None
    quantity: int
    price: Decimal | None = None
    sku: str | None = None
    product_id: int | None = None
    variant_id: int | None = None


class Order(Sent):
    """`shopify.orders.create`, `.updated`, `.paid`, `.cancelled`, `.fulfilled`. (`orders.delete` contains only the id.)"""

    id: int
    name: str | None = None
    order_number: int | None = None
    email: str | None = None
    currency: str
    total_price: Decimal
    subtotal_price: Decimal | None = None
    total_tax: Decimal | None = None
    financial_status: str | None = None
    fulfillment_status: str | None = None
    cancelled_at: datetime | None = None
    cancel_reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    customer: Customer | None = None
    line_items: list[LineItem] = Field(default_factory=list)
    shipping_address: dict[str, Any] | None = None
    tags: str | None = None
    note: str | None = None
    test: bool | None = None
