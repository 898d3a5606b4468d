"""Recorded answers of real calls: the first call is real, later calls are answered from the file.

One file holds any number of functions. It is JSON, to be read, edited and kept beside the tests:

    {"fetch_diff": [{"arguments": [7], "returns": "+ one line"},
                    {"arguments": [8], "raises": {"type": "Transient", "message": "502", …}}]}

Equal calls are answered in the order in which they were recorded; further calls get the last answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from wakeful.errors import ConfigError
from wakeful.stored_errors import describe, restore
from wakeful.values import digest_of_arguments, to_text

Entry = dict[str, Any]


class Cassette:
    """A file of recorded answers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = self._read()
        self._asked: Counter[str] = Counter()

    async def answer(
        self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], real: Callable[[], Awaitable[Any]]
    ) -> Any:
        """The recorded answer to this call; else the answer of the real call, which is then recorded."""
        _, text = digest_of_arguments(arguments, keywords, of=name)
        plain = from_json(text)
        given = plain.pop()["**"] if keywords else {}
        call: Entry = {"arguments": plain, **({"keywords": given} if given else {})}
        known = [one for one in self._before.get(name, []) if same_call(one, call)]
        key = f"{name}{text}"
        self._asked[key] += 1
        if known:
            return replay(known[min(self._asked[key], len(known)) - 1])
        try:
            value = await real()
        except Exception as error:
            described = describe(error)
            described.pop("traceback", None)
            self._add(name, {**call, "raises": described})
            raise
        self._add(name, {**call, "returns": from_json(to_text(value, what=f"the answer of {name}"))})
        return value

    def _add(self, name: str, entry: Entry) -> None:
        """Written at once, so that a failing test does not lose the result of a real call."""
        entries = self._read()
        entries.setdefault(name, []).append(entry)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _read(self) -> dict[str, list[Entry]]:
        if not self._path.exists():
            return {}
        try:
            entries: dict[str, list[Entry]] = json.loads(self._path.read_text(encoding="utf-8"))
        except ValueError as error:
            message = f"{self._path} is not JSON ({error}): repair it, or remove it and record again"
            raise ConfigError(message) from None
        return entries


def same_call(first: Entry, second: Entry) -> bool:
    return all(first.get(part) == second.get(part) for part in ("arguments", "keywords"))


def replay(entry: Entry) -> Any:
    if "raises" in entry:
        raise restore(entry["raises"])
    return entry.get("returns")
