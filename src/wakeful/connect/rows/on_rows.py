"""What triggers on rows are to the rest of the app, wherever their tables are: a part of a table, and a way to hear of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wakeful.cel import Match
from wakeful.connect.rows.telling import Part
from wakeful.model import Event


@dataclass(frozen=True, slots=True)
class OnRows:
    """A trigger on a part of a table; which events wake an agent is asked of the part."""

    rows: Part

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
