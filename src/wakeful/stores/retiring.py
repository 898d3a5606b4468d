"""Apps that a person retired: what is asked of the store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RetireApp:
    """Nothing is expected of an app any more. Recorded with who said so; a second time changes nothing."""

    app: str
    operator: str
    note: str | None = None


@dataclass(slots=True)
class BringBackApp:
    """The app is not retired any more. The answer: was it?"""

    app: str
    operator: str
    note: str | None = None
