"""Looks at the files of a pattern: who changed, and is it complete? Works in a thread; knows neither events nor a store.

    hint, walk ──► candidate ──(as it is for `settle`)──► read ──► ledger ──► changes
                       ▲                                   │
                       └──── it changed in the meantime ◄──┘        large files are read in slices, between two looks at all others

A folder that is not there says nothing about its files: a disk that is not mounted has not lost them. So before any file is
told to be deleted, its folder must be the one that was opened.
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
from wakeful.triggers.files.pattern import Pattern
from wakeful.triggers.files.seen import LINK, SIZE, Candidate, FilesSeen, unfit
from wakeful.triggers.files.sight import Sight, look
from wakeful.triggers.files.walk import Walked, walk
from wakeful.triggers.files.watcher import ADDED, DELETED, Hints
from wakeful.triggers.source import SourceTrouble, Unreadable

MOST = 1_000
MOST_BYTES = 64 << 20
LARGE = 8 << 20  # what is larger is read in slices
SLICE, SLICE_TAKES = 32 << 20, 0.1  # bytes and seconds, whichever is over first
LINKS = frozenset({errno.ELOOP, errno.ENOTDIR})  # what the operating system says of a link on the way
WALK_EVERY = 60.0
WALK_SHARE = 50  # of the time, at most one part in so many is spent on walks
MANY_HINTS = 1_000  # of so many at once the operating system may have dropped some
SOON = 1.0
LOOK_AGAIN_AFTER = 0.05
# Two changes that are closer to each other than this can bear the same time.
TICK = 0.1
# How far the clock of another machine may be off before it is taken for a lie.
OTHER_CLOCKS = 3600.0
# What takes longer than this, because it must or because somebody writes on and on, is not on its way.
PATIENCE = 30.0


class Looker:
    """One opening of a source: from `open` on, until it is stopped."""

    def __init__(
        self,
        pattern: Pattern,
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
        """`walk_every`: nobody gives hints. `known_already`: what is there at the first look is taken as told. `mount` is the
        mount point of the folder, when it was last open. `times` are those for waiting, and those that files bear.
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
        self._hints = 0  # since everything was last looked at
        self._told: dict[str, str] = {}  # what could not be read, and why

    @property
    def where(self) -> str:
        return f"files {self.pattern.whole}"

    @property
    def next_at(self) -> float:
        """When there is something to do, if nobody gives a hint."""
        if self._large:
            return 0.0
        first = [at for at, _ in (*self._order[:1], *self._folders_again[:1])]
        return min(self._walk_at, *first) if first else self._walk_at

    @property
    def waiting(self) -> int:
        return len(self._candidates) + len(self._large)

    @property
    def busy(self) -> bool:
        """Will something come by itself, soon?"""
        now = self._times()[0]
        early, late = now - self._settle - PATIENCE, now + PATIENCE
        if any(not one.changed or one.began > early for one in self._large.candidates()):
            return True
        return any(one.began > early and one.due < late for one in self._candidates.values())

    def open(self) -> None:
        """SourceTrouble: it cannot be looked at."""
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
                f"{self.where}: nothing is mounted at {self._mount}, as it was when the files were last read: mount it. They do "
                f"not count as deleted. If {root} is meant to be empty and without it, put any file there"
            )
            raise SourceTrouble(message)
        self._mount_told = self._mount == mount
        self._mount = mount
        single = os.path.join(root, *self.pattern.parts)
        if os.path.isdir(single):
            message = f'{self.where}: that is a folder: write "{single}/*" for the files in it'
            raise SourceTrouble(message)

    def close(self) -> None:
        """Let go of the files that are being read. Waits for a look that is under way, which ends soon."""
        self.stopped = True
        with self._at_work:
            self._large.close()

    def look(self, hints: Hints, *, everything: bool = False) -> FilesSeen:
        """Take hints, or walk over everything, and tell what is complete by now; some of it, if it is much."""
        with self._at_work:
            if self.stopped:
                raise Stopped
            return self._look(hints, everything=everything)

    def _look(self, hints: Hints, *, everything: bool) -> FilesSeen:
        now = self._times()[0]
        self._be_there()
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
            self._be_there()
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

    def _be_there(self) -> None:
        """Is the folder still the one that was opened?"""
        try:
            found = os.stat(self.pattern.root)
        except OSError as error:
            raise self._trouble(error) from error
        if (found.st_dev, found.st_ino) != self._folder:
            message = f"{self.where}: folder {self.pattern.root} was replaced by another; it is opened anew"
            raise SourceTrouble(message)

    def _trouble(self, error: OSError) -> SourceTrouble:
        root = self.pattern.root
        if isinstance(error, FileNotFoundError):
            return SourceTrouble(
                f"{self.where}: folder {root} is not there: make it, mount it or correct the pattern. Files that were in it do "
                "not count as deleted; what has changed is found when it is back"
            )
        if isinstance(error, PermissionError):
            return SourceTrouble(
                f"{self.where}: folder {root} cannot be listed: give this process the right to read it"
            )
        return SourceTrouble(f"{self.where}: folder {root} cannot be read: {words_of(error)}")

    # who

    def _hinted_paths(self, hints: Hints, now: float) -> dict[str, bool]:
        """The paths that are meant, and whether each was away."""
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
                # What is put into a new folder before that is watched is not heard of.
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
            pass  # it is gone again, or the next walk over everything says what is the matter with it

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
        """Something may have happened to it. `placed`: it may have got its name just now, and have been complete before."""
        now, today = self._times()
        candidate = self._candidates.get(path)
        try:
            sight = look(os.path.join(self.pattern.root, path), follow=self._follow)
        except OSError:
            sight, folder = None, True  # whoever examines it says why
        if candidate is None and (large := self._large.get(path)) is not None:
            if sight == large.sight:
                large.candidate.away = large.candidate.away or away
                return
            candidate = self._large.drop(path)  # what was read of it is of no use
            candidate.changed = True
        if candidate is None:
            away = away and self.ledger.is_there(path)
            refused = sight is None and path in self._told  # that it is gone is news, though nothing was told of it
            if not (away or folder or refused) and self.ledger.is_old_news(path, sight):
                return
            self._expect(path, Candidate(sight, 0.0, now, away), self._complete_at(sight, now, today, placed=placed))
            return
        candidate.away = candidate.away or (away and self.ledger.is_there(path))
        if candidate.sight != sight:
            candidate.sight = sight
            self._expect(path, candidate, self._complete_at(sight, now, today))

    def _complete_at(self, sight: Sight | None, now: float, today: float, *, placed: bool = False) -> float:
        """When a file that is not touched any more counts as complete. Its own time may say that this was long ago; and one whose
        name changed after what it holds, while another name went away, was renamed into its place.
        """
        if sight is None:
            return now + self._settle
        if placed and sight.touched > sight.modified:
            return now
        age = today - sight.modified / 1e9
        if not self._hinted and age < OTHER_CLOCKS:  # a network's: its clock is another
            return now + self._settle
        return now + self._settle - min(max(age, 0.0), self._settle)

    def _expect(self, path: str, candidate: Candidate, due: float) -> None:
        candidate.due = due
        self._candidates[path] = candidate
        heapq.heappush(self._order, (due, path))

    def _due(self, most: int) -> list[tuple[str, Candidate]]:
        """Those whose time has come, taken out."""
        now = self._times()[0]
        taken: list[tuple[str, Candidate]] = []
        while self._order and self._order[0][0] <= now and len(taken) < most:
            due, path = heapq.heappop(self._order)
            candidate = self._candidates.get(path)
            if candidate is not None and candidate.due == due:  # else it was put off
                del self._candidates[path]
                taken.append((path, candidate))
        return taken

    # what

    def _examine(self, path: str, candidate: Candidate, seen: FilesSeen, gone: list[str]) -> int:
        """Tell what happened to it, or go on waiting; returns how much of it was read."""
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
                    os.listdir(whole)  # a folder that could not be entered: if it still cannot, this says why
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
        """Of what a small file holds; None: it is not the one that was seen, or changed while it was read."""
        contents = Contents(open_file(self.pattern.root, path, follow=self._follow), sight)
        try:
            while not contents.read(LARGE, stopped=lambda: self.stopped):
                pass
            return contents.digest if contents.same else None
        finally:
            contents.close()

    def _tell(self, seen: FilesSeen, path: str, candidate: Candidate, sight: Sight, digest: str | None) -> None:
        """What follows from what it holds. None: it is not known, and it is waited for until it stays as it is."""
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
        """It is not opened then, and listed by its name. What was there at the first look, and is no news, is not even that."""
        if self._max_size is None or sight.size <= self._max_size:
            return False
        if self._known_already:
            self._know_unread(seen, path, sight, sure=True)
        else:
            most = in_bytes(self._max_size)
            self._refuse(
                seen, path, f"is larger than max_size ({most}): it is not read. Raise max_size, or remove it", SIZE
            )
        return True

    def _put_aside(self, seen: FilesSeen, path: str, candidate: Candidate, sight: Sight) -> None:
        """To be read in slices. Not sure of one that was there at the first look: should this process die, the next one reads it."""
        if self._known_already:
            self._know_unread(seen, path, sight, sure=False)
        self._large.add(path, Large(candidate, sight))

    def _know_unread(self, seen: FilesSeen, path: str, sight: Sight, *, sure: bool) -> None:
        self.ledger.write(path, Known(1, sight, UNREAD, sure=sure))
        self._note(seen, path, [])

    def _read_on(self, seen: FilesSeen) -> None:
        """One slice of one large file, and what follows if that was the last."""
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
            # The name may be another file's by now.
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
            self._refuse(seen, path, f"cannot be read ({error.strerror}): give this process the right to, or remove it")

    def _refuse_link(self, seen: FilesSeen, path: str) -> None:
        if os.path.isdir(os.path.join(self.pattern.root, path)):
            reason = "is a link to a folder, and those are not entered: give the folder a files(…) of its own, or remove the link"
        elif self._follow:
            reason = "is a link that leads nowhere: correct it, or remove it"
        else:
            reason = (
                "is a link, or lies behind one, and links are not followed: put the file itself there, or declare "
                "files(…, follow_links=True)"
            )
        self._refuse(seen, path, reason, LINK)

    def _refuse(self, seen: FilesSeen, path: str, reason: str, kind: str | None = None) -> None:
        """Said once, for as long as it is so. `kind` lets one path be listed for several reasons, one after the other."""
        if self._told.get(path) == reason:
            return
        self._told[path] = reason
        raw = os.fsencode(os.path.join(self.pattern.root, path))
        words = f"{raw.decode(errors='backslashreplace')} {reason}. {TOLD_THEN}"
        seen.unreadable.append(Unreadable(raw, words, {} if kind is None else {"reason": kind}, size=0))


def renamed_into_place(hints: Hints) -> set[str]:
    """Those that appeared while another name went away: a renaming is heard of so, and perhaps something else."""
    gone = {path for happened, path in hints if happened == DELETED}
    added = {path for happened, path in hints if happened == ADDED}
    return added - gone if gone - added else set()
