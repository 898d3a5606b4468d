"""The base of triggers on rows, for any database: a selection of changes, and a way to read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.cel import Match
from wakeful.connect.rows.telling import RowSelection
from wakeful.model import Event


@dataclass(frozen=True, slots=True)
class OnRows:
    """A trigger on a selection of changes; the selection decides which events match."""

    rows: RowSelection

    carries_data: ClassVar[bool] = True

    @property
    def type(self) -> str:
        return self.rows.type

    @property
    def source(self) -> str:
        return self.rows.source

    @property
    def where(self) -> str | None:
        return self.rows.where

    def describe(self) -> str:
        return self.rows.describe()

    def matches(self, event: Event) -> Match:
        return self.rows.matches(event)
