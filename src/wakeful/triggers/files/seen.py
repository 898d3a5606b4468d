"""Paths on their way to being told, what came of looking at them, and why one is refused."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.files.ledger import FileChange
from wakeful.triggers.files.sight import Sight
from wakeful.triggers.source import Unreadable

LONGEST_PATH = 1_024  # bytes: the store keeps an index of them
LINK, SIZE = "link", "max_size"  # kinds of reasons


@dataclass(slots=True)
class Candidate:
    """A path that may have something to tell, once it stays as it is."""

    sight: Sight | None
    due: float
    began: float
    away: bool = False  # it was removed, as one heard
    changed: bool = False  # while it was read


@dataclass(slots=True)
class FilesSeen:
    """What came of looking."""

    changes: list[FileChange] = field(default_factory=list)
    items: dict[str, Item] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)  # paths that were refused, and are not there any more
    mount: str | None = None  # of the folder; None: as before

    @property
    def empty(self) -> bool:
        return not (self.changes or self.items or self.unreadable or self.gone or self.mount is not None)


def refusals(raw: bytes) -> list[Unreadable]:
    """As what a path may have been listed, by its bytes: for each kind of reason."""
    return [Unreadable(raw, "", headers) for headers in ({}, {"reason": LINK}, {"reason": SIZE})]


def unfit(path: str) -> str | None:
    """Why a path cannot be written into an event; None if it can."""
    raw = os.fsencode(path)
    if len(raw) > LONGEST_PATH:
        return f"has a path of over {LONGEST_PATH:,} bytes: move it or shorten it"
    try:
        raw.decode()
    except UnicodeDecodeError:
        return "has a name that is not UTF-8: rename it"
    return None
