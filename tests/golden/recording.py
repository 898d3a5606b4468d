"""What a command or a request said, as text that is compared with a recorded file."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden.freezing import frozen
from golden.store import HERE, NOW, STORE_SQL
from wakeful.cli import main

RECORDED = HERE / "recorded"
IDENTIFIER = re.compile(
    r"\b(?:[0-9a-f]{32}|[0-9a-f]{26}(?:[0-9a-f]{2})?|[0-9a-f]{16}|[0-9a-f]{12}|[0-9a-f]{10})\b|(?<=Z-)[0-9a-f]{8}\b"
)
SPOKEN = re.compile(r"\br-[0-9a-z]{6}\b")


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


def call(words: Sequence[str]) -> Said:
    """A command in this process, at the frozen moment."""
    out, err = io.StringIO(), io.StringIO()
    with frozen(NOW), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Said(code, out.getvalue(), err.getvalue())


class Normal:
    """Text without what differs from one recording to the next: the folder, and ids that were made by chance."""

    def __init__(self, folder: Path, known: str | None = None) -> None:
        self._folders = [str(folder.resolve()), str(folder)]
        self._known = STORE_SQL.read_text() if known is None else known

    def __call__(self, text: str) -> str:
        """Ids of the frozen store stay as they are. Other ids get numbers, in the order in which they are met."""
        for folder in self._folders:
            text = text.replace(folder, "/srv/shop")
        met: dict[str, str] = {}

        def number(match: re.Match[str]) -> str:
            found = match[0]
            if found in self._known:
                return found
            same = next((one for one in met if one.startswith(found)), found)
            return met.setdefault(same, f"‹id {len(met) + 1}›")

        return SPOKEN.sub(number, IDENTIFIER.sub(number, text))


def as_written(words: Sequence[str]) -> str:
    return " ".join(
        json.dumps(word, ensure_ascii=False) if re.search(r"[^\w@%+=:,./*-]", word) else word for word in words
    )


def told(said: Said) -> str:
    """Exit code and both streams; what is empty is left out."""
    parts = [f"exit code {said.code}\n"]
    parts += [said.out if said.out.endswith("\n") or not said.out else said.out + "\n"]
    if said.err:
        parts += ["on standard error:\n", said.err]
    return "".join(parts)


def as_json(said: Said) -> str:
    """The whole answer, where it is JSON and all went well: a file that other tools read, too."""
    if said.code == 0 and not said.err:
        with contextlib.suppress(ValueError):
            json.loads(said.out)
            return said.out
    return (
        json.dumps({"exit code": said.code, "out": read(said.out), "error": said.err}, indent=2, ensure_ascii=False)
        + "\n"
    )


def read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
