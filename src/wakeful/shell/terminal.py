"""Output for people: colours on a terminal, plain text elsewhere; text from outside cannot control the terminal."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from wakeful.escaping import escaped
from wakeful.redaction import redact
from wakeful.resources.words import (
    SHOWN_OF_AN_ID,
    ago,
    clock_time,
    cut,
    delivery_prefix,
    in_json,
    moment,
    now,
    plain,
    plain_lines,
    prefix,
    roughly,
    took,
    whole_json,
)
from wakeful.telemetry.logger import SPEAKS_JSON, logger_of

# Commands outside the table of resources import these from here.
__all__ = ["SHOWN_OF_AN_ID", "ago", "clock_time", "cut", "moment", "now", "plain", "plain_lines", "roughly", "took"]

UNLIMITED = 10_000
CUT_WHEN_PIPED = 2_000
STYLES = {
    "done": "green",
    "accepted": "green",
    "started": "green",
    "running": "cyan",
    "ready": "cyan",
    "waiting": "yellow",
    "retrying": "yellow",
    "held": "yellow",
    "parked": "yellow",
    "unmatched": "yellow",
    "skipped": "dim",
    "dead": "red",
    "failed": "red",
    "denied": "magenta",
    "cancelled": "dim",
    "expired": "dim",
    "delivered": "green",
    "pending": "cyan",
    "unknown": "yellow",
    "discarded": "dim",
    "confirmed": "green",
    "staged": "cyan",
    "open": "red",
    "answered": "green",
    "withdrawn": "dim",
    "closed": "green",
    "probing": "yellow",
    "recovering": "yellow",
    "acknowledged": "yellow",
    "resolved": "green",
    "live": "green",
    "paused": "yellow",
    "removed": "dim",
    "fired": "green",
    "missed": "red",
    "coalesced": "cyan",
    "superseded": "dim",
    "telling": "cyan",
    "unneeded": "dim",
    "quiet": "dim",
    "told": "green",
    "unchanged": "dim",
    "reading": "green",
    "idle": "dim",
    "failing": "red",
    "kept": "yellow",
    "released": "green",
}


class Terminal(Console):
    """A console that raises BrokenPipeError when its reader is gone (`| head`); main() handles it silently."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def terminal() -> Terminal:
    """Standard output. Piped output is not cut to a width, unless COLUMNS sets one."""
    out = Terminal(highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not out.is_terminal and not os.environ.get("COLUMNS"):
        out.width = UNLIMITED
    return out


def is_piped(out: Console) -> bool:
    return out.width >= UNLIMITED


def print_json(value: Any) -> None:
    """Print the same objects that the HTTP API answers with."""
    sys.stdout.write(whole_json(value) + "\n")


def announce(text: str) -> None:
    """Print a line on stdout that says what this process does now; with JSON logs, log it."""
    text = escaped(redact(text))
    if SPEAKS_JSON.get():
        logger_of().info(text)
    else:
        print(f"wakeful: {text}", flush=True)


def say(text: str) -> None:
    """Print a line on stderr for the person at the terminal, apart from the command's output."""
    text = escaped(redact(text))
    if SPEAKS_JSON.get():
        logger_of().info(text)
        return
    try:
        sys.stdout.flush()  # keep the order if both streams go into one pipe
        print(f"wakeful: {text}", file=sys.stderr, flush=True)
    except OSError:
        pass


Cell = str | Text
GAP = 2
LEAST_ROOM = 6
MOST_LINES_BELOW = 3


def print_table(
    out: Console,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    flexible: str,
    below: Sequence[str] | None = None,
) -> None:
    """Print rows under a header. On a narrow terminal only the flexible column is cut; piped output is whole.

    `below` has a text for each row, printed on separate lines under it when a column would have no room.
    """
    cells = [[one if isinstance(one, Text) else Text(one) for one in row] for row in rows]
    widths = [max(len(title), *(row[place].cell_len for row in cells)) for place, title in enumerate(header)]
    yielding = header.index(flexible)
    others = sum(widths) - widths[yielding] + GAP * (len(header) - 1)
    widths[yielding] = min(widths[yielding], max(out.width - others, LEAST_ROOM))
    for number, row in enumerate([[Text(title, style="dim") for title in header], *cells]):
        line = Text()
        for place, cell in enumerate(row):
            cell.truncate(widths[place], overflow="ellipsis")
            line.append_text(cell)
            if place < len(row) - 1:
                line.append(" " * (widths[place] - cell.cell_len + GAP))
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ellipsis", crop=True, soft_wrap=is_piped(out))
        for words in under_the_row(below[number - 1], out.width) if below and number else ():
            out.print(Text(words, style="dim"), no_wrap=True, overflow="ellipsis", crop=True)


def under_the_row(text: str, width: int) -> list[str]:
    """A text as indented lines, three at most."""
    lines = textwrap.wrap(
        text, max(width, 20), initial_indent="  ", subsequent_indent="  ", max_lines=MOST_LINES_BELOW, placeholder=" …"
    )
    return [cut(line, width) for line in lines]


def hanging(text: str, out: Console, indent: int) -> str:
    """A text printed after `indent` columns, wrapped with the same indent. Piped output stays on one line."""
    if is_piped(out) or indent + len(text) <= out.width:
        return text
    lines = textwrap.wrap(text, max(out.width - indent, 20), break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def state(name: str) -> Text:
    return Text(name, style=STYLES.get(name, ""))


def value(thing: Any, room: int | None = None) -> str:
    """A stored value as JSON on one line, cut to `room` characters."""
    text = in_json(thing)
    return text if room is None else cut(text, room)


def short(identifier: str, out: Console) -> str:
    """A prefix of a run's id; the whole id when piped."""
    return identifier if is_piped(out) else prefix(identifier)


def short_delivery(identifier: str, out: Console) -> str:
    """A prefix of a delivery's id; the whole id when piped."""
    return identifier if is_piped(out) else delivery_prefix(identifier)
