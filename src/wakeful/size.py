"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

# As on a disk's label: a kB is 1,000 bytes, a KiB is 1,024.
UNITS = {"b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE = re.compile(r"([0-9]+)\s*([A-Za-z]+)").fullmatch


def read_size(given: str | int) -> int:
    """Read "64kB", "1MB", "2MiB" or a number of bytes. ValueError says how to write one.

    >>> read_size("64kB")
    64000
    """
    size = given if isinstance(given, int) and not isinstance(given, bool) else 0
    if isinstance(given, str) and (match := _SIZE(given.strip())) is not None:
        size = int(match[1]) * UNITS.get(match[2].lower(), 0)
    if size < 1:
        message = f'{given!r} is not a size: write a number of bytes, or "64kB", "1MB", "2MiB"'
        raise ValueError(message)
    return size


def in_bytes(count: int) -> str:
    """A size for people: 12.3 kB, 1.2 GB."""
    size: float = count
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
