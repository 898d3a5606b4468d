"""Records what actions did, outside of every store: each call of an action that returned is a deed."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from wakeful.execution.actions import Action, Operation
from wakeful.values import arguments_of, digest_of_arguments

ARGUMENTS_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Deed:
    """One call of an action that returned."""

    action: str
    safety: str
    arguments: str
    operation: str

    def __str__(self) -> str:
        whole = arguments_of(from_json(self.arguments))
        shown = whole if len(whole) <= ARGUMENTS_SHOWN else whole[:ARGUMENTS_SHOWN] + "…"
        return f"{self.action}{shown}"


class Deeds:
    """All deeds in order; with a file, including those of processes that have died."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._deeds: list[Deed] = []

    def add(self, action: Action[..., Any], operation: Operation, arguments: tuple[Any, ...], keywords: Any) -> None:
        _, text = digest_of_arguments(arguments, keywords, of=f"action {action.name}")
        deed = Deed(action.name, action.options.safety, text, operation.id)
        self._deeds.append(deed)
        if self._file is not None:
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, to_json(asdict(deed)) + b"\n")
            finally:
                os.close(handle)

    def all(self) -> list[Deed]:
        if self._file is None:
            return list(self._deeds)
        if not self._file.exists():
            return []
        return [Deed(**from_json(line)) for line in self._file.read_bytes().splitlines()]
