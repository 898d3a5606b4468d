"""Prints a noun's output: listings as tables and styled lines, to a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from wakeful.resources.declare import Column, Listing, Printed, Resource
from wakeful.resources.desk import hints_of, marks_of
from wakeful.resources.fields import AsMoment
from wakeful.resources.words import Aside, Line, Look, Span, Table, ago, now, plain
from wakeful.shell.narrow import print_fitted
from wakeful.shell.terminal import STYLES, Cell, hanging, is_piped, print_table, say, state


def look_of(out: Console) -> Look:
    return Look(now(), out.width, is_piped(out))


def print_listing(out: Console, resource: Resource, listing: Listing, items: Sequence[Any]) -> None:
    look = look_of(out)
    if listing.whole is not None:
        print_all(out, listing.whole(items, look))
        return
    if listing.lines is not None:
        for item in items:
            print_all(out, listing.lines(item, look))
        return
    columns = [one for one in listing.columns if out.width >= one.least and (one.when is None or one.when(items, look))]
    rows = [{one.title: cell_of(resource, one, item, look) for one in columns} for item in items]
    flexible = next((one.title for one in reversed(columns) if one.flexible), columns[-1].title)
    names = [one.title for one in columns]
    if listing.below is not None and listing.beside is not None:
        under = out.width < listing.beside(items)
        names = [one for one in names if not under or one != listing.below]
        notes = [str(row[listing.below]) for row in rows] if under else None
        print_table(out, names, [[row[name] for name in names] for row in rows], flexible=flexible, below=notes)
        return
    if listing.below is not None or listing.less:
        print_fitted(out, names, rows, note=listing.below or flexible, less=listing.less, flexible=flexible)
        return
    print_table(out, names, [[row[name] for name in names] for row in rows], flexible=flexible)


def cell_of(resource: Resource, column: Column, item: Any, look: Look) -> Cell:
    """The text of a cell: by the column's `show`, or by the type of its field."""
    if column.show is not None:
        return span_of(column.show(item, look), column.style)
    value = item[column.field]
    if value is None:
        return Text(column.none, style=column.style)
    if column.field == resource.state:
        return state(value)
    marks = marks_of(hints_of(resource.view).get(column.field))
    if any(isinstance(mark, AsMoment) for mark in marks):
        return Text(ago(value, look.now), style=column.style)
    return Text(plain(value), style=column.style)


def span_of(span: Span, style: str = "") -> Text:
    text, own = (span, style) if isinstance(span, str) else span
    return Text(text, style=STYLES.get(text, "") if own == "state" else own)


def print_all(out: Console, printed: str | Printed) -> None:
    """Print lines, tables and plain sentences, in order."""
    for one in (printed,) if isinstance(printed, str) else printed:
        match one:
            case str():
                print(one)
            case Line():
                print_line(out, one)
            case Aside():
                say(one.text)
            case Table():
                rows = [[span_of(cell) for cell in row] for row in one.rows]
                print_table(out, list(one.header), rows, flexible=one.flexible)


def print_line(out: Console, one: Line) -> None:
    if one.indent:
        words = "".join(span if isinstance(span, str) else span[0] for span in one.spans)
        text = Text(f"{' ' * one.indent}{words if one.whole else hanging(words, out, one.indent)}", style=one.style)
        out.print(text, soft_wrap=one.whole or is_piped(out))
        return
    text = Text(style=one.style)
    for span in one.spans:
        text.append_text(span_of(span))
    out.print(text, soft_wrap=one.whole)
