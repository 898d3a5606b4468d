"""Text for people, independent of a terminal: one-line texts, times in words, and lines that a surface colours and wraps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json

from wakeful.clock import SECOND, Microseconds, readable
from wakeful.escaping import escaped_json
from wakeful.redaction import redact
from wakeful.stored_errors import in_one_line

SHOWN_OF_AN_ID = 10
SHOWN_AFTER_THE_DASH = 6
MINUTE: Microseconds = 60 * SECOND

Span = (
    str | tuple[str, str]
)  # a text, or a text and its style; style "state" means the colour of the state that the text names


@dataclass(frozen=True, slots=True)
class Line:
    """A line. If it is wrapped, its further lines are indented as well; `whole`: it is never wrapped."""

    spans: tuple[Span, ...]
    indent: int = 0
    style: str = ""
    whole: bool = False


def line(*spans: Span, indent: int = 0, style: str = "", whole: bool = False) -> Line:
    return Line(spans, indent, style, whole)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header, as part of what `show` prints."""

    header: Sequence[str]
    rows: Sequence[Sequence[Span]]
    flexible: str


@dataclass(frozen=True, slots=True)
class Aside:
    """A line for standard error, apart from the command's output."""

    text: str


@dataclass(frozen=True, slots=True)
class Look:
    """The output that text is printed to: its width, whether it is piped, and the time now."""

    now: Microseconds
    width: int = 10_000
    piped: bool = True

    def ago(self, text: str | None) -> str:
        return ago(text, self.now)

    def short(self, identifier: str) -> str:
        return identifier if self.piped else prefix(identifier)

    def short_delivery(self, identifier: str) -> str:
        return identifier if self.piped else delivery_prefix(identifier)


def prefix(identifier: str) -> str:
    """A prefix of a run's id, which every command accepts. A repeated run keeps its number: 3f2a91c04d.1."""
    root, dot, generation = identifier.partition(".")
    return f"{root[:SHOWN_OF_AN_ID]}{dot}{generation}"


def delivery_prefix(identifier: str) -> str:
    """As `prefix`, for a delivery: a prefix of its run's id, a dash, and a prefix of its own."""
    root, _, own = identifier.partition("-")
    return f"{root[:SHOWN_OF_AN_ID]}-{own[:SHOWN_AFTER_THE_DASH]}"


def plain(text: Any) -> str:
    """Text on one line, with unprintable characters escaped and known secrets redacted."""
    whole = redact(str(text))
    return whole if whole.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in whole)


def plain_lines(text: str) -> str:
    """As `plain`, but line ends are kept."""
    return "\n".join(plain(one) for one in redact(text).splitlines())


def number(count: int, noun: str) -> str:
    """1 run, 2 runs, 3 deliveries."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def in_json(thing: Any) -> str:
    """A stored value as JSON on one line."""
    return plain(to_json(thing, inf_nan_mode="strings").decode())


def indented_json(thing: Any) -> str:
    """A stored value as JSON on several lines."""
    return to_json(thing, indent=2, inf_nan_mode="strings").decode()


def cut(text: str, room: int) -> str:
    """The text cut to `room` characters; a cut text ends with …"""
    room = max(room, 10)
    return text if len(text) <= room else f"{text[: room - 1]}…"


def whole_json(thing: Any) -> str:
    """As --json prints it."""
    return escaped_json(redact(to_json(thing, indent=2, inf_nan_mode="null").decode()))


def failure_line(error: Mapping[str, Any]) -> str:
    """A stored error on one line."""
    return plain(f"{error.get('type')}: {in_one_line(str(error.get('message') or ''))}")


# time


def moment(text: str | None) -> Microseconds | None:
    """A time of the API as microseconds."""
    if text is None:
        return None
    return round(datetime.fromisoformat(text).timestamp() * SECOND)


def now() -> Microseconds:
    return round(datetime.now(UTC).timestamp() * SECOND)


def ago(text: str | None, present: Microseconds) -> str:
    """How long ago, roughly: "now", "12 s ago", "3 h ago"; or "in 5 m". A deadline of 4 h is "in 4 h" for its first minute,
    not "in 3 h" at once.
    """
    then = moment(text)
    if then is None:
        return "–"
    span = present - then
    words = roughly(abs(span))
    if words == "0 s":
        return "now"
    return f"{words} ago" if span > 0 else f"in {roughly(-span if -span < 59 * MINUTE else -span + MINUTE)}"


def roughly(span: Microseconds) -> str:
    whole = span // SECOND
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m"
    if whole < 48 * 3600:
        return f"{whole // 3600} h"
    return f"{whole // 86400} d"


def took(start: str | None, end: str | None) -> str:
    first, last = moment(start), moment(end)
    return "–" if first is None or last is None else readable(max(0, last - first))


def clock_time(text: str | None) -> str:
    """Local time in WAKEFUL_TIME_ZONE, with the date unless it is today."""
    if text is None:
        return "–"
    from wakeful.triggers.zones import zone_named

    zone = zone_named(None, where="the time zone")
    at = datetime.fromisoformat(text).astimezone(zone)
    shape = "%H:%M:%S" if at.date() == datetime.now(zone).date() else "%Y-%m-%d %H:%M:%S"
    return f"{at.strftime(shape)} {zone.key}"
