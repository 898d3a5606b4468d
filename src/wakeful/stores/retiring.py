"""Apps that a person retired: what is asked of the store."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.stores.request import Audit, ByPerson


@dataclass(slots=True)
class RetireApp(ByPerson[bool]):
    """Nothing is expected of an app any more. Recorded with who said so; a second time changes nothing."""

    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("retire", self.app, self.app, self.note) if result else None


@dataclass(slots=True)
class BringBackApp(ByPerson[bool]):
    """The app is not retired any more. The answer: was it?"""

    app: str

    def audit(self, result: bool) -> Audit | None:
        return Audit("bring back", self.app, self.app, self.note) if result else None
