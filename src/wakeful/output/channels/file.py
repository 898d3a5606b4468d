"""`file("reports.jsonl")`: one line of JSON for each message, at the end of a file.

    open ─► lock ─► is the last line whole? ─► one write ─► fsync ─► close

Each batch opens the file again, so that it may be moved away at any time. The lock is for other workers that write to
the same file. A crash in the middle of a write leaves half a line; the next batch then begins on a new line, and the
messages of that half come again. Readers should skip lines that are not JSON, and ids they have seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wakeful.errors import ConfigError, Transient
from wakeful.functions.call import in_thread
from wakeful.output.channels.base import Channel, Message
from wakeful.output.channels.record import to_record
from wakeful.private_files import FILE


class File(Channel):
    """Appends messages to a file, durably."""

    repeats = "known"
    most = 200

    def __init__(self, path: str | os.PathLike[str], *, mode: int = FILE) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            message = f'file({path!r}): name a file, like file("reports.jsonl")'
            raise ConfigError(message)
        if not isinstance(mode, int) or mode & ~0o666 or mode & FILE != FILE:
            message = f"file({path!r}): mode must let this user read and write the file, like 0o640, not {mode!r}"
            raise ConfigError(message)
        self.path = Path(path).expanduser()
        self.mode = mode

    async def deliver(self, messages: Sequence[Message]) -> None:
        lines = b"".join(to_record(message) + b"\n" for message in messages)
        await in_thread(self._append, (lines,), {})

    def _append(self, lines: bytes) -> None:
        """Append lines. Every error is transient: a person can fix the file while the messages wait."""
        try:
            append(self.path, lines, self.mode)
        except FileNotFoundError:
            message = f"file {self.path}: the folder {self.path.parent} does not exist: create it"
            raise Transient(message) from None
        except PermissionError:
            message = f"file {self.path}: not writable for the user of this process: change its owner or its mode"
            raise Transient(message) from None
        except IsADirectoryError:
            message = f"file {self.path}: this is a folder: move it away"
            raise Transient(message) from None
        except OSError as error:
            message = f"file {self.path}: {error.strerror or error}"
            raise Transient(message) from error

    def describe(self) -> dict[str, Any]:
        return {"kind": "file", "path": str(self.path)}

    def __repr__(self) -> str:
        return f'file("{self.path}")'


def file(path: str | os.PathLike[str], *, mode: int = FILE) -> File:
    """One line of JSON for each message, appended to this file. Its folder must exist. `mode` is for a new file: by
    default only this user may read it.
    """
    return File(path, mode=mode)


def append(path: Path, lines: bytes, mode: int = FILE) -> None:
    """Append whole lines to a file, beginning on a new line; they are on disk when this returns."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            message = "this is a device or a pipe, not a regular file: move it away"
            raise OSError(message)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if size == 0:  # a new file: its name must be on disk too
        with contextlib.suppress(PermissionError):  # this user may write to the folder but not read it
            _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
