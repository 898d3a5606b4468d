"""How it is shown: a live picture in a terminal, or lines of progress where there is none.

A run keeps its place in the table until it has ended and a newer one needs the place, so that nothing jumps about and a
run can be followed through the death of its worker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wakeful.demo.board import Mark
from wakeful.demo.scene import Message, Row, Scene

NARROWEST = 72
LOWEST = 18
AROUND_THE_TABLE = 11  # every line that is neither a run nor a message
STATES = {"ready": "cyan", "running": "bold blue", "waiting": "yellow", "done": "green", "dead": "bold red"}
MARKS: dict[Mark, tuple[str, str, str]] = {
    "done": ("✓", "#", "green"),
    "working": ("▸", ">", "bold blue"),
    "again": ("↻", "~", "bold yellow"),
    "failed": ("✗", "x", "bold red"),
    "cut": ("▪", "!", "bold red"),
    "open": ("·", ".", "dim"),
}
COUNTERS = (
    ("events accepted", "steps finished", "worker"),
    ("runs done", "retries", "runs open"),
    ("dead letters", "steps executed twice", "runs resumed"),
)


class View(Protocol):
    """Where the director shows things."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def tell(self, message: Message) -> None: ...
    def paint(self, scene: Scene) -> None: ...


def choose_view(console: Console, environment: Mapping[str, str] = os.environ) -> View:
    """The live picture where it can be drawn."""
    drawable = console.is_terminal and not console.is_dumb_terminal and not environment.get("NO_COLOR")
    if drawable and console.width >= NARROWEST and console.height >= LOWEST:
        return LiveView(console)
    return PlainView(console)


class PlainView:
    """Lines of progress: what happened, and every few seconds how far it is."""

    every = 2.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = self.every

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def tell(self, message: Message) -> None:
        self._print(message.at, message.text)

    def paint(self, scene: Scene) -> None:
        if scene.elapsed < self._next:
            return
        self._next = scene.elapsed + self.every
        counts = ", ".join(f"{name} {count}" for name, count in scene.counts.items())
        self._print(scene.elapsed, f"  ({counts})")

    def _print(self, at: float, text: str) -> None:
        self._console.print(f"{at:6.1f} s  {text}", markup=False, soft_wrap=True)


