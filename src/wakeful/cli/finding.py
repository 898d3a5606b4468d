"""A finding of doctor: what was looked at, the verdict, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "look", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    verdict: Verdict
    text: str
    remedy: str | None = None
