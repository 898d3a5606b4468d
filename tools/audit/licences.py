"""The licence of every locked production package, read from its installed metadata.

A licence that is not listed fails the audit: a person reads it first, and then adds it here with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.markers import Marker

# Permissive: may be used and shipped with a program under Apache-2.0.
ALLOWED = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense", "Zlib"}
)

# Allowed for one package only, each with the reason.
NAMED = {
    "apsw": ("any-OSI", "its author grants any licence that the OSI approved"),
    "psycopg": ("LGPL-3.0-only", "an optional extra: imported, neither changed nor shipped with Wakeful"),
    "psycopg-binary": ("LGPL-3.0-only", "an optional extra: imported, neither changed nor shipped with Wakeful"),
}

# Names used before SPDX expressions. "BSD License" does not say which one; both are allowed.
OLDER = {
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "python software foundation license": "PSF-2.0",
}
CLASSIFIER = re.compile(r"License :: OSI Approved :: (.+)")

Metadata = Callable[[str], "metadata.PackageMetadata"]


@dataclass(frozen=True)
class Found:
    """The metadata of one package; `licence` is None if it states nothing readable."""

    name: str
    version: str
    licence: str | None
    trouble: str | None = None


def look(name: str, version: str, marker: str | None, read: Metadata = metadata.metadata) -> Found | None:
    """The licence of one locked package, or None if the package is not for this platform."""
    try:
        about = read(name)
    except metadata.PackageNotFoundError:
        if marker and not Marker(marker).evaluate():
            return None
        return Found(name, version, None, "is locked but not installed: run `make setup`")
    if about["Version"] != version:
        return Found(name, version, None, f"is installed as {about['Version']}: run `make setup`")
    licence = licence_of(about)
    return Found(name, version, licence, judge(name, licence))


def licence_of(about: metadata.PackageMetadata) -> str | None:
    """The SPDX expression that the metadata gives in any of the historical ways, else its own words."""
    fields = (about.get_all(name) or [""] for name in ("License-Expression", "License"))
    stated = next((field[0] for field in fields if field[0]), "")
    if known := _expression(stated):
        return known
    classified = [match[1] for one in about.get_all("Classifier") or () if (match := CLASSIFIER.fullmatch(one))]
    # Several classifiers do not say whether all or any of them hold: each must be allowed.
    every = [known for one in classified if (known := _expression(one))]
    if classified and len(every) == len(classified):
        return " AND ".join(sorted(every))
    return next(iter([*stated.splitlines(), *classified]), None)


def judge(name: str, licence: str | None) -> str | None:
    """The problem with a licence, or None."""
    if licence is None:
        return "states no licence"
    if name in NAMED and licence == NAMED[name][0]:
        return None
    if not _expression(licence):
        return f"has a licence that is not known: {licence!r}"
    if _allows(licence):
        return None
    return f"has a licence that is not allowed: {licence}"


def _expression(text: str) -> str | None:
    text = OLDER.get(text.strip().lower(), text.strip())
    try:
        return str(canonicalize_license_expression(text)) if text else None
    except InvalidLicenseExpression:
        return None


def _allows(expression: str) -> bool:
    """Evaluate an SPDX expression as a Python expression: `and`, `or` and parentheses mean the same in both."""
    words = re.findall(r"\(|\)|[^\s()]+", expression)
    if "WITH" in words:
        return False
    said = [{"AND": "and", "OR": "or", "(": "(", ")": ")"}.get(word, str(word in ALLOWED)) for word in words]
    return bool(eval(" ".join(said), {"__builtins__": {}}))  # noqa: S307 - made of the six words above
