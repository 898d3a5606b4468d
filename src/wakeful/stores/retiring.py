"""Apps that a person retired: what is asked of the store."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.stores.request import Request


@dataclass(slots=True)
class RetireApp(Request[bool]):
    """Nothing is expected of an app any more. Recorded with who said so; a second time changes nothing."""

    app: str
    operator: str
    note: str | None = None


@dataclass(slots=True)
class BringBackApp(Request[bool]):
    """The app is not retired any more. The answer: was it?"""

    app: str
    operator: str
    note: str | None = None
