"""Types of a view's fields: how a column becomes JSON, and how the OpenAPI document describes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

Json = dict[str, Any]
V = TypeVar("V", bound=type)


@dataclass(frozen=True, slots=True)
class About:
    """The description of a field in the OpenAPI document and the reference."""

    text: str
    example: Any = None

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        made = {**handler(schema), "description": self.text}
        return made if self.example is None else {**made, "examples": [self.example]}


def shown_as(example: Json) -> Callable[[V], V]:
    """For a view: its example in the OpenAPI document. Without one, the example has a typical value for each required field."""

    def mark(view: V) -> V:
        # What pydantic.with_config does. Commands do without pydantic, whose import takes longer than most of them.
        setattr(view, "__pydantic_config__", {"json_schema_extra": {"examples": [example]}})  # noqa: B010
        return view

    return mark


@dataclass(frozen=True, slots=True)
class AsMoment:
    """Microseconds in the row, RFC 3339 outside."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), "format": "date-time"}


@dataclass(frozen=True, slots=True)
class InSeconds:
    """Microseconds in the row, seconds outside."""


@dataclass(frozen=True, slots=True)
class AsFlag:
    """0 or 1 in the row, false or true outside."""


@dataclass(frozen=True, slots=True)
class AsJson:
    """JSON text in the row, its value outside."""


@dataclass(frozen=True, slots=True)
class AsCutJson:
    """JSON text in the row; if it was cut, it stays text and ends with …"""


@dataclass(frozen=True, slots=True)
class AsError:
    """A stored error in the row; outside without the data stored with it for the next try."""


@dataclass(frozen=True, slots=True)
class Made:
    """Not stored: the reading function fills it in."""


IN_PLACE = "inPlace"


@dataclass(frozen=True, slots=True)
class InPlace:
    """For a view inside a view: its schema is inlined in the OpenAPI document, without a name.

    The reference is only marked here: pydantic may not have made the schema that it leads to yet.
    """

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), IN_PLACE: True}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The minimum of a number."""

    least: int

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), "minimum": self.least}


@dataclass(frozen=True, slots=True)
class InBase64:
    """Bytes as base64."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Json]) -> Json:
        return {**handler(schema), "contentEncoding": "base64"}


Moment = Annotated[str, AsMoment()]
MomentOrNone = Annotated[str | None, AsMoment()]
Seconds = Annotated[float, InSeconds()]
SecondsOrNone = Annotated[float | None, InSeconds()]
Flag = Annotated[bool, AsFlag()]
Count = Annotated[int, AtLeast(0)]
