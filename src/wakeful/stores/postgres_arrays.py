"""Rows as PostgreSQL's arrays: a bulk query takes each column as one parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeful.stores.transaction import Row

# In no text that PostgreSQL takes.
SEPARATOR = "\0"


def count_of(status: str) -> int:
    """How many rows a command wrote, read from its answer: INSERT 0 64, UPDATE 64."""
    return int(status.rpartition(" ")[2])


def array(column: Sequence[Any]) -> str:
    """A column in PostgreSQL's notation for arrays: {1,2,NULL} or {"a","b",NULL}.

    Most columns are numbers, or texts, or nothing at all: these are written as a whole, without a look at each value.
    """
    first = column[0]
    if type(first) is int:
        return "{" + ",".join(map(str, column)).replace("None", "NULL") + "}"
    if first is None and column.count(None) == len(column):
        return "{" + ",".join(["NULL"] * len(column)) + "}"
    if None not in column:
        text: str = SEPARATOR.join(column)
        if text.count(SEPARATOR) == len(column) - 1:
            text = text.replace("\\", "\\\\").replace('"', '\\"').replace(SEPARATOR, '","')
            return f'{{"{text}"}}'
    return "{" + ",".join([_element(value) for value in column]) + "}"


def arrays(rows: Sequence[Row], width: int) -> list[str]:
    """The columns of some rows, perhaps of none."""
    return [array(column) for column in zip(*rows, strict=True)] if rows else ["{}"] * width


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    return '"' + str.__str__(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
