"""Lists all files that match a pattern now."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

from wakeful.triggers.files.pattern import FilePattern, Places
from wakeful.triggers.files.sight import Sight, sight_of

LINK = OSError(errno.ELOOP, os.strerror(errno.ELOOP))


@dataclass(slots=True)
class Walked:
    """The result of a walk. For `closed` paths it is unknown whether they exist."""

    files: dict[str, Sight] = field(default_factory=dict)
    closed: dict[str, OSError] = field(default_factory=dict)  # folders and files; also links that are not followed

    def is_hidden(self, path: str) -> bool:
        """Whether the path, or a folder on the way to it, is closed."""
        while path:
            if path in self.closed:
                return True
            path = path.rpartition("/")[0]
        return False


def walk(pattern: FilePattern, below: str = "", *, follow: bool = False) -> Walked:
    """The files in the root, or in one folder of it. Raises OSError if that cannot be listed. Linked folders are never entered; with
    `follow`, a link to a file stands for its target.
    """
    found = Walked()
    places = pattern.start
    for name in filter(None, below.split("/")):
        places = pattern.enter(places, name)
    waiting: list[tuple[str, Places]] = [(below, places)] if places else []
    while waiting:
        folder, places = waiting.pop()
        try:
            with os.scandir(os.path.join(pattern.root, folder)) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    deeper = _take(entry, path, places, pattern, found, follow=follow)
                    if deeper:
                        waiting.append((path, deeper))
        except (FileNotFoundError, NotADirectoryError):
            if folder == below:
                raise
        except OSError as error:
            if folder == below:
                raise
            found.closed[folder] = error
    return found


def _take(
    entry: os.DirEntry[str], path: str, places: Places, pattern: FilePattern, found: Walked, *, follow: bool
) -> Places | None:
    """Record a matching file; for a folder to enter, return the positions in it."""
    try:
        if entry.is_symlink() and _is_unfollowed_link(entry, places, pattern, follow=follow):
            found.closed[path] = LINK
            return None
        if pattern.deep and entry.is_dir(follow_symlinks=False):
            return pattern.enter(places, entry.name)
        if pattern.means(places, entry.name):
            sight = sight_of(entry.stat(follow_symlinks=follow))
            if sight is not None:
                found.files[path] = sight
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        found.closed[path] = error
    return None


def _is_unfollowed_link(entry: os.DirEntry[str], places: Places, pattern: FilePattern, *, follow: bool) -> bool:
    """Whether this link is relevant but not followed. Of its target, only whether it is a folder is looked at."""
    if pattern.deep and pattern.enter(places, entry.name) and entry.is_dir():
        return True
    return not follow and pattern.means(places, entry.name)
