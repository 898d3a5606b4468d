"""Paths that wait to be reported, the results of a look, and reasons to refuse a path."""

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
    """A path that may have something to report once it stops changing."""

    sight: Sight | None
    due: float
    began: float
    away: bool = False  # a hint said that it was removed
    changed: bool = False  # it changed while it was read


@dataclass(slots=True)
class FilesSeen:
    """The results of one look."""

    changes: list[FileChange] = field(default_factory=list)
    items: dict[str, Item] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)  # refused paths that no longer exist
    mount: str | None = None  # mount point of the folder; None: unchanged

    @property
    def empty(self) -> bool:
        return not (self.changes or self.items or self.unreadable or self.gone or self.mount is not None)


def refusals(raw: bytes) -> list[Unreadable]:
    """The forms in which a path may be in quarantine, by its bytes: one for each kind of reason."""
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
