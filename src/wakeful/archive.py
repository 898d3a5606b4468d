"""Archives: runs as lines of JSON, in files that outlive the store.

One run is one line, the same object as `GET /v1/runs/{id}`. A line is on disk before its run is removed from the store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from wakeful.clock import Microseconds, to_datetime
from wakeful.private_files import FILE, make_folder
from wakeful.redaction import redact_bytes


def line_of(run: Mapping[str, Any]) -> bytes:
    """One run, with known secrets redacted: other people read an archive than the store."""
    return redact_bytes(to_json(run, inf_nan_mode="strings")) + b"\n"


def append_to_day(folder: Path, runs: Sequence[Mapping[str, Any]], now: Microseconds) -> Path:
    """Append runs to today's file; they are on disk when this returns. A line that a crash cut short is left as a line
    of its own: its run is still in the store and is written again in full.
    """
    make_folder(folder)
    path = folder / f"{to_datetime(now).date().isoformat()}.jsonl"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        text = (b"\n" if torn else b"") + b"".join(map(line_of, runs))
        written = os.write(handle, text)
        while written < len(text):
            written += os.write(handle, text[written:])
        os.fsync(handle)
    finally:
        os.close(handle)
    if size == 0:
        sync_folder(folder)
    return path


def sync_folder(folder: Path) -> None:
    """Sync a folder: a new file name is on disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