class LiveView:
    """The whole terminal, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._places: list[str] = []
        self._plain_marks = not console.encoding.lower().startswith("utf")

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def tell(self, message: Message) -> None:
        """The picture shows it by itself."""

    def paint(self, scene: Scene) -> None:
        self._live.update(self._picture(scene), refresh=True)

    # the picture, from top to bottom

    def _picture(self, scene: Scene) -> RenderableType:
        width, height = self._console.size
        room = max(2, height - AROUND_THE_TABLE)
        lines = max(2, min(9, room // 3))
        return Group(
            _header(scene, width),
            Text("─" * width, style="dim", no_wrap=True),
            _line(Text.assemble((" ▸ ", "dim"), (scene.now.text, scene.now.style or "bold")), width),
            Text(""),
            _counters(scene, width),
            Text(""),
            self._table(scene, room - lines, width),
            Text(""),
            *_messages(scene, lines, width),
            _footer(scene, width),
        )

    def _table(self, scene: Scene, places: int, width: int) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("", width=MARGIN, no_wrap=True)
        left = width - MARGIN - 1
        for title, size in COLUMNS:
            table.add_column(title, width=size, no_wrap=True, overflow="ellipsis", justify="right" if title in NUMBERS else "left")
            left -= size + GAP
        table.add_column("note", width=left, no_wrap=True, overflow="ellipsis")
        rows = {row.id: row for row in scene.rows}
        for place in self._seat(scene.rows, places):
            table.add_row(*self._cells(rows.get(place)))
        return table

    def _seat(self, rows: list[Row], places: int) -> list[str]:
        """Who sits where. New runs get free places, then those of the runs that ended first."""
        known = {row.id: row for row in rows}
        seats = [place if place in known else "" for place in self._places]
        if len(seats) > places:  # the terminal became smaller: open runs and the newest stay
            keep = sorted((seat for seat in seats if seat), key=lambda seat: (known[seat].is_open, _age(rows, seat)))[
                -places:
            ]
            seats = [seat for seat in seats if seat in keep]
        seats += [""] * (places - len(seats))
        seated = set(seats)
        fresh = [row for row in rows if row.id not in seated]
        wanted = [row for row in fresh if row.is_open] if any(seats) else fresh[-places:]
        for row in wanted:
            free = [number for number, seat in enumerate(seats) if not seat]
            ended = [number for number, seat in enumerate(seats) if seat and not known[seat].is_open]
            if free:
                seats[free[0]] = row.id
            elif ended:
                seats[min(ended, key=lambda number: _age(rows, seats[number]))] = row.id
        self._places = seats
        return seats

    def _cells(self, row: Row | None) -> list[Text]:
        if row is None:
            return [Text("")] * 7
        faded = "" if row.is_open or row.state == "dead" else "dim"
        bar = Text()
        for mark in row.marks:
            good, plain, style = MARKS[mark]
            bar.append(plain if self._plain_marks else good, style=style)
        return [
            Text(row.agent, style=faded),
            Text(row.event, style=faded),
            Text(row.state, style=STATES.get(row.state, "")),
            bar,
            Text(str(row.tries) if row.tries else "", style=faded),
            Text(f"{row.seconds:.1f} s", style=faded),
            Text(row.note, style="red" if row.state == "dead" else faded or "yellow"),
        ]


def _age(rows: list[Row], seat: str) -> int:
    return next(number for number, row in enumerate(rows) if row.id == seat)


def _line(text: Text, width: int) -> Text:
    """One line, never two."""
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text


def _header(scene: Scene, width: int) -> Text:
    left = Text.assemble((" wakeful demo", "bold"), ("  ·  agents on one SQLite file", "dim"))
    end = f" of {clock(scene.seconds)}" if scene.seconds is not None else ""
    ends = "Ctrl-C ends it" if scene.seconds is not None else "runs until Ctrl-C"
    right = Text.assemble((clock(scene.elapsed), "bold"), (f"{end}  ·  {ends} ", "dim"))
    space = max(1, width - left.cell_len - right.cell_len)
    return _line(Text.assemble(left, " " * space, right), width)


def _counters(scene: Scene, width: int) -> Table:
    grid = Table.grid(padding=(0, 0), expand=False)
    column = min(30, (width - 2) // 3)
    grid.add_column(width=1)
    for _ in range(3):
        grid.add_column(width=column, no_wrap=True)
    for names in COUNTERS:
        grid.add_row("", *(_counter(name, scene) for name in names))
    return grid


def _counter(name: str, scene: Scene) -> Text:
    if name == "worker":
        return Text.assemble(("worker ", "dim"), (scene.worker, "bold red" if "none" in scene.worker else "bold green"))
    count = scene.counts[name]
    style = "bold"
    if name == "steps executed twice":
        style = "bold red" if count else "bold green"
    elif name == "dead letters" and count:
        style = "bold red"
    elif name == "retries" and count:
        style = "bold yellow"
    return Text.assemble((f"{name} ", "dim"), (str(count), style))


def _messages(scene: Scene, lines: int, width: int) -> list[Text]:
    shown = scene.messages[-lines:]
    texts = [
        _line(Text.assemble((f" {clock(one.at)}  ", "dim"), (one.text, one.style)), width) for one in shown
    ]  # fmt: skip
    return texts + [Text("")] * (lines - len(texts))


def _footer(scene: Scene, width: int) -> Text:
    fate = "--keep: it stays" if scene.keep else "removed at the end; --keep keeps it"
    return _line(Text(f" {scene.folder}  ({fate})", style="dim"), width)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
