"""Finds out which files of a pattern have changed and are complete. Works in a thread; knows neither events nor a store.

    hint, walk ──► candidate ──(unchanged for `settle`)──► read ──► ledger ──► changes
                       ▲                                    │
                       └──── it changed in the meantime ◄───┘        large files are read in slices, between looks at all others

A missing folder says nothing about its files: an unmounted disk has not lost them. So before any file is reported as deleted, its
folder must still be the one that was opened.
"""

from __future__ import annotations

import errno
import heapq
import os
import threading
import time
from collections.abc import Callable, Iterable

from wakeful.size import in_bytes
from wakeful.stored_errors import words_of
from wakeful.stores.verbs.take_in import TOLD_THEN
from wakeful.triggers.files.contents import Contents, Stopped, open_file
from wakeful.triggers.files.large import Large, LargeFiles
from wakeful.triggers.files.ledger import UNREAD, FileChange, FileLedger, Known
from wakeful.triggers.files.mounts import mount_of
from wakeful.triggers.files.pattern import FilePattern
from wakeful.triggers.files.seen import LINK, SIZE, Candidate, FilesSeen, unfit
from wakeful.triggers.files.sight import Sight, look
from wakeful.triggers.files.walk import Walked, walk
from wakeful.triggers.files.watcher import ADDED, DELETED, Hints
from wakeful.triggers.source import SourceTrouble, Unreadable

MOST = 1_000
MOST_BYTES = 64 << 20
LARGE = 8 << 20  # larger files are read in slices
SLICE, SLICE_TAKES = 32 << 20, 0.1  # bytes and seconds; the first limit reached ends a slice
LINKS = frozenset({errno.ELOOP, errno.ENOTDIR})  # errors of the operating system for a link on the way
WALK_EVERY = 60.0
WALK_SHARE = 50  # walks take at most one part in this many of the time
MANY_HINTS = 1_000  # beyond this many at once, the operating system may have dropped some
SOON = 1.0
LOOK_AGAIN_AFTER = 0.05
# Two changes closer together than this can have the same timestamp.
TICK = 0.1
# How far the clock of another machine may differ before its times are ignored.
OTHER_CLOCKS = 3600.0
# A file that takes longer than this, because it is huge or is written on and on, does not count as on its way.
PATIENCE = 30.0


