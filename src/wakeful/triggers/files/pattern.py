"""Which files a pattern matches: a fixed folder, and below it the paths that match the rest of the pattern.

    /srv/inbox/**/in-?/*.md          root /srv/inbox, parts ** · in-? · *.md

    *      any characters of one name, not across /          ?      one character
    [abc]  one of these, [!abc] any other                    **     any number of folders, or none; only between slashes

As in a shell, a wildcard at the beginning of a name does not match a dot: hidden files must be named as such.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from wakeful.errors import ConfigError

ANY_FOLDERS = "**"
LONGEST_PATTERN = 1_000

_WILD = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{[^{}/]*,[^{}/]*\}")
_PIECES = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)

# Positions in the parts that a path may have reached: several at once, because of `**`.
Places = frozenset[int]


@dataclass(frozen=True, slots=True)
class FilePattern:
    """A parsed pattern. Paths are relative to its root and written with slashes."""

    root: str
    parts: tuple[str, ...]
    _fits: tuple[Callable[[str], bool] | None, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fits = tuple(None if part == ANY_FOLDERS else _name_matcher(part) for part in self.parts)
        object.__setattr__(self, "_fits", fits)

    @property
    def whole(self) -> str:
        """The absolute pattern."""
        return os.path.join(self.root, *self.parts)

    @property
    def deep(self) -> bool:
        """Whether it can match files in folders below its root."""
        return len(self.parts) > 1

    @property
    def start(self) -> Places:
        return self._spread({0})

    def enter(self, places: Places, name: str) -> Places:
        """The positions reached in a folder of that name; empty: nothing in it can match."""
        reached: set[int] = set()
        for place in places:
            fits = self._fits[place]
            if fits is None:
                if not name.startswith("."):
                    reached.add(place)
            elif place < len(self.parts) - 1 and fits(name):
                reached.add(place + 1)
        return self._spread(reached)

    def means(self, places: Places, name: str) -> bool:
        """Whether a file of that name matches, in a folder with these positions."""
        last = self._fits[-1]
        return len(self.parts) - 1 in places and last is not None and last(name)

    def fits(self, path: str) -> bool:
        """Whether the file at that path matches."""
        *folders, name = path.split("/")
        places = self.start
        for folder in folders:
            places = self.enter(places, folder)
        return self.means(places, name)

    def _spread(self, places: Iterable[int]) -> Places:
        """Add the positions reached because `**` may match no folder at all."""
        spread = set(places)
        for place in sorted(spread):
            while self.parts[place] == ANY_FOLDERS:
                place += 1
                spread.add(place)
        return frozenset(spread)


def read_pattern(given: object) -> FilePattern:
    """Parse a pattern as written in an app. A relative one starts in the working directory of the process."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if not isinstance(given, str) or not given.strip():
        message = f'files({given!r}): the pattern must be text, like files("inbox/*.md")'
        raise ConfigError(message)
    where = f'files("{given if len(given) < 100 else given[:99] + "…"}")'
    _refuse_odd(given, where)
    folders, name = os.path.split(os.path.expanduser(given))
    if folders.startswith("~"):
        message = f"{where}: there is no user {folders.split('/')[0]}: write the whole path"
        raise ConfigError(message)
    fixed, wild = _divide(folders)
    try:
        root = os.path.abspath(fixed)
    except OSError as error:
        message = f"{where}: the working directory is gone ({error.strerror}): write an absolute path"
        raise ConfigError(message) from None
    if ".." in wild:
        message = f'{where}: ".." cannot follow a wildcard: name the folder itself'
        raise ConfigError(message)
    parts = [part for part in (*wild, name) if part != "."]
    if parts[-1] == ANY_FOLDERS:  # everything below
        parts.append("*")
    for part in parts:
        if ANY_FOLDERS in part and part != ANY_FOLDERS:
            message = (
                f'{where}: "**" stands for whole folders, between slashes: write "**/*{part.strip("*")}", or one *'
            )
            raise ConfigError(message)
        _name_matcher(part, where=where)
    pattern = FilePattern(root, tuple(parts))
    if len(os.fsencode(pattern.whole)) > LONGEST_PATTERN:
        message = f"{where}: with its folder the pattern is over {LONGEST_PATTERN:,} bytes: use a shorter path"
        raise ConfigError(message)
    return pattern


def _refuse_odd(given: str, where: str) -> None:
    if "\0" in given or not given.isprintable():
        message = f"files({given[:100]!r}): the pattern contains characters that cannot be printed"
        raise ConfigError(message)
    if given.endswith(("/", "/.", "/..")) or given in {".", "..", "~"}:
        message = f'{where}: this is a folder: write "{given.rstrip("/")}/*" for the files in it'
        raise ConfigError(message)
    if _BRACES.search(given):
        message = f"{where}: alternatives in braces are not supported: give the agent one files(…) for each"
        raise ConfigError(message)


def _divide(folders: str) -> tuple[str, list[str]]:
    """The folders before the first wildcard, and the rest."""
    names = folders.split("/")
    wild = next((number for number, name in enumerate(names) if _WILD.search(name)), len(names))
    fixed = "/".join(names[:wild]) or ("/" if folders.startswith("/") else ".")
    return fixed, [name for name in names[wild:] if name]


def _name_matcher(part: str, *, where: str = "files") -> Callable[[str], bool]:
    """A function that tells whether a name matches one part of a pattern."""
    if not _WILD.search(part):
        return part.__eq__
    pieces = [_expression(piece, where) for piece in _stars(part)]
    hidden = r"(?!\.)" if part[0] in "*?[" else ""
    if len(pieces) == 1:
        return _searching(hidden + pieces[0])
    first, *middle, last = pieces
    # Atomic groups: each piece takes its first match and never gives it back, as in every glob.
    groups = "".join(f"(?>.*?{piece})" for piece in middle)
    return _searching(f"{hidden}{first}{groups}.*{last}")


def _stars(part: str) -> list[list[str]]:
    """The pieces of a part between its stars; a star in brackets is an ordinary character."""
    between: list[list[str]] = [[]]
    for piece in _PIECES.findall(part):
        if piece == "*":
            between.append([])
        else:
            between[-1].append(piece)
    return between


def _expression(pieces: list[str], where: str) -> str:
    written = []
    for piece in pieces:
        if piece == "?":
            written.append(".")
        elif piece == "[":
            message = f'{where}: a "[" is not closed: close it, or write "[[]" for the character itself'
            raise ConfigError(message)
        elif piece.startswith("[") and len(piece) > 1:
            written.append(_one_of(piece, where))
        else:
            written.append(re.escape(piece))
    return "".join(written)


def _one_of(piece: str, where: str) -> str:
    negated = piece[1] == "!"
    inside = piece[2 if negated else 1 : -1]
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside)
    try:
        re.compile(f"[{escaped}]")
    except re.error:
        message = f'{where}: "{piece}" is not a range of characters: write "[a-z]", the lower one first'
        raise ConfigError(message) from None
    return f"[{'^' if negated else ''}{escaped}]"


def _searching(expression: str) -> Callable[[str], bool]:
    search = re.compile(expression, re.DOTALL).fullmatch
    return lambda name: search(name) is not None
