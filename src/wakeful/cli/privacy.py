"""What other users of this machine may do with the files of a store and an app. Wakeful creates private files; files of
older versions or other programs keep their mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from wakeful.output.channels.file import File
from wakeful.private_files import OF_OTHERS, WRITABLE, mode_of

if TYPE_CHECKING:
    from wakeful.declarations import Declarations

Exposed = tuple[str, str]  # the exposure, and the command that ends it


def exposed(store: Path | None, app: Declarations | None) -> Iterator[Exposed]:
    """Files and folders that other users may read or write, each with its remedy."""
    folders: list[Path] = []
    if store is not None:
        beside = [store.with_name(f"{store.name}{ending}") for ending in ("", "-wal", "-shm", "-journal")]
        yield from _files([one for one in beside if one.exists()])
        folders.append(store.absolute().parent)
    for channel in {} if app is None else app.channels.values():
        if isinstance(channel, File):
            if channel.path.is_file() and mode_of(channel.path) & OF_OTHERS & ~channel.mode:
                yield from _files([channel.path])
            folders.append(channel.path.absolute().parent)
    if app is not None and app.archive is not None and app.archive.is_dir():
        yield from _files(sorted(app.archive.glob("*.jsonl")))
        folders.append(app.archive.absolute())
    for folder in dict.fromkeys(folders):
        yield from _folder(folder)


def _files(paths: list[Path]) -> Iterator[Exposed]:
    found = [path for path in paths if mode_of(path) & OF_OTHERS]
    if found:
        names = ", ".join(f"{path} (mode {mode_of(path):04o})" for path in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        do = "read and change" if any(mode_of(path) & WRITABLE for path in found) else "read"
        which = found if len(found) <= 3 else [found[0].parent / f"*{found[0].suffix}"]
        where = " ".join(quote(str(path)) if len(found) <= 3 else str(path) for path in which)
        yield f"other users can {do} {names}{more}", f"chmod go-rwx {where}"


def _folder(folder: Path) -> Iterator[Exposed]:
    if not folder.is_dir():
        return
    facts = folder.stat()
    mode = stat.S_IMODE(facts.st_mode)
    writable = mode & WRITABLE and not mode & stat.S_ISVTX  # in a sticky folder other users cannot remove our files
    do = "add files to, and remove ours from," if writable else "list" if mode & 0o044 else None
    if do is not None:
        ours = facts.st_uid == os.geteuid() and not mode & stat.S_ISVTX
        remedy = f"chmod go-rwx {quote(str(folder))}" if ours else "move it into its own folder with mode 0700"
        yield f"other users can {do} the folder {folder} (mode {mode:04o})", remedy
