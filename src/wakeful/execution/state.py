"""An agent's durable state: read at the first attempt, changed by the handler, saved with the run's commit.

The state that the first attempt read is recorded with its first checkpoint, so that a resumed attempt sees the same.
When the run commits, the state must still have the version that was read; otherwise the run is retried with the new
one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError, from_json, to_json

from wakeful.errors import InvalidState
from wakeful.execution.record import Record
from wakeful.model import Claim, StateRead
from wakeful.stores.verbs.commit import StateChange
from wakeful.values import to_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FACT = "state"


class AgentState:
    """One run's copy of its agent's state, or of the state for one key."""

    def __init__(self, record: Record, model: Any, claim: Claim) -> None:
        read = claim.state or StateRead(None, 0)
        recorded = record.fact(FACT, to_json({"value": read.value, "version": read.version}).decode())
        stored = from_json(recorded)
        read = StateRead(stored["value"], stored["version"])
        self._agent = claim.agent
        self._key = claim.key or ""  # '': one state for the whole agent
        self._model = model
        self._read = read
        self._value: Any = None
        self._before: str | None = None

    @property
    def value(self) -> Any:
        if self._before is None:
            self.value = self._load()
            self._before = self._text()
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        if self._before is None:
            self._before = self._read.value or ""
        self._value = value

    def change(self, app: str) -> StateChange | None:
        """The state to save, or None if it did not change."""
        if self._before is None:
            return None
        text = self._text()
        return None if text == self._before else StateChange(app, self._agent, self._key, self._read.version, text)

    def _load(self) -> Any:
        if self._read.value is None:
            return self._model()
        try:
            return reader(self._model).validate_json(self._read.value)
        except ValidationError as error:
            message = (
                f"the stored state of agent {self._agent} does not fit {self._model.__name__} ({first_words(error)}): "
                f"`wakeful state show {self._agent}` shows it, `state set` and `state clear` change it"
            )
            raise InvalidState(message) from None

    def _text(self) -> str:
        """The state in stored form. Raises InvalidState if it could not be read again, because the handler changed it
        to another type.
        """
        text = to_text(self._value, what=f"the state of agent {self._agent}")
        try:
            reader(self._model).validate_json(text)
        except ValidationError as error:
            message = f"agent {self._agent} set a state that does not fit {self._model.__name__} ({first_words(error)})"
            raise InvalidState(message) from None
        return text


@cache
def reader(model: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def refuse_misfit(model: Any, text: str) -> None:
    """Raise InvalidState for a state that a run could not read, with every wrong field."""
    try:
        reader(model).validate_json(text)
    except ValidationError as error:
        message = f"that does not fit {model.__name__}: {'; '.join(all_words(error))}"
        raise InvalidState(message) from None


def first_words(error: ValidationError) -> str:
    return all_words(error)[0]


def all_words(error: ValidationError) -> list[str]:
    told = []
    for one in error.errors(include_url=False, include_input=False):
        place = ".".join(str(part) for part in one["loc"])
        told.append(f"{place}: {one['msg']}" if place else one["msg"])
    return told
