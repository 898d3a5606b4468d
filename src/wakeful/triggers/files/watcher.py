"""Receives hints from the operating system that something happened in a folder. A hint is not proof: a look finds out the facts.

It has a thread of its own, because the library waits in steps; the thread passes the hints to the event loop.

The library follows links to folders: a link to `/` would make it watch the whole disk, until the system runs out of watches. So if
there are such links, the folders are watched one by one, and the whole watch is rebuilt when a folder is added.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from wakeful.telemetry.logger import logger_of

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

STEP = 10  # milliseconds, like the next two
TOGETHER = 50
WAKE_EVERY = 10_000
MAKE_AGAIN_AFTER = 1.0

ADDED, MODIFIED, DELETED = 1, 2, 3

Hints = set[tuple[int, str]]  # kind of change and absolute path


class FolderWatcher:
    """Watches a folder; with `deep`, also the folders in it."""

    def __init__(self, root: str, *, deep: bool, heard: Callable[[Hints | None], None]) -> None:
        """`heard` is called in the event loop; with None if hints may have been missed."""
        self._root = root
        self._deep = deep
        self._heard = heard
        self._one_by_one = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self._log = logger_of(part="files", folder=root)

    async def start(self) -> None:
        """Start watching: changes after this are reported. Raises OSError if the folder cannot be watched."""
        notify = await asyncio.to_thread(self._make)
        self._thread = threading.Thread(target=self._run, args=(notify,), name=f"watch {self._root}", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(thread.join)

    def _make(self) -> RustNotify:
        from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

        folders = folders_beside_links(self._root) if self._deep else None
        self._one_by_one = folders is not None
        try:
            return RustNotify(folders or [self._root], False, False, 0, self._deep and folders is None, True)
        except WatchfilesRustInternalError as error:
            raise OSError(str(error)) from error

    def _run(self, notify: RustNotify) -> None:
        try:
            while not self._stop.is_set():
                again = self._listen(notify)
                if again is None:
                    return
                notify = again
        except RuntimeError:  # the event loop is closed
            pass
        finally:
            notify.close()

    def _listen(self, notify: RustNotify) -> RustNotify | None:
        """Listen until stopped (returns None), or until the library gives up, as it does for a name that is not UTF-8, or a new
        folder is not watched yet: then returns a new watch.
        """
        from watchfiles._rust_notify import WatchfilesRustInternalError

        try:
            while True:
                heard = notify.watch(TOGETHER, STEP, WAKE_EVERY, self._stop)
                if isinstance(heard, set):
                    self._loop.call_soon_threadsafe(self._heard, heard)
                    if self._one_by_one and has_new_folder(heard):
                        break
                elif heard == "stop":
                    return None
        except WatchfilesRustInternalError as error:
            self._log.warning("the watch broke off; it is restarted, and everything is checked", reason=str(error))
        notify.close()
        while not self._stop.wait(MAKE_AGAIN_AFTER):
            try:
                made = self._make()
            except OSError as error:
                self._log.warning("the folder cannot be watched for now", reason=str(error))
            else:
                self._loop.call_soon_threadsafe(self._heard, None)
                return made
        return None


def folders_beside_links(root: str) -> list[str] | None:
    """All folders below a folder, and itself, without linked ones, if there are links to folders; else None."""
    found, links = [], False
    for place, folders, _ in os.walk(root):  # does not follow links
        found.append(place)
        links = links or any(os.path.islink(os.path.join(place, one)) for one in folders)
    return found if links else None


def has_new_folder(hints: Hints) -> bool:
    return any(happened == ADDED and os.path.isdir(path) and not os.path.islink(path) for happened, path in hints)
