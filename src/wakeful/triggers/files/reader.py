"""Reads the files of a pattern: first watches, then looks at everything, then at the paths it gets hints for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.errors import ConfigError, InvalidEvent
from wakeful.intake.cloudevents import from_envelope, to_envelope
from wakeful.model import Event
from wakeful.triggers.files.ledger import FileChange, FileLedger, FileOperation
from wakeful.triggers.files.looker import Looker
from wakeful.triggers.files.pattern import FilePattern
from wakeful.triggers.files.seen import FilesSeen, refusals
from wakeful.triggers.files.watcher import FolderWatcher, Hints
from wakeful.triggers.mapping import apply_mapping
from wakeful.triggers.source import Batch, Context, Reader, SourceTrouble, Unreadable

MAPPED = "wakeful-mapping"


@dataclass(frozen=True, slots=True)
class Form:
    """The events that some of the triggers want, and how to map them."""

    source: str
    operations: frozenset[FileOperation]
    mapping: Callable[[Event], Any] | None


class FilesReader(Reader):
    """Reads the files of one pattern."""

    kind = "files"
    recovers = True

    def __init__(
        self,
        name: str,
        pattern: FilePattern,
        forms: Sequence[Form],
        context: Context,
        *,
        settle: float,
        poll: float | None,
        existing: bool,
        follow_links: bool = False,
        max_size: int | None = None,
    ) -> None:
        super().__init__(name)
        self._pattern = pattern
        self._forms = list(forms)
        self._context = context
        self._settle = settle
        self._poll = poll
        self._existing = existing
        self._follow_links = follow_links
        self._max_size = max_size
        self._looker: Looker | None = None
        self._watcher: FolderWatcher | None = None
        self._hints: Hints = set()
        self._missed = False  # hints may have been missed
        self._heard = asyncio.Event()

    async def open(self, cursor: str | None) -> None:
        await self.close()
        mount = None if cursor is None else from_json(cursor).get("mount")
        looker = Looker(
            self._pattern,
            FileLedger.of(await self._context.memory.items_of(self._context.app, self.name)),
            settle=self._settle,
            walk_every=self._poll,
            mount=mount,
            known_already=cursor is None and not self._existing,
            follow_links=self._follow_links,
            max_size=self._max_size,
        )
        await asyncio.to_thread(looker.open)
        if self._poll is None:
            # Watch before the first look, or changes between the two would be missed.
            self._watcher = FolderWatcher(self._pattern.root, deep=self._pattern.deep, heard=self._hear)
            try:
                await self._watcher.start()
            except OSError as error:
                message = (
                    f"{looker.where}: {self._pattern.root} cannot be watched ({error}): raise fs.inotify.max_user_watches and "
                    'max_user_instances, or poll instead: files(…, poll="5s")'
                )
                raise SourceTrouble(message) from error
        self._looker = looker

    async def read(self, within: float) -> Batch | None:
        looker = self._looker
        if looker is None:
            message = f"{self.name} is not open"
            raise SourceTrouble(message)
        until = time.monotonic() + within
        # A caller that does not wait wants the present state, so do not rely on hints.
        self._missed = self._missed or (not within and not looker.waiting)
        while True:
            self._heard.clear()
            hints, self._hints = self._hints, set()
            everything, self._missed = self._missed, False
            seen = await asyncio.to_thread(looker.look, hints, everything=everything)
            if not seen.empty:
                return self._batch(seen, looker)
            now = time.monotonic()
            if now >= until:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(until, looker.next_at) - now)):
                    await self._heard.wait()

    async def close(self) -> None:
        watcher, self._watcher = self._watcher, None
        looker, self._looker = self._looker, None
        self._hints = set()
        if looker is not None:
            looker.stopped = True  # at once, in case the next await is cancelled
            await asyncio.to_thread(looker.close)
        if watcher is not None:
            await watcher.stop()

    @property
    def waiting(self) -> int:
        """The number of files that may have something to report once they are complete."""
        return 0 if self._looker is None else self._looker.waiting

    @property
    def busy(self) -> bool:
        return self._looker is not None and (bool(self._hints) or self._looker.busy)

    def read_again(self, raw: bytes, headers: Mapping[str, str]) -> list[Event]:
        if MAPPED not in headers:
            message = "a file is reported by itself once it can be read: discard this entry"
            raise SourceTrouble(message)
        event = from_envelope(raw.decode())
        form = next((one for one in self._forms if one.source == event.source), None)
        if form is None:
            message = f"no agent takes events of {event.source} any more: discard this entry"
            raise SourceTrouble(message)
        apply_mapping(form.mapping, event)
        return [event]

    def refusals(self, raw: bytes) -> list[Unreadable]:
        return refusals(raw)

    def _hear(self, hints: Hints | None) -> None:
        if hints is None:
            self._missed = True
        else:
            self._hints |= hints
        self._heard.set()

    def _batch(self, seen: FilesSeen, looker: Looker) -> Batch:
        batch = Batch(
            items=list(seen.items.values()),
            unreadable=seen.unreadable,
            behind=looker.waiting,
            cursor=None if seen.mount is None else to_json({"mount": seen.mount}).decode(),
            recovered=[os.fsencode(os.path.join(self._pattern.root, path)) for path in (*seen.items, *seen.gone)],
        )
        for change in seen.changes:
            for form in self._forms:
                if change.operation in form.operations:
                    event = event_of(change, self._pattern, form.source)
                    plain = to_envelope(event)
                    try:
                        apply_mapping(form.mapping, event)
                    except InvalidEvent as error:
                        batch.unreadable.append(Unreadable(plain.encode(), str(error), {MAPPED: form.source}))
                    else:
                        batch.events.append(event)
        return batch


def event_of(change: FileChange, pattern: FilePattern, source: str) -> Event:
    """The event of a change. Its subject is the file."""
    whole = f"{pattern.root.rstrip('/')}/{change.path}"
    folder, _, name = whole.rpartition("/")
    data = {
        "path": whole,
        "folder": folder or "/",
        "name": name,
        "relative": change.path,
        "change": change.operation,
        "version": change.version,
        "size": change.sight.size,
        "modified": moment(change.sight.modified),
        "digest": change.digest,
    }
    return Event(source, f"{change.path}@{change.version}", f"file.{change.operation}", data, subject=whole)


def moment(nanoseconds: int) -> str | None:
    """As RFC 3339; None for a time outside the calendar."""
    try:
        return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def alike(options: Sequence[tuple[object, ...]], *, where: str) -> None:
    """Raise ConfigError unless triggers that share a reader have the same reading options."""
    if len(set(options)) > 1:
        message = (
            f"{where}: triggers of the same pattern must agree on settle, poll, existing, follow_links and max_size"
        )
        raise ConfigError(message)
