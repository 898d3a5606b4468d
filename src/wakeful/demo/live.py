"""The live picture: the whole terminal, redrawn in place, every line cut to its width so that none can wrap.

A run keeps its place in the table until it has ended and a newer one needs the place, so that nothing jumps about and a
run can be followed through the death of its worker.
"""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from wakeful.demo.board import Mark
from wakeful.demo.scene import Message, Row, Scene, clock

EVENT = 26
# Title, width, justification. What is left of the width is the note.
COLUMNS = (
    ("agent", 8, "left"),
    ("event", EVENT, "left"),
    ("state", 8, "left"),
    ("steps", 6, "left"),
    ("try", 4, "right"),
    ("time", 7, "right"),
)
COUNTERS = (
    ("events accepted", "steps finished", "worker"),
    ("runs done", "retries", "runs open"),
    ("dead letters", "steps executed twice", "runs resumed"),
    ("effects done", "effects done twice", "held for a person"),
)
COUNTER_WIDTH = 27
AROUND = 12  # lines that are neither runs nor messages
DEAD_STAY = 8.0
STATES = {
    "ready": "cyan",
    "running": "bold blue",
    "waiting": "yellow",
    "held": "bold magenta",
    "done": "green",
    "dead": "bold red",
}
MARKS: dict[Mark, tuple[str, str, str]] = {
    "done": ("✓", "#", "green"),
    "working": ("▸", ">", "bold blue"),
    "again": ("↻", "~", "bold yellow"),
    "held": ("?", "?", "bold magenta"),
    "failed": ("✗", "x", "bold red"),
    "cut": ("▪", "!", "bold red"),
    "open": ("·", ".", "dim"),
}


