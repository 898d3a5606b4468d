"""Reads a row as PostgreSQL's row_to_json writes it, without changing a number: one that a float would round becomes text."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

from wakeful.intake.untrusted import LARGEST_INTEGER, SMALLEST_INTEGER

LONGEST_EXACT = 30  # characters; longer numbers stay text without a comparison


def read_row(written: str) -> dict[str, Any]:
    """The values of a row by column. Raises ValueError if it is not a row."""
    row = _read(written)
    if not isinstance(row, dict):
        message = "it is not a JSON object"
        raise ValueError(message)  # noqa: TRY004 what is wrong is the text
    return row


def _whole(digits: str) -> int | str:
    if len(digits) > LONGEST_EXACT:
        return digits
    number = int(digits)
    return number if SMALLEST_INTEGER <= number <= LARGEST_INTEGER else digits


def _fraction(digits: str) -> float | str:
    if len(digits) > LONGEST_EXACT:
        return digits
    number = float(digits)
    try:
        return number if Decimal(repr(number)) == Decimal(digits) else digits
    except InvalidOperation:
        return digits


_read = json.JSONDecoder(parse_int=_whole, parse_float=_fraction).decode
