"""Keeps a working process in step with the encryption of its store: it adopts that payloads are bound to their rows and
that the store is strict, and raises an alarm for each payload that was tampered with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wakeful.errors import PayloadTampered
from wakeful.service import Service
from wakeful.stores.payloads import Codec
from wakeful.stores.sealed_store import look_at_sealing
from wakeful.stores.verbs.keeping import NoteBinding

if TYPE_CHECKING:
    from wakeful.stores.store import DatabaseStore

EVERY = 5.0


class SealingService(Service):
    """Reads the marks of the store, and reports tampered payloads."""

    name = "sealing"

    def __init__(
        self,
        app: str,
        store: DatabaseStore,
        codec: Codec,
        process: Callable[[], str],
        alarm: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self._app = app
        self._store = store
        self._codec = codec
        self._process = process
        self._alarm = alarm
        self._noted = ""

    async def run_once(self) -> float | None:
        """Once this process binds every payload, tell the store: only then may the store become strict."""
        process = self._process()
        try:
            binds = await look_at_sealing(self._store.database)
        except PayloadTampered as error:  # the mark of a strict store was changed: keep what is known of it
            self._alarm(f"tampering/{self._app}/wakeful_cipher", str(error))
            binds = False
        if binds and process and self._noted != process:
            await self._store.do(NoteBinding(process))
            self._noted = process
        self.tell()
        return EVERY

    def tell(self) -> None:
        """Raise one alarm for each column. Its text is about the row that was found last."""
        findings = self._codec.findings
        while findings:
            finding = next(iter(findings))
            del findings[finding]
            self.log.error("a payload was tampered with", table=finding.table, column=finding.column, row=finding.row)
            self._alarm(finding.alarm_key(self._app), str(finding))
