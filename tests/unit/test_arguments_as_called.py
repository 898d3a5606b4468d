"""Stored arguments, as JSON of what an action gets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from wakeful import Operation, action


class Invoice(BaseModel):
    number: int
    paid: bool = False
    of: str = Field(default="ada", alias="from")


def surprising(value: Any) -> Any:
    raise RuntimeError("surprising")


@action
async def pay(
    op: Operation,
    amount: int,
    urgent: bool,
    at: datetime,
    invoice: Invoice,
    odd: Annotated[int, BeforeValidator(surprising)],
    anything,
) -> None: ...


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("amount", 80, 80),
        ("amount", "80", 80),
        ("amount", 80.0, 80),
        ("amount", "many", "many"),  # the call refuses it
        ("urgent", "no", False),
        ("urgent", 1, True),
        ("at", "2026-10-01T09:00:00+00:00", "2026-10-01T09:00:00Z"),
        ("invoice", {"number": "7", "paid": "yes"}, {"number": 7, "paid": True, "from": "ada"}),
        ("invoice", {"number": "7", "from": "bob"}, {"number": 7, "paid": False, "from": "bob"}),
        ("odd", "1", "1"),
        ("anything", "80", "80"),
        ("unknown", "80", "80"),
    ],
)
def test_a_value_is_that_of_its_type(name: str, given: Any, expected: Any):
    assert pay.as_called(name, given) == expected
    assert type(pay.as_called(name, given)) is type(expected)