class LiveView:
    """Draws scenes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._seats = Seats()
        self._symbol = 0 if console.encoding.lower().startswith("utf") else 1

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def tell(self, message: Message) -> None:
        """Nothing to do: the next picture shows it."""

    def paint(self, scene: Scene) -> None:
        lines = self.picture(scene, *self._console.size)
        self._live.update(Group(*lines), refresh=True)

    def picture(self, scene: Scene, width: int, height: int) -> list[Text]:
        """From top to bottom: title, what goes on now, counters, runs, what happened, what to type, where the files are."""
        room = max(2, height - AROUND)
        advice = _advice(scene, width)[: room - 2]
        told = max(1, min(9, room // 3), len(advice) + 1)
        lines = [
            _title(scene, width),
            Text("─" * width, style="dim"),
            Text.assemble((" ▸ ", "dim"), (scene.now.text, scene.now.style or "bold")),
            Text(""),
            *_counters(scene),
            Text(""),
            *self._table(scene, room - told),
            Text(""),
            *_messages(scene, told - len(advice)),
            *advice,
            _footer(scene),
        ]
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return lines

    def _table(self, scene: Scene, places: int) -> list[Text]:
        head = Text(" ")
        for title, size, justify in COLUMNS:
            head.append_text(_cell(title, size, justify, "dim"))
        head.append("  note", style="dim")
        rows = {row.id: row for row in scene.rows}
        return [head, *(self._row(rows.get(seat)) for seat in self._seats.give(scene.rows, places))]

    def _row(self, row: Row | None) -> Text:
        if row is None:
            return Text("")
        faded = "" if row.is_open or row.state == "dead" else "dim"
        line = Text(" ")
        cells = {
            "agent": (row.agent, faded),
            "event": (_event(row.event, EVENT - 1), faded),
            "state": (row.state, STATES.get(row.state, "")),
            "try": (str(row.tries or ""), faded),
            "time": (f"{row.seconds:.1f} s", faded),
        }
        for title, size, justify in COLUMNS:
            line.append_text(
                self._bar(row, size) if title == "steps" else _cell(cells[title][0], size, justify, cells[title][1])
            )
        return line.append("  " + row.note, style="red" if row.state == "dead" else faded or "yellow")

    def _bar(self, row: Row, size: int) -> Text:
        bar = Text()
        for mark in row.marks:
            bar.append(MARKS[mark][self._symbol], style=MARKS[mark][2])
        bar.pad_right(size - bar.cell_len)
        return bar


class Seats:
    """Which run is shown in which line."""

    def __init__(self) -> None:
        self._seats: list[str] = []

    def give(self, rows: list[Row], places: int) -> list[str]:
        """New runs get free lines, then those of runs that ended first. `rows` are the newest runs, oldest first."""
        known = {row.id: row for row in rows}
        ages = {row.id: age for age, row in enumerate(rows)}
        seats = [seat if seat in known else "" for seat in self._seats][:places]
        seats += [""] * (places - len(seats))
        for row in rows:
            if row.id in seats or (row.ended_for is not None and row.ended_for > DEAD_STAY):
                continue
            free = [number for number, seat in enumerate(seats) if not seat]
            ended = [number for number, seat in enumerate(seats) if seat and self._may_go(known[seat], row)]
            if free:
                seats[free[0]] = row.id
            elif ended:
                seats[min(ended, key=lambda number: ages[seats[number]])] = row.id
        self._seats = seats
        return seats

    @staticmethod
    def _may_go(seated: Row, newcomer: Row) -> bool:
        """Ended runs make room for open ones and for new dead letters; a dead letter stays a little longer."""
        if seated.ended_for is None:
            return False
        return (
            seated.state == "done"
            if newcomer.state == "dead"
            else seated.state != "dead" or seated.ended_for > DEAD_STAY
        )


def _event(text: str, room: int) -> str:
    """A type and what it is about. Where both do not fit it is the type that is cut: the rest tells runs apart."""
    kind, _, subject = text.rpartition(" ")
    return text if len(text) <= room or len(subject) > room // 2 else f"{kind[: room - len(subject) - 2]}… {subject}"


def _cell(text: str, size: int, justify: str, style: str) -> Text:
    cell = Text(text, style=style)
    room = size - 1  # at least one space to the next column
    cell.truncate(room, overflow="ellipsis")
    padding = size - cell.cell_len
    return Text.assemble(" " * padding, cell) if justify == "right" else Text.assemble(cell, " " * padding)


def _title(scene: Scene, width: int) -> Text:
    left = Text.assemble((" wakeful demo", "bold"), ("  ·  agents on one SQLite file", "dim"))
    limit, end = (
        ("", "runs until Ctrl-C") if scene.seconds is None else (f" of {clock(scene.seconds)}", "Ctrl-C ends it")
    )
    right = Text.assemble((clock(scene.elapsed), "bold"), (f"{limit}  ·  {end} ", "dim"))
    return Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)


def _counters(scene: Scene) -> list[Text]:
    lines = []
    for names in COUNTERS:
        line = Text(" ")
        for name in names:
            counter = _counter(name, scene)
            counter.pad_right(COUNTER_WIDTH - counter.cell_len)
            line.append_text(counter)
        line.rstrip()
        lines.append(line)
    return lines


def _counter(name: str, scene: Scene) -> Text:
    if name == "worker":
        style = "bold green" if scene.worker.endswith("at work") else "bold red"
        return Text.assemble(("worker ", "dim"), (scene.worker, style))
    count = scene.counts[name]
    colours = {
        "steps executed twice": "red" if count else "green",
        "effects done twice": "red" if count else "green",
        "dead letters": "red",
        "retries": "yellow",
        "held for a person": "magenta",
    }
    coloured = count or name.endswith("twice")
    return Text.assemble((f"{name} ", "dim"), (str(count), f"bold {colours.get(name, '')}" if coloured else "bold"))


def _messages(scene: Scene, told: int) -> list[Text]:
    shown = scene.messages[-told:]
    lines = [Text.assemble((f" {clock(one.at)}  ", "dim"), (one.text, one.style.replace("bold ", ""))) for one in shown]
    return lines + [Text("")] * (told - len(lines))


def _advice(scene: Scene, width: int) -> list[Text]:
    """The command at the very left, so that it can be copied whatever its length."""
    if scene.advice is None:
        return []
    lines = scene.advice.command.folded(width)
    return [Text(f" {scene.advice.text}", style="bold magenta"), *(Text(line, style="bold") for line in lines)]


def _footer(scene: Scene) -> Text:
    fate = "kept" if scene.keep else "removed at the end; --keep keeps it"
    return Text(f" {scene.folder}  ({fate})", style="dim")
