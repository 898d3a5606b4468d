"""All files that a pattern means, as they are now."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

from wakeful.triggers.files.pattern import Pattern, Places
from wakeful.triggers.files.sight import Sight, sight_of

LINK = OSError(errno.ELOOP, os.strerror(errno.ELOOP))


@dataclass(slots=True)
class Walked:
    """What a walk found. Of what is `closed`, nothing can be said: neither that something is there nor that it is not."""

    files: dict[str, Sight] = field(default_factory=dict)
    closed: dict[str, OSError] = field(default_factory=dict)  # folders and files; links that are not followed, too

    def is_hidden(self, path: str) -> bool:
        """Is it, or a folder that it is in, closed?"""
        while path:
            if path in self.closed:
                return True
            path = path.rpartition("/")[0]
        return False


def walk(pattern: Pattern, below: str = "", *, follow: bool = False) -> Walked:
    """The files in the root, or in one folder of it. OSError: that cannot be listed. Folders that are links are never entered; links
    to files are what they point at, with `follow`.
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
    entry: os.DirEntry[str], path: str, places: Places, pattern: Pattern, found: Walked, *, follow: bool
) -> Places | None:
    """Note a file that is meant; where one stands in a folder that is to be entered."""
    try:
        if entry.is_symlink() and _is_shut(entry, places, pattern, follow=follow):
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


def _is_shut(entry: os.DirEntry[str], places: Places, pattern: Pattern, *, follow: bool) -> bool:
    """Is it a link that would be followed, if links were? Where it leads is not looked at, but for whether that is a folder."""
    if pattern.deep and pattern.enter(places, entry.name) and entry.is_dir():
        return True
    return not follow and pattern.means(places, entry.name)
