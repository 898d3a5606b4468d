"""Tables on a narrow terminal: the note moves below its row, then columns are dropped, until each row fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from wakeful.shell.terminal import GAP, Cell, print_table


def print_fitted(
    out: Console,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Cell]],
    *,
    note: str,
    less: Sequence[str],
    flexible: str,
) -> None:
    """`note` is the column that may move below its row, `less` are the columns that may be dropped, in this order.
    `flexible` is cut if that is not enough.
    """
    shown, below = list(columns), False
    if width_of(shown, rows) > out.width:
        shown.remove(note)
        below = True
    for one in less:
        if width_of(shown, rows) > out.width:
            shown.remove(one)
    cells = [[row[column] for column in shown] for row in rows]
    notes = [str(row[note]) for row in rows] if below else None
    print_table(out, shown, cells, flexible=flexible if below else note, below=notes)


def width_of(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> int:
    """The width of the widest row, with nothing cut."""
    widths = [max(len(name), *(Text(str(row[name])).cell_len for row in rows)) for name in columns]
    return sum(widths) + GAP * (len(columns) - 1)