class Looker:
    """One opening of a source: from `open` until it is stopped."""

    def __init__(
        self,
        pattern: FilePattern,
        ledger: FileLedger,
        *,
        settle: float,
        walk_every: float | None = None,
        mount: str | None = None,
        known_already: bool = False,
        follow_links: bool = False,
        max_size: int | None = None,
        times: Callable[[], tuple[float, float]] = lambda: (time.monotonic(), time.time()),
    ) -> None:
        """`walk_every`: there are no hints. `known_already`: files found by the first look count as reported. `mount` is the mount
        point of the folder when it was last open. `times` returns the clock for waiting and the clock of file times.
        """
        self.pattern = pattern
        self.ledger = ledger
        self.stopped = False
        self._settle = settle
        self._hinted = walk_every is None
        self._walk_every = walk_every or WALK_EVERY
        self._mount = mount
        self._mount_told = False
        self._known_already = known_already
        self._follow = follow_links
        self._max_size = max_size
        self._large: LargeFiles[Candidate] = LargeFiles()
        self._at_work = threading.Lock()
        self._times = times
        self._folder = (0, 0)
        self._candidates: dict[str, Candidate] = {}
        self._order: list[tuple[float, str]] = []
        self._walk_at = 0.0
        self._folders_again: list[tuple[float, str]] = []
        self._hints = 0  # since the last walk over everything
        self._told: dict[str, str] = {}  # refused paths, with the reason

    @property
    def where(self) -> str:
        return f"files {self.pattern.whole}"

    @property
    def next_at(self) -> float:
        """When there is something to do, if no hint comes."""
        if self._large:
            return 0.0
        first = [at for at, _ in (*self._order[:1], *self._folders_again[:1])]
        return min(self._walk_at, *first) if first else self._walk_at

    @property
    def waiting(self) -> int:
        return len(self._candidates) + len(self._large)

    @property
    def busy(self) -> bool:
        """Whether something will come soon without a further change."""
        now = self._times()[0]
        early, late = now - self._settle - PATIENCE, now + PATIENCE
        if any(not one.changed or one.began > early for one in self._large.candidates()):
            return True
        return any(one.began > early and one.due < late for one in self._candidates.values())

    def open(self) -> None:
        """Check and remember the folder. Raises SourceTrouble if it cannot be listed."""
        root = self.pattern.root
        try:
            found = os.stat(root)
            if not os.path.isdir(root):
                message = f"{self.where}: {root} is not a folder: correct the pattern"
                raise SourceTrouble(message)
            with os.scandir(root) as entries:
                empty = next(entries, None) is None
        except OSError as error:
            raise self._trouble(error) from error
        self._folder = (found.st_dev, found.st_ino)
        mount = mount_of(root)
        if self._mount not in {None, mount} and empty and len(self._mount or "") > len(mount):
            message = (
                f"{self.where}: nothing is mounted at {self._mount}, unlike when the files were last read: mount it. They do "
                f"not count as deleted. If {root} is meant to be empty and not mounted, put any file there"
            )
            raise SourceTrouble(message)
        self._mount_told = self._mount == mount
        self._mount = mount
        single = os.path.join(root, *self.pattern.parts)
        if os.path.isdir(single):
            message = f'{self.where}: this is a folder: write "{single}/*" for the files in it'
            raise SourceTrouble(message)

    def close(self) -> None:
        """Close the files being read. Waits for a look in progress, which ends soon."""
        self.stopped = True
        with self._at_work:
            self._large.close()

    def look(self, hints: Hints, *, everything: bool = False) -> FilesSeen:
        """Process hints, or walk over everything, and report the files that are complete now; only a part, if there are many."""
        with self._at_work:
            if self.stopped:
                raise Stopped
            return self._look(hints, everything=everything)

    def _look(self, hints: Hints, *, everything: bool) -> FilesSeen:
        now = self._times()[0]
        self._check_folder()
        placed = renamed_into_place(hints)
        for path, away in self._hinted_paths(hints, now).items():
            self._notice(path, away=away, placed=os.path.join(self.pattern.root, path) in placed)
        if everything or now >= self._walk_at:
            self._walk(now)
        while self._folders_again and self._folders_again[0][0] <= now:
            self._walk_below(heapq.heappop(self._folders_again)[1])
        seen = FilesSeen()
        gone: list[str] = []
        read = 0
        most = MOST if not self._known_already else len(self._order)
        for path, candidate in self._due(most):
            if self._known_already or read < MOST_BYTES:
                read += self._examine(path, candidate, seen, gone)
            else:
                self._expect(path, candidate, candidate.due)
        self._read_on(seen)
        if gone:
            self._check_folder()
            for path in gone:
                if self._told.pop(path, None) is not None:
                    seen.gone.append(path)
                self._note(seen, path, self.ledger.gone(path))
        self._known_already = False
        if not self._mount_told:
            self._mount_told = True
            seen.mount = self._mount
        return seen

    # where

    def _check_folder(self) -> None:
        """Raise SourceTrouble unless the folder is still the one that was opened."""
        try:
            found = os.stat(self.pattern.root)
        except OSError as error:
            raise self._trouble(error) from error
        if (found.st_dev, found.st_ino) != self._folder:
            message = f"{self.where}: folder {self.pattern.root} was replaced by another; it is reopened"
            raise SourceTrouble(message)

    def _trouble(self, error: OSError) -> SourceTrouble:
        root = self.pattern.root
        if isinstance(error, FileNotFoundError):
            return SourceTrouble(
                f"{self.where}: folder {root} is missing: create it, mount it or correct the pattern. Files that were in it do "
                "not count as deleted; changes are found when it is back"
            )
        if isinstance(error, PermissionError):
            return SourceTrouble(
                f"{self.where}: folder {root} cannot be listed: give this process permission to read it"
            )
        return SourceTrouble(f"{self.where}: folder {root} cannot be read: {words_of(error)}")

    # who

    def _hinted_paths(self, hints: Hints, now: float) -> dict[str, bool]:
        """The matching paths, and whether each was away."""
        self._hints += len(hints)
        if self._hints > MANY_HINTS:
            self._walk_at = min(self._walk_at, now + SOON)
        start = self.pattern.root.rstrip("/") + "/"
        paths: dict[str, bool] = {}
        for happened, whole in hints:
            if not whole.startswith(start):
                if happened == DELETED:
                    message = f"{self.where}: folder {self.pattern.root} was removed or renamed; it is looked for again"
                    raise SourceTrouble(message)
                continue
            path = whole.removeprefix(start)
            if self.pattern.fits(path):
                paths[path] = paths.get(path, False) or happened == DELETED
            if not self.pattern.deep:
                continue
            if happened == DELETED and path in self.ledger.folders:
                self._walk_at = now
            elif happened == ADDED and os.path.isdir(whole) and not os.path.islink(whole):
                # Files put into a new folder before it is watched cause no hint.
                self._walk_below(path)
                heapq.heappush(self._folders_again, (now + SOON, path))
        return paths

    def _walk(self, now: float) -> None:
        try:
            found = walk(self.pattern, follow=self._follow)
        except OSError as error:
            raise self._trouble(error) from error
        self._compare(found, there=self.ledger.there())
        after = self._times()[0]
        self._walk_at = after + max(self._walk_every, (after - now) * WALK_SHARE)
        self._hints = 0

    def _walk_below(self, folder: str) -> None:
        try:
            self._compare(walk(self.pattern, folder, follow=self._follow), there=())
        except OSError:
            pass  # it is gone again, or the next walk over everything reports the problem

    def _compare(self, found: Walked, *, there: Iterable[str]) -> None:
        for path, sight in found.files.items():
            if not self.ledger.is_old_news(path, sight):
                self._notice(path)
        for path in [*there, *self._told]:
            if path not in found.files and not found.is_hidden(path):
                self._notice(path)
        for path in found.closed:
            self._notice(path, folder=True)

    # when

    def _notice(self, path: str, *, away: bool = False, folder: bool = False, placed: bool = False) -> None:
        """Make a path a candidate. `placed`: it may have just been renamed into place, complete."""
        now, today = self._times()
        candidate = self._candidates.get(path)
        try:
            sight = look(os.path.join(self.pattern.root, path), follow=self._follow)
        except OSError:
            sight, folder = None, True  # `_examine` reports why
        if candidate is None and (large := self._large.get(path)) is not None:
            if sight == large.sight:
                large.candidate.away = large.candidate.away or away
                return
            candidate = self._large.drop(path)  # the part already read is useless
            candidate.changed = True
        if candidate is None:
            away = away and self.ledger.is_there(path)
            refused = sight is None and path in self._told  # its disappearance is news, though it was never reported
            if not (away or folder or refused) and self.ledger.is_old_news(path, sight):
                return
            self._expect(path, Candidate(sight, 0.0, now, away), self._complete_at(sight, now, today, placed=placed))
            return
        candidate.away = candidate.away or (away and self.ledger.is_there(path))
        if candidate.sight != sight:
            candidate.sight = sight
            self._expect(path, candidate, self._complete_at(sight, now, today))

    def _complete_at(self, sight: Sight | None, now: float, today: float, *, placed: bool = False) -> float:
        """When a file that is no longer touched counts as complete. Its timestamp may show that this was long ago. A file whose name
        changed after its content, while another name disappeared, was renamed into place.
        """
        if sight is None:
            return now + self._settle
        if placed and sight.touched > sight.modified:
            return now
        age = today - sight.modified / 1e9
        if not self._hinted and age < OTHER_CLOCKS:  # a network folder: its clock is a different one
            return now + self._settle
        return now + self._settle - min(max(age, 0.0), self._settle)

    def _expect(self, path: str, candidate: Candidate, due: float) -> None:
        candidate.due = due
        self._candidates[path] = candidate
        heapq.heappush(self._order, (due, path))

    def _due(self, most: int) -> list[tuple[str, Candidate]]:
        """Remove and return the candidates that are due."""
        now = self._times()[0]
        taken: list[tuple[str, Candidate]] = []
        while self._order and self._order[0][0] <= now and len(taken) < most:
            due, path = heapq.heappop(self._order)
            candidate = self._candidates.get(path)
            if candidate is not None and candidate.due == due:  # else it was postponed
                del self._candidates[path]
                taken.append((path, candidate))
        return taken

    # what

    def _examine(self, path: str, candidate: Candidate, seen: FilesSeen, gone: list[str]) -> int:
        """Report what happened to a file, or keep waiting; returns the number of bytes read."""
        if self.stopped:
            raise Stopped
        whole = os.path.join(self.pattern.root, path)
        now, today = self._times()
        try:
            sight = look(whole, follow=self._follow)
            if sight != candidate.sight:
                candidate.sight = sight
                self._expect(path, candidate, max(self._complete_at(sight, now, today), now + LOOK_AGAIN_AFTER))
                return 0
            if sight is None:
                if os.path.islink(whole) and os.path.isdir(whole):
                    self._refuse_link(seen, path)
                    return 0
                if os.path.isdir(whole):
                    os.listdir(whole)  # raises the reason, if the folder still cannot be entered
                gone.append(path)
                return 0
            if not candidate.away and self.ledger.is_old_news(path, sight):
                return 0
            reason = unfit(path)
            if reason is not None:
                self._refuse(seen, path, reason)
                return 0
            if self._is_too_large(seen, path, sight):
                return 0
            if sight.size > LARGE:
                self._put_aside(seen, path, candidate, sight)
                return 0
            digest = self._digest(path, sight)
        except FileNotFoundError:
            self._expect(path, candidate, now + LOOK_AGAIN_AFTER)
            return 0
        except OSError as error:
            self._cannot_read(seen, path, error)
            return 0
        self._tell(seen, path, candidate, sight, digest)
        return sight.size

    def _digest(self, path: str, sight: Sight) -> str | None:
        """The digest of a small file; None: it is not the file that was seen, or it changed while it was read."""
        contents = Contents(open_file(self.pattern.root, path, follow=self._follow), sight)
        try:
            while not contents.read(LARGE, stopped=lambda: self.stopped):
                pass
            return contents.digest if contents.same else None
        finally:
            contents.close()

    def _tell(self, seen: FilesSeen, path: str, candidate: Candidate, sight: Sight, digest: str | None) -> None:
        """Report a file by its digest. Without a digest, wait until the file stops changing."""
        now, today = self._times()
        if digest is None:
            candidate.changed, candidate.sight = True, None
            self._expect(path, candidate, now + max(self._settle, LOOK_AGAIN_AFTER))
            return
        self._told.pop(path, None)
        sure = abs(today - sight.modified / 1e9) > TICK
        if self._known_already:
            self.ledger.write(path, Known(1, sight, digest, sure=sure))
            self._note(seen, path, [])
        else:
            self._note(seen, path, self.ledger.seen(path, sight, digest, sure=sure, away=candidate.away))

    # large files

    def _is_too_large(self, seen: FilesSeen, path: str, sight: Sight) -> bool:
        """Whether it exceeds max_size. Then it is not opened, only listed by name; at the first look, if not news, not even that."""
        if self._max_size is None or sight.size <= self._max_size:
            return False
        if self._known_already:
            self._record_unread(seen, path, sight, sure=True)
        else:
            most = in_bytes(self._max_size)
            self._refuse(
                seen, path, f"is larger than max_size ({most}) and is not read. Raise max_size, or remove it", SIZE
            )
        return True

    def _put_aside(self, seen: FilesSeen, path: str, candidate: Candidate, sight: Sight) -> None:
        """Read it in slices. A file of the first look is stored as not sure: if this process dies, the next one reads it."""
        if self._known_already:
            self._record_unread(seen, path, sight, sure=False)
        self._large.add(path, Large(candidate, sight))

    def _record_unread(self, seen: FilesSeen, path: str, sight: Sight, *, sure: bool) -> None:
        self.ledger.write(path, Known(1, sight, UNREAD, sure=sure))
        self._note(seen, path, [])

    def _read_on(self, seen: FilesSeen) -> None:
        """Read one slice of one large file, and report the file if that was the last slice."""
        turn = self._large.next()
        if turn is None:
            return
        path, large = turn
        whole = os.path.join(self.pattern.root, path)
        try:
            if large.contents is None:
                large.contents = Contents(open_file(self.pattern.root, path, follow=self._follow), large.sight)
            if not large.contents.read(SLICE, within=SLICE_TAKES, stopped=lambda: self.stopped):
                return
            # The name may belong to another file now.
            same = large.contents.same and look(whole, follow=self._follow) == large.sight
            digest = large.contents.digest if same else None
        except FileNotFoundError:
            digest = None
        except OSError as error:
            self._large.drop(path)
            self._cannot_read(seen, path, error)
            return
        self._large.drop(path)
        self._tell(seen, path, large.candidate, large.sight, digest)

    def _note(self, seen: FilesSeen, path: str, changes: list[FileChange]) -> None:
        seen.changes += changes
        if path in self.ledger.paths:
            seen.items[path] = self.ledger.paths[path].item(path)

    def _cannot_read(self, seen: FilesSeen, path: str, error: OSError) -> None:
        if error.errno in LINKS:
            self._refuse_link(seen, path)
        else:
            self._refuse(seen, path, f"cannot be read ({error.strerror}): give this process permission, or remove it")

    def _refuse_link(self, seen: FilesSeen, path: str) -> None:
        if os.path.isdir(os.path.join(self.pattern.root, path)):
            reason = (
                "is a link to a folder, which is not entered: give the folder a files(…) of its own, or remove the link"
            )
        elif self._follow:
            reason = "is a broken link: correct it, or remove it"
        else:
            reason = (
                "is a link, or is behind one, and links are not followed: put the file itself there, or declare "
                "files(…, follow_links=True)"
            )
        self._refuse(seen, path, reason, LINK)

    def _refuse(self, seen: FilesSeen, path: str, reason: str, kind: str | None = None) -> None:
        """Report a refused path once, until the reason changes. `kind` lets one path be listed for several reasons in turn."""
        if self._told.get(path) == reason:
            return
        self._told[path] = reason
        raw = os.fsencode(os.path.join(self.pattern.root, path))
        words = f"{raw.decode(errors='backslashreplace')} {reason}. {TOLD_THEN}"
        seen.unreadable.append(Unreadable(raw, words, {} if kind is None else {"reason": kind}, size=0))


def renamed_into_place(hints: Hints) -> set[str]:
    """Names that appeared while another name disappeared: this is how a rename looks, though it may be something else."""
    gone = {path for happened, path in hints if happened == DELETED}
    added = {path for happened, path in hints if happened == ADDED}
    return added - gone if gone - added else set()
