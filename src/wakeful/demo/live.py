"""The live picture: the whole terminal, redrawn in place, every line cut to its width so that none can wrap."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from wakeful.demo.board import Mark
from wakeful.demo.scene import Message, Row, Scene, clock
from wakeful.demo.seats import Seats

EVENT = 26  # the width of a column, one space to the next included
STEPS = 6
COUNTERS = (
    ("events accepted", "steps finished", "worker"),
    ("runs done", "retries", "runs open"),
    ("dead letters", "steps executed twice", "runs resumed"),
    ("effects done", "effects done twice", "held for a person"),
)
COUNTER_WIDTH = 27
COLOURS = {  # of a counter at 0, and above
    "dead letters": ("", "red"),
    "retries": ("", "yellow"),
    "held for a person": ("", "magenta"),
    "steps executed twice": ("green", "red"),
    "effects done twice": ("green", "red"),
}
AROUND = 12  # lines that are neither runs nor messages
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
        self._seats = Seats()
        self._symbol = 0 if console.encoding.lower().startswith("utf") else 1
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def screen(self) -> Live:
        """Entered for as long as scenes are drawn."""
        return self._live

    def tell(self, message: Message) -> None:
        """Nothing to do: the next picture shows it."""

    def paint(self, scene: Scene) -> None:
        self._live.update(Group(*self.picture(scene, *self._console.size)), refresh=True)

    def picture(self, scene: Scene, width: int, height: int) -> list[Text]:
        """From top to bottom: title, what goes on now, counters, runs, what happened, what to type, where the files are."""
        room = max(2, height - AROUND)
        advice = _advice(scene, width)[: room - 2]
        told = max(1, min(9, room // 3), len(advice) + 1)
        rows = {row.id: row for row in scene.rows}
        fate = "kept" if scene.keep else "removed at the end; --keep keeps it"
        lines = [
            _title(scene, width),
            Text("─" * width, style="dim"),
            Text.assemble((" ▸ ", "dim"), (scene.now.text, scene.now.style or "bold")),
            Text(""),
            *_counters(scene),
            Text(""),
            Text(f" {'agent':8}{'event':{EVENT}}{'state':8}{'steps':{STEPS}} try   time  note", style="dim"),
            *(self._row(rows.get(seat)) for seat in self._seats.give(scene.rows, room - told)),
            Text(""),
            *_messages(scene, told - len(advice)),
            *advice,
            Text(f" {scene.folder}  ({fate})", style="dim"),
        ]
        for line in lines:
            line.no_wrap = True
            line.truncate(width, overflow="ellipsis")
        return lines

    def _row(self, row: Row | None) -> Text:
        if row is None:
            return Text("")
        faded = "dim" if row.ended_for is not None and row.state != "dead" else ""
        bar = [(MARKS[mark][self._symbol], MARKS[mark][2]) for mark in row.marks]
        return Text.assemble(
            (f" {row.agent:8}{_event(row.event, EVENT - 1):{EVENT}}", faded),
            (f"{_cut(row.state, 7):8}", STATES.get(row.state, "")),
            *bar,
            " " * (STEPS - len(bar)),
            (f"{row.tries or '':>4}{f'{row.seconds:.1f} s':>7}", faded),
            (f"  {row.note}", "red" if row.state == "dead" else faded or "yellow"),
        )


def _event(text: str, room: int) -> str:
    """A type and what it is about. Where both do not fit it is the type that is cut: the rest tells runs apart."""
    kind, _, subject = text.rpartition(" ")
    if len(text) > room and len(subject) <= room // 2:
        return f"{_cut(kind, room - len(subject) - 1)} {subject}"
    return _cut(text, room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _title(scene: Scene, width: int) -> Text:
    left = Text.assemble((" wakeful demo", "bold"), ("  ·  agents on one SQLite file", "dim"))
    end = "  ·  runs until Ctrl-C " if scene.seconds is None else f" of {clock(scene.seconds)}  ·  Ctrl-C ends it "
    right = Text.assemble((clock(scene.elapsed), "bold"), (end, "dim"))
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
    colour = COLOURS.get(name, ("", ""))[count > 0]
    return Text.assemble((f"{name} ", "dim"), (str(count), f"bold {colour}"))


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
