"""The bank's book: what it was asked and what it booked, counted where neither the worker nor the store can touch it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wakeful.demo.lines import Lines


@dataclass(slots=True)
class Page:
    """What the book says about one refund."""

    asked: int = 0
    booked: int = 0
    known: int = 0
    looked: int = 0
    unheard: int = 0

    def add(self, what: str) -> None:
        setattr(self, what, getattr(self, what) + 1)


class Book:
    """Reads the bank's book as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = Lines(path)
        self._total = Page()
        self.pages: dict[str, Page] = {}

    def read(self) -> None:
        """Take in the lines that were added since the last time."""
        for line in self._lines.added():
            self.pages.setdefault(line["reference"], Page()).add(line["what"])
            self._total.add(line["what"])

    def page(self, reference: str) -> Page:
        """What there is about a refund, be it nothing."""
        return self.pages.get(reference, Page())

    def total(self) -> Page:
        return self._total
